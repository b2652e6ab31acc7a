# SPDX-License-Identifier: Apache-2.0

"""What may go wrong with a server, done to a real one.

Each fault has a server of its own, so that all can be had at once, names the
alerts that have to fire for it, and can be undone.
"""

import pathlib
import resource
import subprocess
import threading
import time
import urllib.request

import grpc
from processes import Etcd, Feed, Server, free_port, wait_until

_DEPLOY = pathlib.Path(__file__).parents[1]
_POLICY = _DEPLOY / "kubernetes" / "policy" / "sidecar.json"

# As much of the protobuf encoding as the faults need, so that they need no
# generated code: Debian's grpcio carries bytes as they are.


def varint(number: int) -> bytes:
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)


def uint(field: int, number: int) -> bytes:
    return varint(field << 3) + varint(number)


def message(field: int, payload: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(payload)) + payload


def groups_request(first_id: int, count: int) -> bytes:
    """An UpdateNextHopsRequest: `count` groups, no two with the same members,
    which wants to know no more than that it is accepted."""
    ack_accepted = 1
    return (b"".join(
        message(
            4,
            uint(1, first_id + i) + message(2, uint(1, 1 + 2 * i)) +
            message(2, uint(1, 2 + 2 * i)))
        for i in range(count)) + uint(6, ack_accepted))


def slow_batch(count: int) -> bytes:
    """A BatchLookupRequest that wants the prefix lengths of so many addresses
    in 2001:db8::/32."""
    prefix = bytes.fromhex("20010db8") + bytes(8)
    addresses = b"".join(prefix + i.to_bytes(4, "big") for i in range(count))
    return message(2, addresses) + uint(7, 1)


class Fault:
    """`prepare` comes first; then `inject`, and `tick` again and again in a
    thread of its own until `undo`; `close` last, in any case."""

    name = ""
    alerts = set()
    load = None  # a Load that ends with the fault
    feed = None  # a Feed that does

    def __init__(self, server: Server):
        self.server = server
        self._stop = threading.Event()
        self._thread = None
        self._error = None

    def prepare(self):
        self.server.start("--generate=1000")

    def inject(self):
        pass

    def tick(self):
        self._stop.wait(600)

    def undo(self):
        pass

    def begin(self):
        self.inject()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        try:
            while not self._stop.is_set():
                self.tick()
                self._stop.wait(0.3)
        except Exception as error:  # shown by check()
            self._error = error

    def check(self):
        if self._error is not None:
            raise RuntimeError(f"{self.name}: {self._error}") from self._error

    def stop_ticks(self):
        self._stop.set()

    def await_end_of_ticks(self):
        if self._thread is not None:
            self._thread.join()
        self.check()

    def close(self):
        self.stop_ticks()
        if self._thread is not None:
            self._thread.join()
        if self.load is not None:
            self.load.close()
        if self.feed is not None:
            self.feed.kill()
        self.server.kill()

    def metrics(self) -> str:
        address = f"http://{self.server.metrics}/metrics"
        with urllib.request.urlopen(address, timeout=30) as answer:
            return answer.read().decode()


class Load:
    """planbctl bench in the background."""

    def __init__(self, server: Server, *flags: str):
        command = [
            server.programs / "planbctl", f"--server={server.target}", "bench",
            "--seconds=600", "--quiet", *flags
        ]
        self._process = subprocess.Popen(command,
                                         stdin=subprocess.DEVNULL,
                                         stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL)

    def close(self):
        self._process.kill()
        self._process.wait()


class Well(Fault):
    """None: lookups and updates, no alert."""

    name = "well"

    def prepare(self):
        self.server.start("--generate=1000")
        # Something of everything that panels show.
        self.load = Load(self.server, "--rate=200000", "--batch=256",
                         "--trace=uniform")
        self.feed = Feed(self.server)
        self.feed.start()
        self.next_hop = 0

    def tick(self):
        self.next_hop += 1
        self.feed.tell(f"2001:db8::/32 {self.next_hop}")
        self.server.ctl("announce", "2001:db8::/32", self.next_hop)


class Down(Fault):
    name = "down"
    alerts = {"PlanBServerDown"}

    def inject(self):
        self.server.kill()

    def undo(self):
        self.server.start("--generate=1000")


class Restarting(Fault):
    name = "restarting"
    alerts = {"PlanBRestarting"}

    def tick(self):
        self.server.kill()
        self.server.start("--generate=1000")
        self._stop.wait(1.5)  # so that it is scraped before the next time


class NoDescriptors(Fault):
    name = "descriptors"
    alerts = {"PlanBFileDescriptorsNearLimit"}

    def inject(self):
        self.load = Load(self.server, "--streams=40", "--rate=40000",
                         "--batch=100")
        time.sleep(2)  # until most are connected

    def tick(self):
        used = self.server.descriptors()
        self.server.limit(resource.RLIMIT_NOFILE, used + used // 10)
        self._stop.wait(1)

    def undo(self):
        self.server.limit(resource.RLIMIT_NOFILE, resource.RLIM_INFINITY)


class NoRoutes(Fault):
    """First most of the routes are lost, then all of them."""

    name = "routes"
    alerts = {"PlanBRoutesLost", "PlanBNoRoutes"}

    def inject(self):
        listed = self.server.ctl("routes", "list").splitlines()
        prefixes = [line.split()[0] for line in listed]
        for i in range(0, len(prefixes), 500):
            self.server.ctl("withdraw", *prefixes[i:i + 500])

    def undo(self):
        table = self.server.work / "table.txt"
        self.server.ctl("generate", "--routes=1000", table)
        self.server.ctl("load", table)


class RebuildFailing(Fault):
    """The process may have no more memory, and is told of thousands of groups,
    16 KiB each: small to accept, large to build."""

    name = "rebuild"
    alerts = {"PlanBRebuildFailing", "PlanBVisibleLagsAccepted"}

    def inject(self):
        spare = 48 << 20
        used = self.server.status_bytes("VmData")
        self.server.limit(resource.RLIMIT_DATA, used + spare)
        method = "/planb.v1.RouteTable/UpdateNextHops"
        with grpc.insecure_channel(self.server.target) as channel:
            channel.unary_unary(method)(groups_request(10_000_000, 6_000),
                                        timeout=60)

    def undo(self):
        # The old generation has answered all the while. Not asked by a call: a
        # new client needs memory, too, and while a rebuild takes all of it and
        # fails there is none for a moment.
        page = self.metrics()
        for stage, generation in ("accepted", 2), ("visible", 1):
            series = f'planb_generation{{table="default",stage="{stage}"}}'
            assert f"{series} {generation}\n" in page, page
        self.server.limit(resource.RLIMIT_DATA, resource.RLIM_INFINITY)


class StoreFailing(Fault):
    """The files of the store may not grow, as on a full disk."""

    name = "store"
    alerts = {"PlanBStoreFailing", "PlanBUpdatesRefused"}
    batch = 0

    def prepare(self):
        self.server.start(store=str(self.server.work / "planb.db"))
        self.server.ctl("announce", "2001:db8::/32", 1)

    def inject(self):
        self.server.limit(resource.RLIMIT_FSIZE, 4096)

    def tick(self):
        self.batch += 1
        self.server.ctl("announce",
                        "2001:db8::/32",
                        1 + self.batch,
                        check=False)

    def undo(self):
        self.server.limit(resource.RLIMIT_FSIZE, resource.RLIM_INFINITY)
        # Accepted now, or this throws.
        self.server.ctl("announce", "2001:db8::/32", 1_000_000)


class SharedStore(Fault):
    """A server whose tables are in an etcd of its own."""

    def __init__(self, server: Server):
        super().__init__(server)
        self.etcd = Etcd(server.work, self.name)

    def serve(self):
        self.server.start(store=f"etcd://{self.etcd.address}/planb")

    def prepare(self):
        self.etcd.start()
        self.serve()
        self.server.ctl("announce", "2001:db8::/32", 1)

    def close(self):
        super().close()
        self.etcd.kill()


class StoreSilent(SharedStore):
    """Its etcd is killed."""

    name = "silent"
    alerts = {"PlanBStoreSilent"}

    def inject(self):
        self.etcd.kill()

    def tick(self):
        # Lookups are answered, or this throws.
        self.server.ctl("lookup", "2001:db8::1")

    def undo(self):
        self.etcd.start()
        # The same server accepts updates again.
        wait_until(
            lambda: self.server.ctl(
                "announce", "2001:db8::/32", 2, check=False),
            "an update after etcd came back")


class StoreUnreadable(SharedStore):
    """The entry that comes next in a table's log is none."""

    name = "unreadable"
    alerts = {"PlanBStoreUnreadable"}

    def inject(self):
        keys = self.etcd.ctl("get", "planb/state/logs/", "--prefix",
                             "--keys-only").split()
        log, _, number = keys[-1].rpartition("/")
        self.etcd.ctl("put", f"{log}/{int(number, 16) + 1:016x}", "no entry")

    def tick(self):
        self.server.ctl("lookup", "2001:db8::1")

    def undo(self):
        # As the runbook says.
        snapshot = self.server.work / "unreadable.plb"
        self.server.ctl("snapshot", "export", snapshot)
        self.server.kill()
        self.etcd.ctl("del", "planb/", "--prefix")
        self.serve()
        self.server.ctl("snapshot", "import", snapshot)
        self.server.ctl("lookup", "2001:db8::1")


class MemoryNearLimit(Fault):
    """A limit that the table nearly reaches, as a first server tells."""

    name = "memory"
    alerts = {"PlanBMemoryNearLimit"}

    def prepare(self):
        self.server.start("--generate=20000")
        for line in self.metrics().splitlines():
            if line.startswith("planb_memory_bound_bytes{"):
                bound = int(float(line.split()[1]))
        self.server.kill()
        limit = bound * 10 // 9
        self.server.start("--generate=20000",
                          f"--max_table_memory_bytes={limit}")

    def undo(self):
        table = self.server.work / "few.txt"
        self.server.ctl("generate", "--routes=1000", table)
        self.server.ctl("routes", "replace", table)


class OverLimit(Fault):
    """A limit that is lower than the table of the store."""

    name = "limit"
    alerts = {"PlanBOverLimit"}

    def prepare(self):
        store = f"{self.server.work}/limit.db"
        self.server.start("--generate=2000", store=store)
        self.server.kill()
        self.server.start("--max_routes=1500", store=store)

    def undo(self):
        table = self.server.work / "within.txt"
        self.server.ctl("generate", "--routes=1000", table)
        self.server.ctl("routes", "replace", table)


class Slow(Fault):
    """Callers ask for prefix lengths, which is for diagnosis, in batches far
    larger than the default lets them."""

    name = "slow"
    alerts = {"PlanBLookupP99High"}

    def prepare(self):
        self.server.start("--generate=1000", "--max_batch_addresses=1000000",
                          "--max_lookup_addresses=1000000")
        self.batch = slow_batch(500_000)

    def tick(self):
        method = "/planb.v1.RouteLookup/BatchLookup"
        batches = [self.batch] * 2
        with grpc.insecure_channel(self.server.target,
                                   options=[("grpc.max_receive_message_length",
                                             -1)]) as channel:
            call = channel.stream_stream(method)(iter(batches), timeout=60)
            assert len(list(call)) == len(batches)


class LookupErrors(Fault):
    name = "errors"
    alerts = {"PlanBLookupErrors"}

    def tick(self):
        self.server.ctl("lookup", "--table=nowhere", "2001:db8::1", check=False)


class CallersRefused(Fault):
    """A socket for a user that no process has."""

    name = "refused"
    alerts = {"PlanBCallersRefused"}

    def prepare(self):
        self.server.start("--generate=1000", "--peer_uids=4242424")

    def tick(self):
        self.server.ctl("--timeout=200ms", "health", check=False)


class PolicyDenies(Fault):
    """Changes over a socket that the shipped policy leaves to lookups, and a
    new policy that is none: the old one stays."""

    name = "policy"
    alerts = {"PlanBCallersRefused", "PlanBPolicyReloadRefused"}

    def prepare(self):
        self.policy = self.server.work / "policy.json"
        self.policy.write_bytes(_POLICY.read_bytes())
        self.server.start(f"--authorization_policy={self.policy}",
                          "--authorization_reload_interval=1s",
                          "--generate=1000")

    def inject(self):
        draft = self.policy.with_suffix(".new")
        draft.write_text("no policy\n")
        draft.rename(self.policy)

    def tick(self):
        self.server.ctl("announce", "2001:db8::/32", 1, check=False)

    def undo(self):
        draft = self.policy.with_suffix(".new")
        draft.write_bytes(_POLICY.read_bytes())
        draft.rename(self.policy)


class CertificateExpiring(Fault):
    """A certificate for a day, whose replacement is at first no good."""

    name = "tls"
    alerts = {
        "PlanBCertificateExpiresSoon", "PlanBCertificateExpiring",
        "PlanBCertificateReloadRefused"
    }

    def prepare(self):
        self.certificate = self.server.work / "certificate.pem"
        self.key = self.server.work / "key.pem"
        self.issue(days=1)
        self.server.start(
            f"--listen={self.server.target},127.0.0.1:{free_port()}",
            f"--tls_cert={self.certificate}", f"--tls_key={self.key}",
            "--tls_reload_interval=1s", "--generate=1000")

    def issue(self, days: int):
        drafts = [f.with_suffix(".new") for f in (self.certificate, self.key)]
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-nodes"] +
                       ["-pkeyopt", "ec_paramgen_curve:prime256v1"] +
                       ["-subj", "/CN=localhost", "-days",
                        str(days)] + ["-out", drafts[0], "-keyout", drafts[1]],
                       check=True,
                       capture_output=True)
        drafts[1].rename(self.key)
        drafts[0].rename(self.certificate)

    def tick(self):
        self.certificate.write_text(f"no certificate {time.time()}\n")
        self._stop.wait(2)

    def undo(self):
        self.issue(days=90)


class FeedDown(Fault):
    name = "feed-down"
    alerts = {"PlanBFeedDown"}

    def prepare(self):
        super().prepare()
        self.feed = Feed(self.server)
        self.feed.tell("2001:db8::/32 7")
        self.feed.start()

    def inject(self):
        self.feed.kill()

    def undo(self):
        self.feed.start()


class FeedWithoutItsSource(FeedDown):
    name = "feed-source"
    alerts = {"PlanBFeedNotReady", "PlanBFeedSessionLost"}

    def inject(self):
        self.feed.kill()
        self.feed.file.unlink()
        self.feed.start()

    def undo(self):
        self.feed.tell("2001:db8::/32 7")


ALL = [
    Well, Down, Restarting, NoDescriptors, NoRoutes, RebuildFailing,
    StoreFailing, StoreSilent, StoreUnreadable, MemoryNearLimit,
    OverLimit, Slow, LookupErrors, CallersRefused, PolicyDenies,
    CertificateExpiring, FeedDown, FeedWithoutItsSource
]

# SPDX-License-Identifier: Apache-2.0

"""The clients of a soak: gRPC and nothing between it and its errors.

What the project's own library bridges without a word, these see and count.
Route changes are confined to 2001:db8:8000::/33, by one writer, which therefore
knows what every address of it leads to; the fixed routes, in 2001:db8::/33,
never change.
"""

import collections
import ipaddress
import random
import ssl
import struct
import threading
import time

import grpc
from planb.v1 import route_lookup_pb2, route_lookup_pb2_grpc
from planb.v1 import route_table_pb2, route_table_pb2_grpc, types_pb2

CALL_TIMEOUT = 60  # seconds: a call that takes longer hangs
FIXED = 512
CHURNED = 512


def fixed_routes():
    """(prefix, next hop) pairs that hold all the time."""
    base = int(ipaddress.ip_address("2001:db8::"))
    return [(ipaddress.ip_network((base + (i << 80), 48)), 1000 + i)
            for i in range(FIXED)]


def churned_prefix(i):
    base = int(ipaddress.ip_address("2001:db8:8000::"))
    # Of all lengths from /48 to /128, and none within another.
    return ipaddress.ip_network((base + (i << 80), 48 + i % 81))


class Tally:
    """What one client did and saw. Thread-safe."""

    def __init__(self, name):
        self.name = name
        self._lock = threading.Lock()
        self.counts = collections.Counter()
        self.errors = []  # (first moment, last moment, code, details)
        self.wrong = []  # the first few, in words

    def add(self, **counts):
        with self._lock:
            self.counts.update(counts)

    def error(self, begun, code, details):
        with self._lock:
            self.errors.append((begun, time.monotonic(), code, details[:200]))

    def wrong_answer(self, words):
        with self._lock:
            self.counts["wrong"] += 1
            if len(self.wrong) < 10:
                self.wrong.append(words)


class Client(threading.Thread):
    """Runs rounds until told to stop; counts the rounds that fail."""

    def __init__(self, name, target, certificates, pause):
        super().__init__(name=name, daemon=True)
        self.tally = Tally(name)
        self.target = target
        self.certificates = certificates
        self.pause = pause
        self.stopping = threading.Event()
        self.failure = None

    def open_channel(self):
        # Channels with equal arguments would share one connection.
        options = [("grpc.use_local_subchannel_pool", 1)]
        if self.certificates is None:
            return grpc.insecure_channel(self.target, options)
        with open(self.certificates.ca, "rb") as file:
            credentials = grpc.ssl_channel_credentials(file.read())
        return grpc.secure_channel(self.target, credentials, options)

    def run(self):
        try:
            while not self.stopping.is_set():
                begun = time.monotonic()
                try:
                    # A new one each time, for a channel that failed waits
                    # before it tries again, and would blame the next life.
                    with self.open_channel() as channel:
                        self.round(channel)
                except grpc.RpcError as error:
                    self.tally.error(begun,
                                     error.code().name,
                                     error.details() or "")
                    self.stopping.wait(0.05)
        except Exception as error:  # a bug here: the soak fails
            self.failure = repr(error)
            raise

    def round(self, channel):
        raise NotImplementedError


class LookupClient(Client):
    """Streams of batches over the fixed routes, every answer compared."""

    BATCHES = 200  # on a stream, of one connection

    def __init__(self, name, target, certificates=None, pause=0.01):
        super().__init__(name, target, certificates, pause)
        source = random.Random(name)
        self.batches = []
        routes = fixed_routes()
        for _ in range(16):
            packed, hops = b"", []
            for _ in range(64):
                prefix, hop = source.choice(routes)
                low = int(prefix.network_address)
                address = low + source.randrange(prefix.num_addresses)
                packed += address.to_bytes(16, "big")
                hops.append(hop)
            self.batches.append((packed, struct.pack("<64I", *hops)))

    def round(self, channel):
        stub = route_lookup_pb2_grpc.RouteLookupStub(channel)
        answered = threading.Semaphore(1)
        done = threading.Event()

        def requests():
            for i in range(self.BATCHES):
                answered.acquire()
                if done.is_set() or self.stopping.wait(self.pause):
                    return
                yield route_lookup_pb2.BatchLookupRequest(
                    request_id=i, addresses_v6=self.batches[i % 16][0])

        try:
            i = 0
            for reply in stub.BatchLookup(requests(), timeout=CALL_TIMEOUT):
                begun = time.monotonic()
                if reply.HasField("error"):
                    code = grpc_code(reply.error.code)
                    self.tally.error(begun, code, reply.error.reason)
                    return
                self.tally.add(batches=1, lookups=64)
                if (reply.request_id,
                        reply.next_hops) != (i, self.batches[i % 16][1]):
                    self.tally.wrong_answer(f"batch {i}: {reply}"[:200])
                i += 1
                answered.release()
        finally:
            done.set()
            answered.release()
        self.tally.add(streams=1)


class UpdateClient(Client):
    """The only writer: announces, replaces and withdraws, and looks at what
    became of it: at once after every acknowledgement, and at all of it on every
    new connection, and so after every restart."""

    BATCHES = 100
    CHANGES = 16

    def __init__(self, target, pause=0.02):
        super().__init__("updates", target, None, pause)
        self.source = random.Random(1)
        self.model = {}  # number of the prefix: next hop
        self.generation = 0
        self.pending = None  # an update whose answer never came
        self.next_request = 0

    def round(self, channel):
        self.table = route_table_pb2_grpc.RouteTableStub(channel)
        self.lookup = route_lookup_pb2_grpc.RouteLookupStub(channel)
        if self.pending is not None:
            # Accepted or not before the end? Asked with the same request id
            # it is accepted once. (A server that restarted has forgotten the
            # id: these operations may be repeated without harm.)
            self.send(*self.pending)
        self.check(range(CHURNED))
        self.tally.add(full_checks=1)
        for _ in range(self.BATCHES):
            if self.stopping.wait(self.pause):
                return
            self.send(*self.make_update())

    def make_update(self):
        OP = route_table_pb2.RouteUpdate
        request = route_table_pb2.UpdateRoutesRequest(
            ack=types_pb2.ACK_VISIBLE, request_id=f"soak-{self.next_request}")
        self.next_request += 1
        after = {}
        for i in self.source.sample(range(CHURNED), self.CHANGES):
            delete = i in self.model and self.source.random() < 0.4
            op = OP.OP_DELETE if delete else OP.OP_UPSERT
            after[i] = 0 if delete else self.source.randrange(1, 1 << 20)
            prefix = churned_prefix(i)
            request.updates.add(op=op,
                                prefix=types_pb2.Prefix(
                                    address=prefix.network_address.packed,
                                    length=prefix.prefixlen),
                                next_hop_id=after[i])
        return request, after

    def send(self, request, after):
        self.pending = (request, after)
        answer = self.table.UpdateRoutes(request, timeout=CALL_TIMEOUT)
        self.pending = None
        for i, hop in after.items():
            known = self.model.pop(i, 0)
            kind = ("announced"
                    if known == 0 else "replaced" if hop else "withdrawn")
            self.tally.add(**{kind: 1})
            if hop:
                self.model[i] = hop
        if answer.generation < self.generation:
            self.tally.wrong_answer(
                f"generation {answer.generation} after {self.generation}")
        self.generation = answer.generation
        self.tally.add(updates=1)
        self.check(after)

    def check(self, numbers):
        """Read your writes: the model is what the generation holds."""
        numbers = list(numbers)
        request = route_lookup_pb2.LookupRequest(min_generation=self.generation)
        for i in numbers:
            last = churned_prefix(i).broadcast_address
            request.addresses.add(packed=last.packed)
        reply = self.lookup.Lookup(request, timeout=CALL_TIMEOUT)
        self.tally.add(lookups=len(numbers))
        for i, result in zip(numbers, reply.results):
            if result.next_hop_id != self.model.get(i, 0):
                self.tally.wrong_answer(
                    f"{churned_prefix(i)}: {result.next_hop_id} in generation "
                    f"{reply.generation}, not {self.model.get(i, 0)}")


def grpc_code(number):
    for code in grpc.StatusCode:
        if code.value[0] == number:
            return code.name
    return str(number)


def served_serial(address):
    """The serial of the certificate that a new connection gets; None: none."""
    host, port = address.rsplit(":", 1)
    try:
        pem = ssl.get_server_certificate((host, int(port)), timeout=10)
    except OSError:
        return None
    return der_serial(ssl.PEM_cert_to_DER_cert(pem))


def der_serial(der):
    """The serialNumber of a certificate: the first INTEGER after the version."""

    def header(at):  # of an element: where its contents begin, how long
        length = der[at + 1]
        if length < 0x80:
            return at + 2, length
        size = length & 0x7F
        return at + 2 + size, int.from_bytes(der[at + 2:at + 2 + size], "big")

    at, _ = header(0)  # Certificate
    at, _ = header(at)  # TBSCertificate
    if der[at] == 0xA0:  # [0] version
        contents, length = header(at)
        at = contents + length
    contents, length = header(at)
    return int.from_bytes(der[contents:contents + length], "big")

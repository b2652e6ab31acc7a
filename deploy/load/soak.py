#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0

"""A server in use for half an hour: lookups, updates, restarts, rotation.

    deploy/load/soak.py BIN OUTPUT_DIR [--seconds=1800] [--routes=100000]

BIN holds planb_server and planbctl. The server keeps its tables in an SQLite
store and serves a Unix socket and, where there is `openssl`, TLS over TCP. For
the first 40% of the time it is ended and started again by turns: SIGTERM,
kill -9. All the time certificates rotate, one writer announces, replaces and
withdraws routes and reads them back, and clients look up over both kinds of
socket and compare every answer. In the remaining 60% memory is watched.

Leaves OUTPUT_DIR/report.json, server.log, and soak.png where there is
matplotlib. Exit code 0 if no error came but the announced ones (UNAVAILABLE
between the end of a server and its return, and CANCELLED from one that drains;
callers of the client library see not even these), no answer was wrong, no
acknowledged change lost, every new certificate served, and memory did not grow;
soak_report.py says what that means. Under about fifteen minutes, the slope of memory is only reported.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

TURBULENT = 0.4  # of the time
WARM_UP = 0.25  # of the rest
MIN_LIFE = 4  # seconds: clients try again every two at the latest

HERE = os.path.dirname(os.path.abspath(__file__))
PROTO = os.path.join(HERE, "..", "..", "proto")


def import_stubs(folder):
    """Generates the stubs of the contract and makes them importable."""
    plugin = shutil.which("grpc_python_plugin")
    protoc = [
        "protoc", f"-I{PROTO}", f"--python_out={folder}",
        f"--grpc_out={folder}", f"--plugin=protoc-gen-grpc={plugin}"
    ]
    protos = [
        f"planb/v1/{name}.proto" for name in ("types", "route_lookup",
                                              "route_table")
    ]
    subprocess.run(protoc + protos, check=True)
    sys.path.insert(0, folder)


def write_tables(planbctl, routes, folder):
    """The table to begin with, and of it what never changes."""
    import soak_clients

    fixed = os.path.join(folder, "fixed")
    with open(fixed, "w", encoding="ascii") as file:
        for prefix, hop in soak_clients.fixed_routes():
            file.write(f"{prefix} {hop}\n")
    made_up = subprocess.run([planbctl, "generate", f"--routes={routes}"],
                             check=True,
                             stdout=subprocess.PIPE,
                             text=True).stdout
    everything = os.path.join(folder, "everything")
    with open(everything, "w", encoding="ascii") as file:
        # What the clients know all about is theirs alone.
        file.writelines(
            line for line in made_up.splitlines(keepends=True)
            if not line.startswith("2001:db8:") and not line.startswith("::/"))
        with open(fixed, encoding="ascii") as more:
            file.write(more.read())
    return fixed, everything


class Soak:

    def __init__(self, options, folder):
        import soak_clients
        import soak_server

        self.options = options
        self.planbctl = os.path.join(options.bin, "planbctl")
        self.certificates = None
        if shutil.which("openssl"):
            os.mkdir(os.path.join(folder, "tls"))
            self.certificates = soak_server.Certificates(
                os.path.join(folder, "tls"))
        self.server = soak_server.Server(
            os.path.join(options.bin, "planb_server"), folder,
            self.certificates)
        self.served_serial = soak_clients.served_serial
        self.fixed, everything = write_tables(self.planbctl, options.routes,
                                              folder)
        self.server.start()
        subprocess.run(
            [self.planbctl, f"--server={self.server.unix}", "load", everything],
            check=True,
            stdout=subprocess.DEVNULL)
        self.clients = [
            soak_clients.UpdateClient(self.server.unix),
            soak_clients.LookupClient("unix", self.server.unix)
        ]
        if self.certificates is not None:
            self.clients.append(
                soak_clients.LookupClient("tls", self.server.tcp,
                                          self.certificates))
        self.begin = None
        self.samples = []  # (seconds, life, bytes)
        self.rates = []  # (seconds, checked lookups a second)
        self.restarts = []
        self.windows = []  # as soak_report.sort_errors wants them
        self.rotations = []
        self.callers = {}
        self.stopping = threading.Event()

    def now(self):
        return time.monotonic() - self.begin

    def sample(self):
        """A thread of its own: restarts must not keep it from looking."""
        every = max(0.5, self.options.seconds / 2000)
        before, before_at = 0, 0.0
        while not self.stopping.wait(every):
            resident = self.server.resident_bytes()
            at = self.now()
            if resident is not None:
                self.samples.append((at, self.server.life.number, resident))
            lookups = sum(c.tally.counts["lookups"] for c in self.clients)
            self.rates.append((at, (lookups - before) / (at - before_at)))
            before, before_at = lookups, at

    def restart(self, how):
        at = self.now()
        down = time.monotonic()
        code = self.server.stop(how)
        ended = time.monotonic()
        self.server.start()
        self.windows.append(
            (down, self.server.life.serving, how == signal.SIGTERM))
        self.restarts.append({
            "at": at,
            "signal": how.name,
            "exit_code": code,
            "due_code": 0 if how == signal.SIGTERM else -how,
            "seconds_to_end": ended - down,
            "seconds_to_serve": self.server.life.serving - ended
        })

    def rotate(self):
        at = self.now()
        serial = self.certificates.rotate()
        seen = None
        while self.now() < at + 60:
            if self.served_serial(self.server.tcp) == serial:
                seen = self.now() - at
                break
            time.sleep(0.2)
        self.rotations.append({"at": at, "serial": serial, "seen_after": seen})

    def events(self):
        """(when, what) in order."""
        seconds = self.options.seconds
        restarts = max(2, round(TURBULENT * seconds / 60))
        events = []
        for i in range(restarts):
            how = (signal.SIGTERM, signal.SIGKILL)[i % 2]
            events.append((TURBULENT * seconds * (i + 1) / (restarts + 1),
                           lambda how=how: self.restart(how)))
        if self.certificates is not None:
            every = max(5.0, seconds / 20)
            events += [(every * (i + 0.5), self.rotate)
                       for i in range(int(seconds / every))]
        return sorted(events, key=lambda event: event[0])

    def start_caller(self, *flags):
        """A caller of the client library, until it gets SIGTERM."""
        command = [
            self.planbctl, "soak", "--json", *flags,
            f"--seconds={self.options.seconds + 3600}", "--timeout=60s",
            "--batch=64", "--rate=12800", self.fixed
        ]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def run(self):
        self.begin = time.monotonic()
        self.callers["library"] = self.start_caller(
            f"--server={self.server.unix}")
        if self.certificates is not None:
            self.callers["library over TLS"] = self.start_caller(
                f"--server={self.server.tcp}",
                f"--tls_ca={self.certificates.ca}")
        sampler = threading.Thread(target=self.sample)
        sampler.start()
        for client in self.clients:
            client.start()
        try:
            for when, what in self.events():
                time.sleep(max(0.0, when - self.now()))
                what()
                # Where all is slow, events come late, but not at once: each
                # life is long enough for all clients to reconnect.
                if self.windows:
                    since = time.monotonic() - self.windows[-1][1]
                    time.sleep(max(0.0, MIN_LIFE - since))
            time.sleep(max(0.0, self.options.seconds - self.now()))
        finally:
            for client in self.clients:
                client.stopping.set()
            for client in self.clients:
                client.join(timeout=120)
            self.stopping.set()
            sampler.join()
            for caller in self.callers.values():
                caller.terminate()

    def report(self):
        import soak_report

        said = {
            name: caller.communicate(timeout=120)[0]
            for name, caller in self.callers.items()
        }
        updates = self.clients[0].tally.counts["updates"]
        steady = TURBULENT * self.options.seconds
        report = {
            "seconds": self.options.seconds,
            "routes": self.options.routes,
            "tls": self.certificates is not None,
            "clients": {
                client.name: {
                    "counts": dict(client.tally.counts),
                    "errors": soak_report.sort_errors(client.tally.errors,
                                                      self.windows),
                    "details": sorted({e[3] for e in client.tally.errors})[:20],
                    "wrong": client.tally.wrong,
                    "failure": client.failure or
                    ("does not end" if client.is_alive() else None)
                } for client in self.clients
            },
            "library": {
                name: {
                    "exit_code": caller.returncode,
                    **json.loads(said[name] or "{}")
                } for name, caller in self.callers.items()
            },
            "restarts": self.restarts,
            "rotations": self.rotations,
            "memory": soak_report.memory(
                self.samples,
                steady + WARM_UP * (self.options.seconds - steady),
                self.options.seconds, updates / self.options.seconds),
            "samples": self.samples,
            "rates": self.rates
        }
        report["reasons"] = soak_report.reasons_against(report)
        report["verdict"] = "FAIL" if report["reasons"] else "PASS"
        return report


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("out")
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--routes", type=int, default=100_000)
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="planb_soak.",
                                     dir="/tmp") as folder:
        import_stubs(folder)
        import soak_report

        soak = None
        try:
            soak = Soak(options, folder)
            soak.run()
            report = soak.report()
        finally:
            if soak is not None:
                soak.server.kill()
            log = os.path.join(folder, "server.log")
            if os.path.exists(log):
                shutil.copy(log, options.out)
    path = os.path.join(options.out, "report.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)
        file.write("\n")
    soak_report.show(report)
    try:
        soak_report.plot(report, os.path.join(options.out, "soak.png"))
    except ImportError:
        print("no matplotlib here, so no plot")
    return 1 if report["reasons"] else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0

"""How much memory a server takes, by formula, and whether that is so.

sizing.py --routes=N [--quota=BYTES]                what to request
sizing.py --routes=N [--quota=BYTES] --check=BIN    measures it

request = PROGRAM + ROUTE x routes + quota, where
- PROGRAM is the code, the threads' stacks and the history of changes of one
  table (--history_bytes, 16 MiB; each further table may keep as much again);
- ROUTE is 2 FIBs (the one that serves and the one being compiled), the RIB in
  up to three versions (visible, accepted, being changed), and the batch that a
  replacement of the whole table arrives in;
- quota is --memory_quota_bytes, what connections' messages may take.
With --max_routes the request is what the server comes to at most, for tables
like the Internet's. Tables made to cost as much as they can may take more: that
is what limit = PROGRAM + --max_table_memory_bytes + quota is for, which a server
of one table refuses updates rather than exceed.

BIN holds planb_server and planbctl. The check starts a server with N IPv6 and
IPv4 routes, replaces all of them by others while clients look up, and compares
the peak of its resident memory with the formula, both ways: a request that is
several times too large is a wrong one too.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

MIB = 1 << 20
PROGRAM = 48 * MIB
ROUTE = 256
DEFAULT_QUOTA = 256 * MIB
# A request may be so many times what a busy server takes that does not exhaust
# its quota.
MAX_EXCESS = 3


def request_bytes(routes, quota=DEFAULT_QUOTA):
    return PROGRAM + ROUTE * routes + quota


def limit_bytes(table_memory, quota=DEFAULT_QUOTA):
    return PROGRAM + table_memory + quota


class Server:
    """A planb_server of our own, ended with the block."""

    def __init__(self, binaries, folder, arguments):
        self.log = os.path.join(folder, "log")
        self.socket = f"unix://{folder}/planb.sock"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [
                    os.path.join(binaries, "planb_server"),
                    f"--listen={self.socket}",
                    "--metrics_address=127.0.0.1:0",
                    "--store=none",
                    *arguments,
                ],
                stderr=log,
            )

    def __enter__(self):
        self.metrics_port = int(self.await_log(r"metrics .*port=(\d+)"))
        self.await_log(r"( serving)$")
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def await_log(self, pattern):
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with open(self.log, encoding="utf-8") as log:
                text = log.read()
            found = re.search(pattern, text, re.MULTILINE)
            if found:
                return found.group(1)
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise SystemExit(f"FAIL: the server did not start: {text}")

    def await_lookups(self):
        deadline = time.monotonic() + 60
        while self.metric("planb_lookups_total") == 0:
            if time.monotonic() > deadline:
                raise SystemExit("FAIL: no lookups")
            time.sleep(0.1)

    def peak(self):
        """The most that was resident since it started, in bytes."""
        with open(
            f"/proc/{self.process.pid}/status", encoding="utf-8"
        ) as status:
            return 1024 * int(re.search(r"VmHWM:\s+(\d+)", status.read())[1])

    def metric(self, name):
        """The sum of all series of this name."""
        url = f"http://127.0.0.1:{self.metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=60) as answer:
            text = answer.read().decode()
        values = re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE)
        if not values:
            raise SystemExit(f"FAIL: no metric {name}")
        return sum(float(value) for value in values)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"FAIL: {command[1:]}: {done.stdout}{done.stderr}")
    return done.stdout


def check(binaries, routes, quota, folder):
    planbctl = os.path.join(binaries, "planbctl")
    ipv4 = routes // 2
    tables = []
    for seed in (7, 8):
        tables.append(os.path.join(folder, f"table{seed}.txt"))
        run(
            planbctl,
            "generate",
            f"--routes={routes - ipv4}",
            f"--ipv4={ipv4}",
            f"--seed={seed}",
            f"--output={tables[-1]}",
        )
    arguments = [
        f"--generate={routes - ipv4}",
        f"--generate_ipv4={ipv4}",
        f"--max_routes={routes}",
        f"--memory_quota_bytes={quota}",
    ]
    with Server(binaries, folder, arguments) as server:
        common = [f"--server={server.socket}", "--timeout=120s"]
        bench = ["--quiet", "--streams=8", "--batch=16384", "--depth=8"]
        with subprocess.Popen(
            [planbctl, *common, "bench", "--seconds=3600", *bench],
            stdout=subprocess.DEVNULL,
        ) as clients:
            try:
                server.await_lookups()
                for table in tables:
                    run(planbctl, *common, "routes", "replace", table)
                if clients.poll() is not None:
                    raise SystemExit("FAIL: the clients ended")
            finally:
                clients.terminate()
        fib = server.metric("planb_fib_bytes")
        rib = server.metric("planb_rib_bytes")
        return fib, rib, server.peak()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--routes", type=int, required=True)
    parser.add_argument("--quota", type=int, default=DEFAULT_QUOTA)
    parser.add_argument("--check", metavar="BIN")
    flags = parser.parse_args()
    request = request_bytes(flags.routes, flags.quota)
    print(f"{flags.routes} routes: request {request / MIB:.0f} MiB")
    if not flags.check:
        return
    with tempfile.TemporaryDirectory() as folder:
        fib, rib, peak = check(flags.check, flags.routes, flags.quota, folder)
    print(
        f"measured: peak {peak / MIB:.0f} MiB resident;"
        f" FIB {fib / MIB:.2f} MiB, RIB {rib / MIB:.2f} MiB"
    )
    if request < peak:
        sys.exit("FAIL: the server took more than the formula says")
    if request - PROGRAM - flags.quota < 2 * fib + rib:
        sys.exit("FAIL: the formula has no room for two FIBs and the RIB")
    if request - flags.quota > MAX_EXCESS * peak:
        sys.exit("FAIL: the formula asks for several times what it takes")
    print("PASS: the formula holds")


if __name__ == "__main__":
    main()

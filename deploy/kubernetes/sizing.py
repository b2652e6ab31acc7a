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
is what limit = PROGRAM + --max_table_memory_bytes + quota + UPDATES + WAITING is for,
which a server of one table refuses updates rather than exceed. UPDATES is
--update_memory_bytes, what requests for changes may take once they are parsed, and
WAITING what calls of Lookup may hold that wait.

BIN holds planb_server and planbctl. The check starts a server with N IPv6 and
IPv4 routes, replaces all of them by others while clients look up, and compares
the peak of its resident memory with the formula, both ways: a request that is
several times too large is a wrong one too.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

MIB = 1 << 20
PROGRAM = 48 * MIB
ROUTE = 256
WAITING = 64 * MIB
# A request may be so many times what a busy server takes that does not exhaust
# its quota.
MAX_EXCESS = 3
# Has the defaults of the server's flags.
README = (pathlib.Path(__file__).resolve().parents[2] / "README.md").read_text()


def size_of_flag(text):
    """Bytes that a flag of the server means by `text`, such as 64MiB."""
    for unit, factor in (("KiB", 1 << 10), ("MiB", MIB), ("GiB", 1 << 30)):
        if text.endswith(unit):
            return int(text.removesuffix(unit)) * factor
    return int(text)


def default_size(flag):
    return size_of_flag(re.search(rf"`--{flag}=(\w+)`", README)[1])


DEFAULT_QUOTA = default_size("memory_quota_bytes")
UPDATES = default_size("update_memory_bytes")


def request_bytes(routes, quota=DEFAULT_QUOTA):
    return PROGRAM + ROUTE * routes + quota


def limit_bytes(table_memory, quota=DEFAULT_QUOTA):
    return PROGRAM + table_memory + quota + UPDATES + WAITING


def check(binaries, routes, quota, folder):
    """What FIB and RIB took in the end, and the peak of the process: bytes."""
    sys.path.append(str(pathlib.Path(__file__).parents[1] / "monitoring"))
    from processes import Server, wait_until

    ipv4 = routes // 2
    server = Server(binaries, folder, "server")
    try:
        tables = [folder / f"table{seed}.txt" for seed in (7, 8)]
        for seed, table in zip((7, 8), tables):
            server.ctl("generate", f"--routes={routes - ipv4}",
                       f"--ipv4={ipv4}", f"--seed={seed}", table)
        server.start(f"--generate={routes - ipv4}", f"--generate_ipv4={ipv4}",
                     f"--max_routes={routes}", f"--memory_quota_bytes={quota}")
        bench = [binaries / "planbctl", f"--server={server.target}",
                 "--timeout=120s", "bench", "--seconds=3600", "--quiet",
                 "--streams=8", "--batch=16384", "--depth=8"]
        with subprocess.Popen(bench, stdout=subprocess.DEVNULL) as clients:
            try:
                wait_until(lambda: server.metric("planb_lookups_total") > 0,
                           "lookups")
                for table in tables:
                    server.ctl("--timeout=120s", "routes", "replace", table,
                               timeout=150)
                if clients.poll() is not None:
                    raise SystemExit("FAIL: the clients ended")
            finally:
                clients.terminate()
        return (server.metric("planb_fib_bytes"),
                server.metric("planb_rib_bytes"), server.status_bytes("VmHWM"))
    finally:
        server.kill()


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
        fib, rib, peak = check(pathlib.Path(flags.check), flags.routes,
                               flags.quota, pathlib.Path(folder))
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

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Measures how soon changes are visible, for tables of all sizes.

    bazel build --config=opt //server:planb_server //benchmarks/serving/visibility
    benchmarks/serving/visibility/run.py --machine=NAME    # results/visibility_NAME.csv
    benchmarks/serving/visibility/run.py --short --out=/tmp/short.csv

Starts servers, with and without a store, loads each with a table and has the
program `visibility` change it, and prints what all rows come to. README.md says what
is measured and how. A broken promise, or a server that fails, ends it with exit code 1.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "rpc"))

import compare  # pylint: disable=wrong-import-position
import contenders  # pylint: disable=wrong-import-position
import records  # pylint: disable=wrong-import-position

sys.path.insert(0, HERE)
import report  # pylint: disable=wrong-import-position

# Replacements come last: they leave the table as it was loaded.
WORKLOADS = ("one", "one_full", "batch_10000", "stream_100", "stream_1000",
         "stream_10000", "packed_1000", "packed_10000", "replace_near", "replace_other")
SHORT_WORKLOADS = ("one", "batch_1000", "stream_100", "replace_near",
               "replace_other")
# The last of them is the load that all else goes on from.
LOADS = ("load_update", "load_stream", "load_packed", "load_replace")

PATIENCE = 3600  # seconds that one run of `visibility` may take


class Writer(records.Writer):
    """Says, besides, what a workload came to."""

    def add(self, row):
        super().add(row)
        if row["repeat"] == "all" or "lookups_per_second" not in row:
            visible = row.get("visible_us_p50", "")
            if visible != "":
                visible = f", visible after {visible / 1000:.3f} ms"
            print(f"{row['table']} {row['store']} {row['workload']}: "
                  f"{row['seconds']:.3f} s{visible}",
                  file=sys.stderr, flush=True)


class Server(contenders.Process):
    """planb_server on a Unix socket; its control threads, which the rebuilder
    is one of, on some cores, its lookup thread on another.
    """

    def __init__(self, args, folder, store):
        self.address = f"unix://{folder}/planb.sock"
        self.started = time.time()
        super().__init__([
            os.path.join(args.bin, "server/planb_server"),
            f"--listen={self.address}",
            "--metrics_address=",
            "--log_level=warning",
            "--lookup_threads=1",
            f"--lookup_cpus={args.lookup_cpu}",
            f"--store={store or 'none'}",
            f"--store_sync={args.store_sync}",
        ], os.path.join(folder, "server.log"), args.server_cpus)


def ask(args, server, *more):
    """Runs `visibility` to its end; what its lines of JSON say."""
    argv = [
        os.path.join(args.bin, "benchmarks/serving/visibility/visibility"),
        f"--server={server.address}",
        f"--server_pid={server.pid}",
        *more,
    ]
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False, timeout=PATIENCE)
    if done.returncode != 0:
        raise RuntimeError(
            f"{' '.join(argv)}\nexit code {done.returncode}: "
            f"{done.stderr[-1000:]}\nserver: {server.last_words()}"
        )
    return [json.loads(line) for line in done.stdout.splitlines()]


def measure(args, folder, table, store, writer):
    """Everything about one table, kept in one way."""
    source = f"--table={args.routes if table == 'real' else table}"
    case = {"table": table, "store": store}
    common = [source, f"--cpu={args.client_cpu}",
              f"--lookup_cpu={args.lookup_cpu}", f"--repeats={args.repeats}",
              f"--seconds={args.seconds}", f"--rate={args.rate}"]

    def go_through(load, workloads, place):
        database = None if store == "none" else os.path.join(place, "planb.db")
        server = Server(args, folder, database)
        try:
            for row in ask(args, server, *common, f"--load={load}",
                           f"--workloads={','.join(workloads)}"):
                writer.add({**case, **row})
            if workloads and database:
                for name, how in (("kill", signal.SIGKILL),
                                  ("term", signal.SIGTERM)):
                    server.stop(how)
                    server = Server(args, folder, database)
                    row = restarted(args, server, source)
                    writer.add({**case, "workload": f"restart_{name}", **row})
        finally:
            server.stop(signal.SIGTERM)

    for load in LOADS:
        with tempfile.TemporaryDirectory(
            prefix="planb_vis.", dir=args.store_dir
        ) as place:
            go_through(load, args.workloads if load == LOADS[-1] else (), place)


def restarted(args, server, source):
    """How long a server took from its start until it answered. That it has the
    table, every route, is checked after that.
    """
    (line,) = ask(args, server, "--await")
    ask(args, server, source)
    return {
        "repeat": "0",
        "routes": line["routes"],
        "seconds": line["unix_nanos"] * 1e-9 - server.started,
    }


def parse(argv):
    def listed(kind):
        return lambda text: [kind(word) for word in text.split(",") if word]

    last = max(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--short", action="store_true",
                        help="small tables, moments: that all of it runs")
    parser.add_argument("--machine",
                        default=compare.bench.make_of(compare.bench.machine()))
    parser.add_argument("--out", help="default: results/visibility_MACHINE.csv")
    parser.add_argument("--tables", type=listed(str),
                        help="numbers of made-up routes, or real")
    parser.add_argument("--routes", help="the file of the table `real`; "
                        "default: in PLANB_DATA_DIR")
    parser.add_argument("--stores", type=listed(str),
                        default=["none", "sqlite"])
    parser.add_argument("--store_dir", help="on the disk that counts; "
                        "default: a temporary folder")
    parser.add_argument("--store_sync", default="full")
    parser.add_argument("--workloads", type=listed(str))
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--seconds", type=float, help="each repeat, at least")
    parser.add_argument("--rate", type=float, default=200,
                        help="changes a second of the workload `one`")
    parser.add_argument("--server_cpus", type=listed(int), default=[0],
                        help="for all but its lookups")
    parser.add_argument("--client_cpu", type=int, default=0)
    parser.add_argument("--lookup_cpu", type=int, default=last,
                        help="of both ends of the lookups")
    parser.add_argument("--bin", default="bazel-bin")
    args = parser.parse_args(argv)
    short = args.short
    if args.workloads is None:
        args.workloads = SHORT_WORKLOADS if short else WORKLOADS
    if args.repeats is None:
        args.repeats = 1 if short else 7
    if args.seconds is None:
        args.seconds = 0.05 if short else 2
    if args.routes is None:
        args.routes = os.path.join(
            os.environ.get("PLANB_DATA_DIR", "../shared/data"),
            "rv6_20260730.txt",
        )
    if args.tables is None:
        args.tables = ["1000", "10000"]
        if not short:
            real = "real" if os.path.exists(args.routes) else "259000"
            args.tables += ["100000", real, "1000000"]
    if args.out is None:
        args.out = os.path.join(HERE, "results",
                                f"visibility_{args.machine}.csv")
    return args


def main(argv=None):
    args = parse(argv)
    os.makedirs(os.path.dirname(os.path.abspath(args.out)), exist_ok=True)
    about = compare.machine(args)
    writer = Writer(args.out, report.COLUMNS, report.CASE)
    try:
        for table in args.tables:
            for store in args.stores:
                with tempfile.TemporaryDirectory(prefix="planb_vis.") as folder:
                    measure(args, folder, table, store, writer)
    except (OSError, RuntimeError) as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 1
    with open(args.out.removesuffix(".csv") + ".machine.json", "w",
              encoding="utf-8") as file:
        json.dump(about, file, indent=1)
        file.write("\n")
    print(report.render(report.read(args.out)), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())

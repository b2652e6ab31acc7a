#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Measures lookups over gRPC beside what they are compared with, in turns.

    benchmarks/serving/rpc/compare.py --routes=FILE --out=DIR
    benchmarks/serving/rpc/compare.py --markdown=DIR/throughput.csv

Writes DIR/throughput.csv with every repeat as it is taken, then
DIR/throughput.machine.json, and prints what the repeats come to, as --markdown
does anew. A wrong answer, or a client that fails, ends it with exit code 1.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import contenders
import records
from records import cell

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1]))

import bench  # pylint: disable=wrong-import-position

BATCHES = (1, 32, 256, 1024, 4096, 16384, 65536)
RATE = "lookups_per_second"

# The columns of the file, in this order.
COLUMNS = [
    "kind",  # what was measured: server, bare, socket, ...
    "transport",  # unix or tcp
    "form",  # full or upper
    "batch",
    "depth",  # batches in flight on the one stream
    "repeat",  # the turn
    "seconds",
    "lookups",
    RATE,
    "latency_us_p50",
    "latency_us_p99",
    "client_cpu_us_per_lookup",  # the same as seconds a million lookups
    "server_cpu_us_per_lookup",
    "other_cpu_seconds",  # used by neither end while the client ran
]
CASE = ("kind", "transport", "form", "batch", "depth")
TEXTS = ("kind", "transport", "form")


def read(path):
    return records.read(path, TEXTS)


def row_of(said):
    """The columns that a client's JSON fills."""
    lookups = float(said["lookups"])
    seconds = float(said["seconds"])
    row = {
        "seconds": seconds,
        "lookups": lookups,
        RATE: lookups / seconds,
        "other_cpu_seconds": said["other_cpu_seconds"],
    }
    for column in COLUMNS:
        if column.startswith("latency_us_") and column in said:
            row[column] = float(said[column])
    for end in ("client", "server"):
        used = said.get(f"{end}_cpu_seconds")
        if used is not None and lookups > 0:
            row[f"{end}_cpu_us_per_lookup"] = 1e6 * float(used) / lookups
    return row


def check_answers(all_of, kinds, transports, forms):
    """Every answer of a second, compared with the table, before any is timed."""
    for kind in kinds:
        for transport in transports:
            for form in forms:
                said = all_of.ask(kind, transport, form, 4096, 4, check=True)
                if float(said.get("mismatches", 1)) != 0:
                    raise RuntimeError(f"{kind} {form}: wrong answers: {said}")


def measure(args, all_of, writer):
    check_answers(all_of, args.kinds, args.transports, args.forms)
    cases = [(repeat, batch, transport, form, kind)
             for repeat in range(args.repeats) for batch in args.batches
             for transport in args.transports for form in args.forms
             for kind in args.kinds]
    for repeat, batch, transport, form, kind in cases:
        depth = 1
        if kind not in ("socket", "socket_spin"):
            depth = args.depth or contenders.depth_for(batch)
        row = row_of(all_of.ask(kind, transport, form, batch, depth))
        writer.add({"kind": kind, "transport": transport, "form": form,
                    "batch": batch, "depth": depth, "repeat": repeat, **row})
        print(f"{repeat} {kind} {transport} {form} {batch}: {row[RATE] / 1e6:.3f} M/s",
              file=sys.stderr, flush=True)


def median(rows, column):
    """None if no row has it."""
    values = [float(row[column]) for row in rows if row[column] != ""]
    return statistics.median(values) if values else None


def ratio(rows, others):
    """Median of rows/others, turn by turn: a shared machine changes its pace between
    turns. None if no turn has both.
    """
    theirs = {row["repeat"]: row[RATE] for row in others}
    ratios = [row[RATE] / theirs[row["repeat"]] for row in rows
              if theirs.get(row["repeat"])]
    return statistics.median(ratios) if ratios else None


def summary(rows):
    """A line a case: the median of its rates, the least and most, and the shares of
    the sockets that differ from it only in being one.
    """
    lines = []
    cases = records.by_case(rows, CASE)
    for case in sorted(cases, key=lambda c: (c[1], c[2], float(c[3]))):
        kind, transport, form, batch, _ = case
        own = cases[case]
        rates = [row[RATE] for row in own]
        shares = [None if kind == socket else ratio(own, [
            row for row in rows if (row["kind"], row["transport"], row["form"],
                                    row["batch"]) == (socket, transport, form, batch)])
                  for socket in contenders.SOCKETS]
        lines.append([
            transport, form, f"{batch:.0f}", kind, cell(median(own, RATE), 1e-6),
            f"{cell(min(rates), 1e-6)}..{cell(max(rates), 1e-6)}",
            *map(cell, shares),
            *(cell(median(own, f"{end}_cpu_us_per_lookup"), 1e3)
              for end in ("client", "server")),
            *(cell(median(own, f"latency_us_{rank}")) for rank in ("p50", "p99"))])
    return records.markdown(
        ["transport", "form", "batch", "kind", "M lookups/s", "least..most",
         *(f"of {socket}" for socket in contenders.SOCKETS), "client ns/lookup",
         "server ns/lookup", "batch p50 us", "p99 us"], lines)


def machine(args):
    """What the figures depend on."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=HERE,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            text=True, check=False).stdout.strip()
    control = pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control")
    return {
        **bench.machine(),
        "tcp_congestion_control": control.read_text(encoding="ascii").strip(),
        "commit": commit,
        "load_before": os.getloadavg()[0],
        "arguments": {key: os.path.basename(value) if key == "routes" and value
                      else value for key, value in vars(args).items()
                      if key not in ("bin", "out")},
    }


def parse(argv):
    def listed(kind):
        return lambda text: [kind(word) for word in text.split(",")]

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", help="a folder")
    what.add_argument("--markdown", metavar="FILE",
                      help="only: what these repeats come to")
    table = parser.add_mutually_exclusive_group()
    table.add_argument("--routes", help="default: the real table, see README")
    table.add_argument("--generate", type=int, default=0,
                       help="so many made-up routes")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1, help="each")
    parser.add_argument("--warm_up", type=float, default=0.2)
    parser.add_argument("--batches", type=listed(int), default=list(BATCHES))
    parser.add_argument("--transports", type=listed(str),
                        default=["unix", "tcp"])
    parser.add_argument("--forms", type=listed(str), default=["full", "upper"])
    parser.add_argument("--kinds", type=listed(str),
                        default=list(contenders.LOOKUPS))
    parser.add_argument("--depth", type=int, help="default: by batch size")
    parser.add_argument("--server_cpus", type=listed(int), default=[0])
    parser.add_argument("--client_cpus", type=listed(int), default=[1])
    parser.add_argument("--server_args", type=str.split, default=[],
                        help="more flags of planb_server")
    parser.add_argument("--bin", default="bazel-bin")
    args = parser.parse_args(argv)
    if not args.markdown and not args.generate and not args.routes:
        args.routes = os.path.join(
            os.environ.get("PLANB_DATA_DIR", "../shared/data"),
            "rv6_20260730.txt",
        )
    if args.routes and not os.path.exists(args.routes):
        parser.error(f"no {args.routes}: set PLANB_DATA_DIR, or --generate")
    return args


def main(argv=None):
    args = parse(argv)
    if args.markdown:
        print(summary(read(args.markdown)), end="")
        return 0
    os.makedirs(args.out, exist_ok=True)
    stem = os.path.join(args.out, "throughput")
    about = machine(args)
    with tempfile.TemporaryDirectory(prefix="planb_rpc.") as folder:
        all_of = contenders.Contenders(args, folder)
        writer = records.Writer(stem + ".csv", COLUMNS, CASE)
        try:
            measure(args, all_of, writer)
        except RuntimeError as error:
            print(f"compare.py: {error}", file=sys.stderr)
            return 1
        finally:
            all_of.close()
    with open(stem + ".machine.json", "w", encoding="utf-8") as file:
        json.dump(about, file, indent=1)
        file.write("\n")
    print(summary(read(stem + ".csv")), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())

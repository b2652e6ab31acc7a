#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Measures lookups over gRPC beside what they are compared with, in turns.

    benchmarks/serving/rpc/compare.py throughput --routes=FILE --out=DIR
    benchmarks/serving/rpc/compare.py load       --routes=FILE --out=DIR

Writes DIR/EXPERIMENT.csv with every repeat as it is taken, then
DIR/EXPERIMENT.md and DIR/EXPERIMENT.json with what they come to, and
DIR/EXPERIMENT.machine.json. README.md says what each experiment is. A wrong
answer, or a client that fails, ends it with exit code 1.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile

import contenders
import records

BATCHES = (1, 32, 256, 1024, 4096, 16384, 65536)


def row_of(said):
    """The columns that a client's JSON fills."""
    lookups = float(said["lookups"])
    seconds = float(said["seconds"])
    row = {
        "seconds": seconds,
        "lookups": lookups,
        "lookups_per_second": lookups / seconds,
        "other_cpu_seconds": said["other_cpu_seconds"],
    }
    for column in records.COLUMNS:
        if column.startswith("latency_us_") and column in said:
            row[column] = float(said[column])
    for end in ("client", "server"):
        used = said.get(f"{end}_cpu_seconds")
        if used is not None and lookups > 0:
            row[f"{end}_cpu_us_per_lookup"] = 1e6 * float(used) / lookups
    if "unanswered_batches" in said:
        row["unanswered"] = float(said["unanswered_batches"])
    return row


def say(row):
    print(
        " ".join(
            str(row.get(key, ""))
            for key in ("repeat", "kind", "transport", "form", "batch")
            if row.get(key, "") != ""
        )
        + f": {row['lookups_per_second'] / 1e6:.3f} M/s",
        file=sys.stderr,
        flush=True,
    )


def take(writer, said, **case):
    row = {"transport": "unix", "form": "full",
           **case, **row_of(said)}
    writer.add(row)
    say(row)


def check_answers(all_of, kinds, transports, forms):
    """Every answer of a second, compared with the table, before any is timed.
    (The socket's client does so by itself.)
    """
    for kind in kinds:
        if kind in contenders.SOCKETS:
            continue
        for transport in transports:
            for form in forms:
                said = all_of.ask(kind, transport, form, 4096, 4, check=True)
                if float(said.get("mismatches", 1)) != 0:
                    raise RuntimeError(f"{kind} {form}: wrong answers: {said}")


def throughput(args, all_of, writer):
    check_answers(all_of, args.kinds, args.transports, args.forms)
    for repeat in range(args.repeats):
        for batch in args.batches:
            for transport in args.transports:
                for form in args.forms:
                    for kind in args.kinds:
                        deep = kind not in ("socket", "socket_spin")
                        depth = 1
                        if deep:
                            depth = args.depth or contenders.depth_for(batch)
                        said = all_of.ask(kind, transport, form, batch, depth)
                        take(writer, said, experiment="throughput", kind=kind,
                             transport=transport, form=form, batch=batch,
                             depth=depth, repeat=repeat)


def load(args, all_of, writer):
    cases = [(t, b) for t in args.transports for b in args.batches]
    peaks = {}
    for transport, batch in cases:
        depth = args.depth or contenders.depth_for(batch)
        said = all_of.ask("server", transport, "full", batch, depth)
        peaks[transport, batch] = float(said["lookups"]) / said["seconds"]
    for repeat in range(args.repeats):
        for transport, batch in cases:
            for share in args.shares:
                rate = round(share * peaks[transport, batch])
                # Deep enough never to hold a batch back below saturation.
                depth = max(256, contenders.depth_for(batch))
                said = all_of.ask(
                    "server", transport, "full", batch, depth, rate=rate
                )
                take(writer, said, experiment="load", kind="server",
                     transport=transport, batch=batch, depth=depth,
                     offered=rate, repeat=repeat)


EXPERIMENTS = {
    "throughput": throughput,
    "load": load,
}


def machine(args):
    def output(*command):
        try:
            return subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                text=True, check=True, cwd=os.path.dirname(__file__) or ".",
            ).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            return ""

    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        models = [line.split(":")[1].strip() for line in file
                  if line.startswith("model name")]
    control = "/proc/sys/net/ipv4/tcp_congestion_control"
    with open(control, encoding="ascii") as file:
        congestion = file.read().strip()
    return {
        "cpu": models[0] if models else "",
        "cpus": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "tcp_congestion_control": congestion,
        "commit": output("git", "rev-parse", "--short", "HEAD"),
        "date": output("date", "-u", "+%F"),
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
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--out", required=True, help="a folder")
    table = parser.add_mutually_exclusive_group()
    table.add_argument("--routes", help="default: the real table, see README")
    table.add_argument("--generate", type=int, default=0,
                       help="so many made-up routes")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1, help="each")
    parser.add_argument("--warm_up", type=float, default=0.2)
    parser.add_argument("--batches", type=listed(int), default=None)
    parser.add_argument("--transports", type=listed(str),
                        default=["unix", "tcp"])
    parser.add_argument("--forms", type=listed(str), default=["full", "upper"])
    parser.add_argument("--kinds", type=listed(str),
                        default=list(contenders.LOOKUPS))
    parser.add_argument("--depth", type=int, help="default: by batch size")
    parser.add_argument("--shares", type=listed(float),
                        default=[0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8,
                                 0.85, 0.9, 0.95, 1.0, 1.05],
                        help="load: of what a closed loop reaches")
    parser.add_argument("--server_cpus", type=listed(int), default=[0])
    parser.add_argument("--client_cpus", type=listed(int), default=[1])
    parser.add_argument("--server_args", type=str.split, default=[],
                        help="more flags of planb_server")
    parser.add_argument("--bin", default="bazel-bin")
    args = parser.parse_args(argv)
    if not args.generate and not args.routes:
        args.routes = os.path.join(
            os.environ.get("PLANB_DATA_DIR", "../shared/data"),
            "rv6_20260730.txt",
        )
    if not args.generate and not os.path.exists(args.routes):
        parser.error(f"no {args.routes}: set PLANB_DATA_DIR, or --generate")
    if args.batches is None:
        args.batches = {"throughput": list(BATCHES),
                        "load": [256, 4096]}.get(args.experiment, [1])
    return args


def main(argv=None):
    args = parse(argv)
    os.makedirs(args.out, exist_ok=True)
    stem = os.path.join(args.out, args.experiment)
    about = machine(args)
    with tempfile.TemporaryDirectory(prefix="planb_rpc.") as folder:
        all_of = contenders.Contenders(args, folder)
        writer = records.Writer(stem + ".csv")
        try:
            EXPERIMENTS[args.experiment](args, all_of, writer)
        except RuntimeError as error:
            print(f"compare.py: {error}", file=sys.stderr)
            return 1
        finally:
            all_of.close()
    with open(stem + ".machine.json", "w", encoding="utf-8") as file:
        json.dump(about, file, indent=1)
        file.write("\n")
    records.write_summary(args.experiment, writer.rows, stem)
    return 0


if __name__ == "__main__":
    sys.exit(main())

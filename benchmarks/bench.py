#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Compares the engine with every rival: one command, tables and pictures.

    benchmarks/bench.py [--full] [--out=DIR] [--only=EXPERIMENT,...]

Runs the experiments below with compare (built by `make bench`), each into
DIR/EXPERIMENT.csv, and prints a digest. With --full tables, traces and repeats
are those of the report, and take twenty minutes or more.

compare_dpdk is used instead of compare if it was built; bart, which is a
program of its own, if bart/bart was built.
"""

import argparse
import csv
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

HEAD = ("table,routes,next_hops,trace,addresses,batch,threads,engine,metric,"
        "median,least,most,remark")
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent

# The forms of an engine that are measured, if it is not its name alone; the
# first is its best.
V6 = {
    "planb": ["planb", "planb:avx2", "planb:scalar"],
    "paper": ["paper", "paper:distinct", "paper:merged"],
    "reference": ["reference:drop"],
    "cp-trie": ["cp-trie:compressed", "cp-trie"],
    "poptrie": ["poptrie", "poptrie:single"],
    "hbs": ["hbs", "hbs:single"],
    "rangetree": ["rangetree:implicit", "rangetree"],
}
V4 = {"cp-trie": ["cp-trie:compressed"]}
ONLY_V4 = {"dir24", "sail"}
ONLY_V6 = {"reference", "dpdk", "dpdk-lpm6"}
# Too slow, or too large, for tables of millions of routes.
SMALL = {"upper", "patricia"}
ABLATION = ["upper", "paper:branchfree", "paper:autovector", "paper:unbatched",
            "paper", "paper:distinct", "paper:merged", "planb:scalar",
            "planb:avx2", "planb"]
YEARS = [("2019", 76342), ("2020", 95504), ("2021", 143823), ("2022", 168572),
         ("2023", 199801), ("2024", 226222), ("2025", 235466)]


def real(name):
    directory = os.environ.get("PLANB_DATA_DIR", str(ROOT / "../shared/data"))
    return (pathlib.Path(directory) / name).exists()


def experiments(full, engines):
    """Name, arguments of compare: one run each."""
    v6 = [e for kind in engines if kind not in ONLY_V4
          for e in V6.get(kind, [kind])]
    v4 = [e for kind in engines if kind not in ONLY_V6
          for e in V4.get(kind, [kind])]
    best = [V6.get(kind, [kind])[0] for kind in engines
            if kind not in ONLY_V4]
    large = [e for e in best if e not in SMALL]
    has_v6, has_v4 = real("rv6_20260730.txt"), real("rv4_20260730.txt.gz")
    main = ["real"] if has_v6 else ["250000"]
    years = [f"{year}:{count}" for year, count in YEARS]
    if full:
        sizes = ["20000", "50000", "100000", "250000", "500000", "1000000",
                 "2000000", "4000000"]
        repeats, traces_v4 = 9, "match,uniform,zipf,repeat"
    else:
        sizes = ["20000", "1000000"]
        years = years[:1] + years[-1:]
        repeats, traces_v4 = 3, "match,uniform"
    hard = ["deep:100000", "one48:60000", "100000+long5", "100000+long50", "hosts64",
            "hosts48"]
    run = []

    def add(name, tables, which, **flags):
        flags.setdefault("repeats", repeats)
        run.append((name, tables, which, flags))

    # Figures 8 and 9 of the paper: tables by year, and the real one.
    add("tables", main + years, best, traces="match")
    add("traces", main, v6, traces="match,uniform")
    add("resident", main, best, traces="match", addresses=4096)
    add("size", sizes, large, traces="match")
    add("hard", hard if full else hard[:4], large, traces="match")
    add("ipv4", ["ipv4"] if has_v4 else ["ipv4:1000000"], v4, traces=traces_v4)
    add("cores", main, best, traces="match", what="threads")
    add("memory", main + ["1000000"], large, traces="match", what="memory")
    add("updates", main, best, traces="match", what="updates", repeats=1)
    add("single", main, best, traces="match", what="single")
    add("batches", main, ["planb"], traces="match", batches="1,16,128,1024,65536")
    add("ablation", main, [e for e in ABLATION if e.split(":")[0] in engines],
        traces="match")
    if (HERE / "rivals/bart/bart").exists():
        add("bart", main, [], traces="match")
    return run


def machine():
    """What the figures depend on."""
    def first(path, key):
        for line in open(path, encoding="utf-8"):
            if line.startswith(key):
                return line.split(":", 1)[1].strip()
        return ""

    def read(path):
        try:
            return pathlib.Path(path).read_text().strip()
        except OSError:
            return "unknown"

    return {
        "make": first("/proc/cpuinfo", "vendor_id"),
        "model": first("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "avx512": "avx512f" in first("/proc/cpuinfo", "flags"),
        "l2": read("/sys/devices/system/cpu/cpu0/cache/index2/size"),
        "l3": read("/sys/devices/system/cpu/cpu0/cache/index3/size"),
        "governor": read(
            "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "kernel": platform.release(),
        "transparent_hugepages": read(
            "/sys/kernel/mm/transparent_hugepage/enabled"),
        "hugetlb_pages": read("/proc/sys/vm/nr_hugepages"),
        "counters": "none" if read(
            "/sys/bus/event_source/devices/cpu/type") == "unknown" else "there",
        "date": time.strftime("%Y-%m-%d"),
    }


def make_of(here):
    return "intel" if "Intel" in here["make"] else (
        "amd" if "AMD" in here["make"] else here["make"] or "other")


def run_bart(compare, table, path):
    """bart is a Go program: the same table, trace and answers, by files."""
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([compare, f"--tables={table}", "--traces=match",
                        f"--dump={directory}"], check=True)
        result = subprocess.run([HERE / "rivals/bart/bart",
                                 f"--dir={directory}"], check=False,
                                capture_output=True, text=True)
        routes = sum(1 for _ in open(f"{directory}/routes.txt", "rb"))
    with open(path, "w", encoding="utf-8") as file:
        file.write(HEAD + "\n")
        for line in result.stdout.splitlines():
            file.write(f"{table},{routes},as-given,match,1048576,1,1,bart,"
                       f"{line},\n")
    if result.returncode:
        print(result.stderr)
    return result.returncode


def rows(path):
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file))


# The digest: experiment, metric, name of the column.
DIGEST = [("traces", "rate_mps", "{trace} M/s"),
          ("resident", "rate_mps", "resident M/s"),
          ("cores", "rate_mps", "{threads} cores M/s"),
          ("bart", "rate_mps", "match M/s"),
          ("memory", "bytes_per_route", "B/route"),
          ("memory", "build_ms", "build ms"),
          ("updates", "update1_p50_us", "change us"),
          ("single", "dependent_ns", "one, ns"),
          ("single", "alone_p99_ns", "one p99, ns")]


def digest(out):
    """Rates and what they cost, of the first table of each experiment, as Markdown."""
    table = {}
    for name, metric, column in DIGEST:
        path = out / f"{name}.csv"
        if not path.exists():
            continue
        first = None
        for row in rows(path):
            first = first or row["table"]
            if row["table"] != first or row["metric"] != metric:
                continue
            value = float(row["median"])
            table.setdefault(row["engine"], {})[column.format(**row)] = (
                f"{value:.1f}" if value < 100 else f"{value:.0f}")
    columns = []
    for figures in table.values():
        columns += [c for c in figures if c not in columns]
    lines = ["| engine | " + " | ".join(columns) + " |",
             "| --- |" + " --- |" * len(columns)]
    for engine, figures in table.items():
        cells = [figures.get(c, "") for c in columns]
        lines.append(f"| `{engine}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--only", default="", help="experiments, by name")
    parser.add_argument("--cpu", type=int, default=os.cpu_count() - 1)
    parser.add_argument("--compare", help="the program")
    options = parser.parse_args()
    here = machine()
    out = options.out or HERE / "results" / make_of(here)
    out.mkdir(parents=True, exist_ok=True)
    (out / "machine.json").write_text(json.dumps(here, indent=1) + "\n")
    compare = options.compare
    for name in ("compare_dpdk", "compare"):
        path = ROOT / "bazel-bin/benchmarks/engine" / name
        if compare is None and path.exists():
            compare = str(path)
    if compare is None:
        sys.exit("compare is not built: make bench")
    listed = subprocess.run([compare, "--list_engines"], check=True,
                            capture_output=True, text=True).stdout.split()
    engines = ["planb"] + [e for e in listed if e != "planb"]
    only = [name for name in options.only.split(",") if name]
    todo = [e for e in experiments(options.full, engines)
            if not only or e[0] in only]
    # A table at a time, to tell how far it is.
    steps = [(name, table, which, flags) for name, tables, which, flags in todo
             for table in tables]
    for name in {name for name, *_ in steps}:
        (out / f"{name}.csv").unlink(missing_ok=True)
    wrong = []
    for at, (name, table, which, flags) in enumerate(steps):
        print(f"[{at + 1}/{len(steps)}] {name}: {table}", flush=True)
        path = out / f"{name}.csv"
        if name == "bart":
            status = run_bart(compare, table, path)
        else:
            command = [compare, f"--cpu={options.cpu}", f"--tables={table}",
                       f"--engines={','.join(which)}", f"--csv={path}"]
            command += [f"--{key}={value}" for key, value in flags.items()]
            with open(out / "log.txt", "a", encoding="utf-8") as log:
                status = subprocess.run(command, stdout=log, stderr=log,
                                        check=False).returncode
        if status == 1:
            wrong.append(f"{name}: {table}")
        elif status != 0:
            sys.exit(f"{name}: {table} failed; see {out}/log.txt")
    print()
    print(digest(out))
    if wrong:
        sys.exit("wrong answers: " + "; ".join(wrong))


if __name__ == "__main__":
    main()

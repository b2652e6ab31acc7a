#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0

"""Measures the clients in C++, Go and Python beside each other, in turns.

    benchmarks/serving/clients.py [--rounds=7] [--seconds=2] [--routes=FILE]

One process each, one stream, 4 batches in flight, against one server on a Unix
socket; needs the optimized build (bazel build --config=opt //server:planb_server
//client/planbctl). Prints for each size of batch the median of the rounds in
million addresses a second, with the smallest and largest, and the ratio to C++
within the rounds.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BATCHES = (4096, 16384, 65536)


def run(command, **more):
    return subprocess.run(command, check=True, cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, **more).stdout


def clients(work, target, seconds):
    """How to measure with each client: a function of the size of a batch."""
    go = run(["deploy/go_tool.sh", "go"]).strip()
    env = {**os.environ, "GO": go, "GOTOOLCHAIN": "local"}
    run(["client/go/generate.sh"], env=env)
    subprocess.run([go, "build", "-o", f"{work}/go-bench", "./cmd/planb-go-bench"],
                   check=True, cwd=ROOT / "client/go", env=env)
    wheel = run(["client/python/wheel.sh", work]).strip()
    run(["/usr/bin/python3", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
         "--disable-pip-version-check", "--root-user-action=ignore",
         "--target", f"{work}/python", wheel])
    python = {**os.environ, "PYTHONPATH": f"{work}/python"}

    def rate(text):
        return float(re.search(r"([\d.]+) M(?: addresses)?/s", text)[1])

    def planbctl(batch):
        line = run(["bazel-bin/client/planbctl/planbctl", "bench", f"--server={target}",
                    f"--batch={batch}", "--depth=4", "--streams=1", "--json", "--quiet",
                    f"--seconds={seconds}"])
        return json.loads(line.splitlines()[-1])["lookups_per_second"] / 1e6

    return {
        "C++": planbctl,
        "Go": lambda batch: rate(run([f"{work}/go-bench", f"-seconds={seconds}", target,
                                      str(batch)])),
        "Python": lambda batch: rate(run(
            ["/usr/bin/python3", "-P", "client/python/bench.py", target, str(batch),
             f"--seconds={seconds}"], env=python)),
        "Python, asyncio": lambda batch: rate(run(
            ["/usr/bin/python3", "-P", "client/python/bench.py", target, str(batch),
             f"--seconds={seconds}", "--aio"], env=python)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--routes", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="planb_clients") as work:
        target = f"unix://{work}/socket"
        server = subprocess.Popen(
            [ROOT / "bazel-bin/server/planb_server", f"--listen={target}", "--store=none",
             "--metrics_address=",
             f"--routes={options.routes}" if options.routes else "--generate=250000"],
            stderr=subprocess.DEVNULL)
        try:
            measured = clients(work, target, options.seconds)
            while not os.path.exists(f"{work}/socket"):
                time.sleep(0.1)
            rates = {(name, batch): [] for name in measured for batch in BATCHES}
            for _ in range(options.rounds):
                for batch in BATCHES:
                    for name, measure in measured.items():
                        rates[name, batch].append(measure(batch))
        finally:
            server.kill()
            server.wait()
    print("| batch | " + " | ".join(measured) + " |")
    print("| --- |" + " --- |" * len(measured))
    for batch in BATCHES:
        cells = []
        for name in measured:
            each, base = rates[name, batch], rates["C++", batch]
            ratio = statistics.median(a / b for a, b in zip(each, base))
            cells.append(f"{statistics.median(each):.0f} ({min(each):.0f}-{max(each):.0f})"
                         + ("" if name == "C++" else f", {ratio:.2f}"))
        print(f"| {batch:,} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()

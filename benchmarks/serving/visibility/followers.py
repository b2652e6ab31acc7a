#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""What followers cost the server that they follow, and when they see changes.

    followers.py [--followers=N] [--routes=N] [--rate=N] [--batch=N]
    followers.py --callers=N [--routes=N] [--rate=N] [--batch=N] [--lookups=N]

Starts a server with a store, and N servers that follow it, all on this machine.
Prints when all serve, memory, processor time with and without changes, from an
acknowledgement until the followers' watchers see the change, and how long after
a restart of the first server all follow it again.

With --callers, N processes follow it instead, each with a LocalTable in which it
looks up steadily. Prints processor time with and without changes, from an
acknowledgement until the callers' lookups see the change, and whether all had
every generation, only right answers, and the server's digest in the end; exits
with 1 if not.
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "rpc"))

import contenders  # pylint: disable=wrong-import-position

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = "benchmarks/serving/visibility/followers"
# The batches after which callers' answers are known.
FIRST_BATCHES = 100
PATIENCE = 300  # seconds that a caller may be late


def memory_mib(pid, what):
    for line in open(f"/proc/{pid}/smaps_rollup", encoding="utf-8"):
        if line.startswith(what + ":"):
            return int(line.split()[1]) / 1024
    return 0


class Server(contenders.Process):
    """A server with what it logs."""

    def __init__(self, program, folder, name, flags):
        self.socket = f"unix://{folder}/{name}.sock"
        super().__init__(
            [program, f"--listen={self.socket}", "--metrics_address=", *flags],
            os.path.join(folder, name + ".log"))

    def await_log(self, text):
        while text not in pathlib.Path(self.log).read_text(encoding="utf-8"):
            if self.process.poll() is not None:
                raise SystemExit(self.last_words())
            time.sleep(0.01)


def cpu_seconds(pids):
    return sum(map(contenders.cpu_seconds, pids))


def used(groups, action):
    """What `action` returns, and the cores that each group of processes used."""
    before = [cpu_seconds(pids) for pids in groups]
    begin = time.monotonic()
    result = action()
    took = time.monotonic() - begin
    return result, took, [(cpu_seconds(pids) - b) / took
                          for pids, b in zip(groups, before)]


def program(options, path):
    return str(options.bin / path)


def lead(options, folder, watchers):
    """Starts the server that is followed."""
    server = Server(
        program(options, "server/planb_server"), folder, "leader",
        [f"--store={folder}/planb.db", f"--generate={options.routes}",
         # One client has at most three quarters of them.
         f"--max_watchers={watchers * 2 + 8}",
         f"--max_control_calls={watchers * 2 + 256}"])
    try:
        server.await_log(" serving\n")
    except BaseException:
        server.stop()
        raise
    return server


def servers(options, folder):
    """Servers that follow another one."""
    leader = lead(options, folder, options.followers)
    follow = ["--store=none", f"--follow=unix:{folder}/leader.sock",
              "--lookup_threads=1"]
    timed = program(options, PROGRAM)
    followers = []
    try:
        begin = time.monotonic()
        for i in range(options.followers):
            followers.append(Server(program(options, "server/planb_server"),
                                    folder, f"f{i}", follow))
        for each in followers:
            each.await_log(" serving\n")
        print(f"{options.followers} followers of {options.routes} routes: all "
              f"serve after {time.monotonic() - begin:.1f} s")
        rss = sum(memory_mib(f.pid, "Rss") for f in followers)
        pss = sum(memory_mib(f.pid, "Pss") for f in followers)
        print(f"memory of a follower: {rss / len(followers):.1f} MiB resident, "
              f"{pss / len(followers):.1f} MiB its own; of the server: "
              f"{memory_mib(leader.pid, 'Rss'):.1f} MiB")
        groups = [leader.pid], [f.pid for f in followers]
        _, _, idle = used(groups, lambda: time.sleep(options.seconds))
        print(f"idle: server {idle[0]:.3f} cores, followers {idle[1]:.3f} together",
              flush=True)
        step = max(1, options.followers // options.watched)
        watched = [f.socket for f in followers][::step]
        rate = options.rate / options.batch
        _, took, busy = used(groups, lambda: subprocess.run(
            [timed, "--role=latency", f"--writers={leader.socket}",
             f"--batch={options.batch}",
             f"--readers={','.join(watched)}", f"--rate={rate}",
             f"--seconds={options.seconds}s"], check=True))
        batches = rate * options.seconds / took * options.followers
        print(f"{rate:g} batches/s: server {busy[0]:.3f} cores, followers "
              f"{busy[1]:.3f} together; a batch costs the server "
              f"{(busy[0] - idle[0]) / batches * 1e6:.1f} us a follower, a "
              f"follower {(busy[1] - idle[1]) / batches * 1e6:.1f} us")
        leader.stop()
        time.sleep(3)
        begin = time.monotonic()
        leader = lead(options, folder, options.followers)
        print(f"after kill -9 and 3 s: serves again after "
              f"{time.monotonic() - begin:.2f} s; "
              "changes from then on, all followers:", flush=True)
        subprocess.run(
            [timed, "--role=latency", f"--writers={leader.socket}", "--rate=10",
             f"--readers={','.join(f.socket for f in followers)}",
             "--seconds=4s"], check=True)
    finally:
        for each in [leader, *followers]:
            each.stop()


def rank(values, share):
    """By nearest rank; of sorted values."""
    return values[max(0, math.ceil(share * len(values)) - 1)] if values else math.nan


def judge(written, reports):
    """What the callers' reports say of the writer's: a text, and if all is well."""
    times, missing = [], 0
    for report in reports:
        seen = dict(report["seen"])
        for generation, acked in written["acked"]:
            if generation in seen:
                times.append(max(0, seen[generation] - acked) / 1e6)
            else:
                missing += 1
    times.sort()
    total = {key: sum(r[key] for r in reports) for key in ("lookups", "wrong", "resyncs")}
    other = sum(r["digest"] != written["digest"] for r in reports)
    text = (f"{len(written['acked'])} generations, {len(reports)} callers: {missing} "
            f"not seen, {total['resyncs']} whole tables fetched again\n"
            f"from the ack to the callers' lookups, ms: p50 {rank(times, 0.5):.2f}, "
            f"p99 {rank(times, 0.99):.2f}\n"
            f"{total['lookups']} lookups, {total['wrong']} wrong answers; {other} "
            "digests differ from the server's")
    return text, not (missing or total["resyncs"] or total["wrong"] or other)


def callers(options, folder):
    """Processes that follow a server in themselves. Returns the exit code."""
    local_table = program(options, PROGRAM)
    rate = options.rate / options.batch
    leader = lead(options, folder, options.callers)
    started = []

    def write(batches, rate):
        answer = subprocess.run(
            [local_table, "--role=writer", f"--server={leader.socket}",
             f"--batch={options.batch}", f"--batches={batches}", f"--rate={rate}"],
            check=True, stdout=subprocess.PIPE)
        return json.loads(answer.stdout)

    try:
        batches = max(1, round(rate * options.seconds))
        until = write(FIRST_BATCHES, 0)["acked"][-1][0] + batches
        for _ in range(options.callers):
            started.append(subprocess.Popen(
                [local_table, "--role=caller", f"--server={leader.socket}",
                 f"--batch={options.batch}", f"--until={until}",
                 f"--lookups={options.lookups}"], stdout=subprocess.PIPE))
        ready = [each.stdout.readline() for each in started]
        if not all(ready):
            return 1
        ready = [json.loads(line)["ready_ms"] for line in ready]
        print(f"{options.callers} callers of {options.routes} routes, {options.lookups} "
              f"batches of lookups/s each: ready after {max(ready):.0f} ms")
        groups = [leader.pid], [each.pid for each in started]
        _, _, idle = used(groups, lambda: time.sleep(options.seconds))
        print(f"idle: server {idle[0]:.3f} cores, a caller "
              f"{idle[1] / options.callers:.3f}", flush=True)
        written, took, busy = used(groups, lambda: write(batches, rate))
        print(f"{batches * options.batch / took:.0f} changes/s in batches of "
              f"{options.batch}: server {busy[0]:.3f} cores, a caller "
              f"{busy[1] / options.callers:.3f}", flush=True)
        reports = [each.communicate(timeout=PATIENCE)[0] for each in started]
        if any(each.returncode for each in started):
            return 1
        text, well = judge(written, [json.loads(report) for report in reports])
        print(text)
        return 0 if well else 1
    finally:
        leader.stop()
        for each in started:
            each.kill()
            each.wait()


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--followers", type=int, default=200)
    parser.add_argument("--callers", type=int,
                        help="processes with a table in them, instead of --followers")
    parser.add_argument("--routes", type=int, default=1000)
    parser.add_argument("--rate", type=int, default=100, help="changes/s")
    parser.add_argument("--batch", type=int, default=1, help="changes in a batch")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--lookups", type=int, default=1000,
                        help="batches of 64 lookups/s of a caller")
    parser.add_argument("--watched", type=int, default=20,
                        help="followers whose watchers are timed")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "bazel-bin",
                        help="folder with the programs in the tree's folders")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="planb_followers_") as folder:
        if options.callers:
            return callers(options, folder)
        servers(options, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())

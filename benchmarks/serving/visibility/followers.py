#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""What followers cost the server that they follow, and when they see changes.

    followers.py [--followers=N] [--routes=N] [--rate=N] [--bin=FOLDER]

Starts a server with a store, and N servers that follow it, all on this machine.
Prints when all serve, memory, processor time with and without changes, from an
acknowledgement until the followers' watchers see the change, and how long after
a restart of the first server all follow it again.
"""

import argparse
import os
import pathlib
import signal
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pids):
    total = 0
    for pid in pids:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")")[1]
        total += sum(int(f) for f in fields.split()[11:13])
    return total / TICK


def memory_mib(pid, what):
    for line in open(f"/proc/{pid}/smaps_rollup", encoding="utf-8"):
        if line.startswith(what + ":"):
            return int(line.split()[1]) / 1024
    return 0


class Server:
    """A process, killed at the end."""

    def __init__(self, program, folder, name, flags):
        self.socket = f"unix://{folder}/{name}.sock"
        self.log = pathlib.Path(folder, name + ".log")
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [program, f"--listen={self.socket}", "--metrics_address=",
                 *flags], stderr=log)
        self.pid = self.process.pid

    def await_log(self, text):
        while text not in self.log.read_text(encoding="utf-8"):
            if self.process.poll() is not None:
                raise SystemExit(self.log.read_text(encoding="utf-8"))
            time.sleep(0.01)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--followers", type=int, default=200)
    parser.add_argument("--routes", type=int, default=1000)
    parser.add_argument("--rate", type=int, default=100, help="changes/s")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--watched", type=int, default=20,
                        help="followers whose watchers are timed")
    parser.add_argument("--bin", type=pathlib.Path,
                        help="folder of planb_server and replicas")
    options = parser.parse_args()
    server = ROOT / "bazel-bin/server/planb_server"
    replicas = ROOT / "bazel-bin/benchmarks/serving/visibility/replicas"
    if options.bin:
        server, replicas = options.bin / server.name, options.bin / replicas.name
    folder = tempfile.mkdtemp(prefix="planb_followers_")
    lead_flags = [f"--store={folder}/planb.db", f"--generate={options.routes}",
                  # One client has at most three quarters of them.
                  f"--max_watchers={options.followers * 2 + 8}",
                  f"--max_control_calls={options.followers * 2 + 256}"]
    leader = Server(server, folder, "leader", lead_flags)
    leader.await_log(" serving\n")
    follow = ["--store=none", f"--follow=unix:{folder}/leader.sock",
              "--lookup_threads=1"]
    followers = []
    try:
        begin = time.monotonic()
        followers = [Server(server, folder, f"f{i}", follow)
                     for i in range(options.followers)]
        for each in followers:
            each.await_log(" serving\n")
        print(f"{options.followers} followers of {options.routes} routes: all "
              f"serve after {time.monotonic() - begin:.1f} s")
        rss = sum(memory_mib(f.pid, "Rss") for f in followers)
        pss = sum(memory_mib(f.pid, "Pss") for f in followers)
        print(f"memory of a follower: {rss / len(followers):.1f} MiB resident, "
              f"{pss / len(followers):.1f} MiB its own; of the server: "
              f"{memory_mib(leader.pid, 'Rss'):.1f} MiB")
        pids = [f.pid for f in followers]

        def used(action):
            before = cpu_seconds([leader.pid]), cpu_seconds(pids)
            begin = time.monotonic()
            action()
            took = time.monotonic() - begin
            return ((cpu_seconds([leader.pid]) - before[0]) / took,
                    (cpu_seconds(pids) - before[1]) / took, took)

        lead, rest, _ = used(lambda: time.sleep(options.seconds))
        print(f"idle: server {lead:.3f} cores, followers {rest:.3f} together",
              flush=True)
        step = max(1, options.followers // options.watched)
        watched = [f.socket for f in followers][::step]

        def change():
            subprocess.run(
                [replicas, f"--writers={leader.socket}",
                 f"--readers={','.join(watched)}", f"--rate={options.rate}",
                 f"--seconds={options.seconds}s"], check=True)

        lead2, rest2, took = used(change)
        changes = options.rate * options.seconds / took
        print(f"{options.rate} changes/s: server {lead2:.3f} cores, followers "
              f"{rest2:.3f} together; a change costs the server "
              f"{(lead2 - lead) / changes / options.followers * 1e6:.1f} us a "
              f"follower, a follower "
              f"{(rest2 - rest) / changes / options.followers * 1e6:.1f} us")
        leader.process.send_signal(signal.SIGKILL)
        leader.process.wait()
        time.sleep(3)
        begin = time.monotonic()
        leader = Server(server, folder, "leader", lead_flags)
        leader.await_log(" serving\n")
        served = time.monotonic() - begin
        print(f"after kill -9 and 3 s: serves again after {served:.2f} s; "
              "changes from then on, all followers:", flush=True)
        subprocess.run(
            [replicas, f"--writers={leader.socket}", "--rate=10",
             f"--readers={','.join(f.socket for f in followers)}",
             "--seconds=4s"], check=True)
    finally:
        for each in [leader, *followers]:
            each.process.kill()
            each.process.wait()
        subprocess.run(["rm", "-rf", folder], check=True)


if __name__ == "__main__":
    main()

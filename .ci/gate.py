#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0

"""What a change has to pass: the steps of `make test`, `make check`, `make test-long`.

    .ci/gate.py test           the tests of the product as shipped: C++, Python, Go
    .ci/gate.py check          all else that a change has to pass
    .ci/gate.py long           both, with more rounds, and what takes minutes to hours
    .ci/gate.py check --only=format,licences    these steps alone
    .ci/gate.py check --list   the names of the steps, which are not run

Each step prints one line when it ends: how long it took, and what came of it. The last
line is the count: a Bazel test program, or a step without Bazel, is one. What a machine
cannot run is counted as skipped, and listed by name with the reason. Cases that take
longer than others are listed too: the reason for a wait stands beside the test.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[1]
BAZEL = ["--noshow_progress", "--keep_going"]
PROGRAMS = {"//server:planb_server": "server/planb_server",
            "//client/planbctl": "client/planbctl/planbctl",
            "//client:libplanb_local.so": "client/libplanb_local.so",
            "//server/testing:hostile_attacker": "server/testing/hostile_attacker"}
# Tests wait for processes, clocks and disks more than they compute.
TEST_JOBS = 4 * os.cpu_count()
# Cases that take longer are listed.
LONG_CASE_SECONDS = 5
# Of what failed, these are told again at the end.
FAILURE_LINES = 60
# What measures is not shipped: its tests are in the check.
SHIPPED = ["//...", "-//benchmarks/..."]
# What parses bytes, shares memory or keeps state. The whole server, the client and
# exhaustive worlds are in the long run.
ASAN = ["//lpm/...", "//base/...", "//proto/...", "//follow/...",
        "//server/base/...", "//server/table/...", "//server/store/...",
        "//server/net:admission_test"]
# The tests of it that `make check` runs, for Bazel's query.
SANITIZED = "tests({0}) except attr(tags, 'long_asan|check', tests({0}))"
# The engine, the RIB and publication: all that shares state between threads and can be
# compiled for TSan as a whole. table_test has servers that follow one another through a
# log in memory, etcd_store_test some that do through a real etcd. gRPC and abseil come
# uninstrumented from packages, and TSan would misread their locks:
# etcd_store_test.tsan has what is not judged there for that.
TSAN = ["//lpm/fib:fib_threads_test", "//server/table:rib_test",
        "//base:published_test", "//base:published_shared_test",
        "//server/table:table_test", "//server/table:table_memory_test",
        "//server/store:sqlite_store_test", "//server/store:etcd_store_test",
        "//server:metrics_test",
        "//server/base:base_test", "//lpm/routes:routes_threads_test",
        "//client:coalescing_lookup_test", "//client:local_routes_test"]
# The server defines no name that libc defines: its libraries get libc's own.
LIBC_NAMES = """
libc=$(ldd "$1" | awk '$1 == "libc.so.6" {print $3}')
names=$(comm -12 <(nm --defined-only "$1" | awk '{print $3}' | sort -u) \
  <(nm -D --defined-only "$libc" | awk '{sub(/@.*/, "", $3); print $3}' | sort -u))
[[ -z $names ]] || { echo "planb_server defines names of libc: $names"; exit 1; }
"""
# Random histories and damaged files are many: some of each show what ASan finds.
FEWER_ROUNDS = ["--test_env=PLANB_HISTORY_SEEDS=8", "--test_env=PLANB_STORE_FLIPS=50"]
LONG_ROUNDS = ["--test_env=PLANB_KILL_ROUNDS=200", "--test_env=PLANB_STORE_CRASHES=200",
               "--test_env=PLANB_STORM_SECONDS=120", "--test_env=PLANB_FLOOD_CLIENTS=1000",
               "--test_env=PLANB_ATTACK_MILLISECONDS=500",
               "--test_env=PLANB_MODEL_SEEDS=10", "--test_env=PLANB_MODEL_SECONDS=15",
               "--test_timeout=900,1800,3600,7200"]


class Gate:
    """Runs steps, counts them, and prints what came of them. Thread-safe."""

    def __init__(self, only, names_only):
        self.only = only
        self.names_only = names_only
        self.counts = collections.Counter()
        self.skips = collections.defaultdict(list)
        self.failures = []
        self.long_cases = []
        self.lock = threading.Lock()

    def wants(self, name):
        if self.names_only:
            print(name)
            return False
        return not self.only or name in self.only

    def ended(self, name, began, passed, failed, output, which=""):
        seconds = time.monotonic() - began
        what = f"{passed} passed" if not failed else f"{failed} FAILED"
        line = f"{seconds:6.0f} s  {name}: {what}"
        with self.lock:
            self.counts.update(passed=passed, failed=failed)
            if failed:
                print(output)
                self.failures.append((f"{name} {which}".strip(), output))
            print(line, flush=True)

    def skip(self, name, reason):
        with self.lock:
            if name not in self.skips[reason]:
                self.skips[reason].append(name)

    def step(self, name, *command):
        """Runs a command that passes with 0 and is skipped with 77."""
        if not self.wants(name):
            return True
        began = time.monotonic()
        code, output = run(command)
        for line in re.findall(r"^SKIP: (.*)$", output, re.MULTILINE):
            self.skip(name, line)
        for of, why in re.findall(r"^(\w+) +\d+ s +SKIP \((.*)\)$", output,
                                  re.MULTILINE):
            self.skip(f"{name}: {of}", why)
        self.ended(name, began, int(code in (0, 77)), int(code not in (0, 77)), output)
        return code in (0, 77)

    def tests(self, name, *arguments, targets):
        """Builds Bazel tests with each core, then runs more than cores at a time."""
        if not self.wants(name):
            return
        began = time.monotonic()
        run(["bazel", "build", *BAZEL, "--build_tests_only", *arguments, "--", *targets])
        with self.lock:
            print(f"{time.monotonic() - began:6.0f} s  {name}, of which is the build",
                  flush=True)
        code, output = run(
            ["bazel", "test", *BAZEL, "--build_tests_only",
             f"--local_cpu_resources={TEST_JOBS}", f"--jobs={TEST_JOBS}",
             *arguments, "--", *targets])
        results = re.findall(r"^(//\S+) .*?(PASSED|FAILED|TIMEOUT|FLAKY|NO STATUS)",
                             output, re.MULTILINE)
        passed = sum(verdict == "PASSED" for _, verdict in results)
        failed = len(results) - passed
        which = ", ".join(target for target, verdict in results if verdict != "PASSED")
        for target, _ in results:
            self.look_at_cases(name, target)
        self.ended(name, began, passed, failed or int(code != 0), output, which)

    def look_at_cases(self, step, target):
        folder = ROOT / "bazel-testlogs" / target[2:].replace(":", "/")
        files = list(folder.glob("**/test.xml"))
        # Those of the shards that it had before are left there.
        newest = max(files, key=lambda file: file.stat().st_mtime).parent.name
        shards = newest.rpartition("_of_")[2] if "_of_" in newest else None
        for file in files:
            of = file.parent.name.rpartition("_of_")
            if (of[2] if of[1] else None) != shards:
                continue
            for case in xml.etree.ElementTree.parse(file).iter("testcase"):
                name = f"{case.get('classname')}.{case.get('name')}"
                seconds = float(case.get("time") or 0)
                if seconds > LONG_CASE_SECONDS:
                    self.long_cases.append((seconds, f"{step}: {target} {name}"))
                for skipped in case.iter("skipped"):
                    reason = skipped.get("message", "").split("\n", 1)[-1].strip()
                    self.skip(name, reason or "without a reason")

    def end(self):
        if self.long_cases:
            print("Cases that took long:")
        for seconds, name in sorted(self.long_cases, reverse=True):
            print(f"{seconds:6.0f} s  {name}")
        if self.skips:
            print("Skipped on this machine:")
        for reason, names in sorted(self.skips.items()):
            print(f"  {reason}: {named(names)}")
        # Last, because a log may be cut to its end.
        for name, output in self.failures:
            print(f"FAILED: {name}, which ended with")
            print("\n".join(output.rstrip().splitlines()[-FAILURE_LINES:]))
        print(f"{self.counts['passed']} passed, {self.counts['failed']} failed, "
              f"{sum(map(len, self.skips.values()))} skipped", flush=True)
        return 1 if self.counts["failed"] else 0


def named(names):
    """Cases of one test, such as Tables/Bound.Holds/0 and /1, are named once."""
    cases = collections.Counter(re.sub(r"(\w\.\w+)/.*", r"\1", name) for name in names)
    return ", ".join(name if count == 1 else f"{name} ({count})"
                     for name, count in sorted(cases.items()))


def run(command):
    """The exit code, and what standard output and error said together."""
    ended = subprocess.run([str(word) for word in command], cwd=ROOT,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, errors="replace",
                           check=False)
    return ended.returncode, ended.stdout


def programs(gate, folder):
    """Copies of the programs: bazel-bin is whatever was built last."""
    if gate.names_only:
        return True
    began = time.monotonic()
    code, output = run(["bazel", "build", *BAZEL, *PROGRAMS])
    if code:
        gate.ended("programs", began, 0, 1, output)
        return False
    for path in PROGRAMS.values():
        shutil.copy(ROOT / "bazel-bin" / path, folder)
    return True


def test(gate, folder, long=False):
    if not programs(gate, folder):
        return
    with concurrent.futures.ThreadPoolExecutor() as pool:
        # They wait more than they compute.
        beside = [pool.submit(gate.step, name, script, folder) for name, script in (
            ("Python", "client/python/test.sh"), ("Go", "client/go/test.sh"),
            ("feed", "feed/test.sh"))]
        gate.tests("C++", "--test_tag_filters=-check", *LONG_ROUNDS * long,
                   targets=SHIPPED)
        for step in beside:
            step.result()


def sources(gate, long):
    """What reads the sources alone."""
    gate.step("format", ".ci/format.sh")
    gate.step("licences", ".ci/spdx.py")
    gate.step("arrows between rooms", ".ci/arrows.py")
    gate.step("references", ".ci/references.py")
    gate.step("contract", ".ci/contract.sh")
    gate.step("lock annotations", ".ci/thread_safety.sh",
              *[] if long else ["--besides", SANITIZED.format(" + ".join(ASAN))])
    gate.step("clang-tidy", ".ci/tidy.sh", *["--all"] * long)


def outside(gate, folder, long):
    """What runs the programs, and no Bazel."""
    gate.step("names of libc", "bash", "-c", LIBC_NAMES, "bash", f"{folder}/planb_server")
    gate.step("manifests and the edge", "deploy/test.sh",
              *[] if long else ["--short"], folder)
    gate.step("linearizability", "deploy/linearizability/test.sh",
              *["--long"] * long, folder)
    gate.step("traces and exemplars", "deploy/monitoring/otlp_test.py", folder)
    gate.step("Python with the newest packages", "client/python/test.sh", "--newest",
              folder)
    gate.step("Go under the race detector", "client/go/test.sh", "--race", folder)
    gate.step("feed under the race detector", "feed/test.sh", "--race", folder)
    gate.step("the documentation as a site", "docs/site.py",
              tempfile.mkdtemp(dir=folder), folder)


def check(gate, folder, long=False):
    if not programs(gate, folder):
        return
    with concurrent.futures.ThreadPoolExecutor() as pool:
        beside = pool.submit(outside, gate, folder, long)
        sources(gate, long)
        gate.tests("worlds and instruction counts", "--test_tag_filters=check",
                   targets=SHIPPED)
        gate.tests("benchmarks", targets=["//benchmarks/..."])
        gate.step("the router by DPDK", "examples/router/test.sh")
        if long:
            gate.tests("ASan and UBSan", "--config=asan", targets=SHIPPED)
        else:
            gate.tests("ASan and UBSan", "--config=asan",
                       "--test_tag_filters=-long_asan,-check", *FEWER_ROUNDS,
                       targets=ASAN)
        gate.tests("TSan", "--config=tsan", targets=TSAN)
        for what in ("updates", "readers", "wire", "packets"):
            gate.step(f"fuzz {what}", "third_party/fuzz.sh", what, 300 if long else 20)
        gate.step("fuzz feed", "third_party/fuzz.sh", "feed", 300 if long else 10)
        beside.result()
    gate.step("commands of the documents", "docs/commands_test.py",
              *["--long"] * long, folder)
    if long:
        gate.step("benchmarks, optimized", "bazel", "build", *BAZEL, "--config=opt",
                  "//benchmarks/...")
        gate.step("emulated processors", "lpm/testing/emulate.sh")
        gate.step("feed with all rounds", "feed/test.sh", "--long", folder)
        gate.step("ghz", "deploy/load/ghz/smoke.sh", f"{folder}/planb_server")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("test", "check", "long"))
    parser.add_argument("--only", default="", help="names of steps, with commas")
    parser.add_argument("--list", action="store_true", help="print the names of steps")
    arguments = parser.parse_args()
    gate = Gate(set(filter(None, arguments.only.split(","))), arguments.list)
    with tempfile.TemporaryDirectory(prefix="planb_gate.") as folder:
        long = arguments.what == "long"
        if arguments.what != "check":
            test(gate, folder, long)
        if arguments.what != "test":
            check(gate, folder, long)
    return 0 if arguments.list else gate.end()


if __name__ == "__main__":
    sys.exit(main())

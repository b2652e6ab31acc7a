#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0

"""run.py and followers.py with the real programs, on small tables and for moments:
that every row is there and can be true. No figure is judged.
"""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import tempfile
import types
import unittest

import followers
import report
import run

# Where Bazel put what is named in `data`.
BIN = os.getcwd()


class RunTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "short.csv")
            with (contextlib.redirect_stderr(io.StringIO()) as said,
                  contextlib.redirect_stdout(io.StringIO()) as printed):
                code = run.main(["--short", "--repeats=2", f"--out={path}",
                                 f"--bin={BIN}"])
            assert code == 0, said.getvalue()
            assert os.path.exists(os.path.join(folder, "short.machine.json"))
            cls.rows = report.read(path)
            cls.found = report.series(cls.rows)
            cls.printed = printed.getvalue()

    def test_every_row_is_there(self):
        wanted = {
            (table, store, workload)
            for table in ("1000", "10000")
            for store in ("none", "sqlite")
            for workload in (*run.LOADS, *run.SHORT_WORKLOADS)
        } | {
            (table, "sqlite", f"restart_{how}")
            for table in ("1000", "10000") for how in ("kill", "term")
        }
        self.assertEqual(set(self.found), wanted)
        for (_, _, workload), (repeats, everything) in self.found.items():
            measured = workload in run.SHORT_WORKLOADS
            self.assertEqual(len(repeats), 2 if measured else 1)
            self.assertEqual(everything is not None, measured)

    def test_times_ascend_and_add_up(self):
        for row in self.rows:
            if row["workload"].startswith("restart_"):
                continue
            for name in ("commit", "visible", "call"):
                ranks = [row[f"{name}_us_{rank}"] for rank in report.RANKS]
                self.assertEqual(ranks, sorted(ranks))
            self.assertGreater(row["commit_us_p50"], 0)
            self.assertGreater(row["visible_us_p50"], 0)
            # A reply says "visible" after the change became visible.
            self.assertLess(row["visible_us_p99"], row["call_us_p99"])
            self.assertLessEqual(row["call_us_p99"], 1e6 * row["seconds"] + 1e3)

    def test_workloads_were_done(self):
        for (table, _, workload), (repeats, everything) in self.found.items():
            for row in repeats:
                self.assertGreater(row["seconds"], 0)
                if workload.startswith("restart_"):
                    self.assertEqual(row["routes"], float(table))
                    continue
                self.assertGreater(
                    row["incremental_builds"] + row["full_builds"], 0
                )
                if workload.startswith(("load_", "replace_")):
                    self.assertEqual(row["routes"], float(table))
            if everything:
                for column in ("operations", "changes"):
                    self.assertGreater(everything[column], 0)
                    self.assertEqual(everything[column],
                                     sum(row[column] for row in repeats))

    def test_lookups_went_on(self):
        # In all short workloads together: on a busy machine no batch may be
        # answered within the short time of one.
        rows = [row for (_, _, workload), (repeats, _) in self.found.items()
                if workload in run.SHORT_WORKLOADS for row in repeats]
        self.assertGreater(len(rows), 0)
        for column in ("idle_lookups_per_second", "lookups_per_second"):
            self.assertGreater(sum(row[column] for row in rows), 0)

    def test_memory_was_watched(self):
        for row in self.rows:
            if "resident_peak" not in row:
                continue
            # The kernel adds up what threads hold only now and then.
            self.assertGreater(row["resident_peak"],
                               row["resident_before"] - 4 * 2**20)
            self.assertGreater(row["rib_after"], 20 * row["routes"])
            self.assertGreater(row["fib_after"], 0)

    def test_the_table_shows_them(self):
        self.assertRegex(self.printed, r"(?m)^\| 10000 \| sqlite \| batch_1000 \| \d.* "
                         r"\d\S*\.\.\d\S* \|( \S+ \|){4}$")
        self.assertIn("| 1000 | sqlite | restart_kill | 1,000 |", self.printed)


class FailureTest(unittest.TestCase):
    def test_a_wrong_workload_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            with contextlib.redirect_stderr(io.StringIO()) as said:
                code = run.main([
                    "--short", "--tables=1000", "--stores=none",
                    "--workloads=what", f"--bin={BIN}",
                    f"--out={os.path.join(folder, 'short.csv')}",
                ])
        self.assertEqual(code, 1)
        self.assertIn('there is no workload "what"', said.getvalue())


class CallersTest(unittest.TestCase):
    def test_all_see_every_generation_and_no_answer_is_wrong(self):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            code = followers.main([
                "--callers=2", "--routes=1000", "--rate=500", "--batch=10",
                "--seconds=2", f"--bin={BIN}"])
        self.assertEqual(code, 0, said.getvalue())
        self.assertRegex(said.getvalue(), r"(?m)^100 generations, 2 callers: 0 not "
                         r"seen, 0 whole tables fetched again$")
        self.assertRegex(said.getvalue(), r"(?m)^from the ack to the callers' lookups, "
                         r"ms: p50 \d+\.\d\d, p99 \d+\.\d\d$")
        self.assertRegex(said.getvalue(), r"(?m)^[1-9]\d* lookups, 0 wrong answers; 0 "
                         r"digests differ")
        self.assertRegex(said.getvalue(), r"(?m)^\d+ changes/s in batches of 10: server "
                         r"\d\.\d+ cores, a caller \d\.\d+$")

    def test_a_caller_counts_answers_that_are_not_the_writers(self):
        options = types.SimpleNamespace(bin=pathlib.Path(BIN), routes=10)
        local_table = followers.program(options, followers.PROGRAM)
        with tempfile.TemporaryDirectory() as folder:
            leader = followers.lead(options, folder, 1)
            self.addCleanup(leader.stop)
            subprocess.run([local_table, "--role=writer", "--batch=10", "--rate=0",
                            f"--server={leader.socket}"], check=True,
                           stdout=subprocess.DEVNULL)
            said = subprocess.run(
                [local_table, "--role=caller", "--batch=7", "--until=101",
                 f"--server={leader.socket}"], check=True, stdout=subprocess.PIPE)
        self.assertGreater(json.loads(said.stdout.splitlines()[1])["wrong"], 0)

    def test_what_is_missing_or_wrong_is_said(self):
        written = {"acked": [[7, 1_000_000], [8, 2_000_000]], "digest": "aa"}
        good = {"seen": [[7, 1_500_000], [8, 5_000_000]], "lookups": 9, "wrong": 0,
                "resyncs": 0, "digest": "aa"}
        text, well = followers.judge(written, [good, good])
        self.assertTrue(well)
        self.assertIn("p50 0.50, p99 3.00", text)
        self.assertIn("18 lookups, 0 wrong", text)
        for change in ({"seen": [[8, 5_000_000]]}, {"wrong": 1}, {"resyncs": 1},
                       {"digest": "bb"}):
            self.assertFalse(followers.judge(written, [good, {**good, **change}])[1])


if __name__ == "__main__":
    unittest.main()

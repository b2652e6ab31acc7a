#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0

"""compare.py with the real programs, on a small table and for moments: that
every piece starts, answers rightly and is written down. No figure is judged.
"""

import contextlib
import io
import os
import sys
import tempfile
import unittest

import compare
import processes
import records

# Where Bazel put what is named in `data`.
BIN = os.getcwd()
QUICK = ["--generate=2000", "--repeats=2", "--seconds=0.03", "--warm_up=0.01",
         f"--client_cpus={min(1, os.cpu_count() - 1)}", f"--bin={BIN}"]


class CompareTest(unittest.TestCase):
    def run_compare(self, *argv):
        """The repeats of a run, and its summary; fails unless it went well."""
        with tempfile.TemporaryDirectory() as folder:
            with contextlib.redirect_stderr(io.StringIO()) as said:
                code = compare.main(
                    [argv[0], f"--out={folder}", *QUICK, *argv[1:]]
                )
            self.assertEqual(code, 0, said.getvalue())
            stem = os.path.join(folder, argv[0])
            self.assertTrue(os.path.exists(stem + ".json"))
            self.assertTrue(os.path.exists(stem + ".machine.json"))
            with open(stem + ".md", encoding="utf-8") as file:
                return records.read(stem + ".csv"), file.read()

    def test_sockets(self):
        rows, table = self.run_compare(
            "throughput", "--kinds=socket,socket_deep", "--batches=1,300"
        )
        # 2 turns, 2 sizes, 2 transports, 2 forms, 2 kinds.
        self.assertEqual(len(rows), 32)
        for row in rows:
            self.assertGreater(row["lookups"], 0)
            self.assertGreater(row["client_cpu_us_per_lookup"], 0)
            self.assertGreater(row["server_cpu_us_per_lookup"], 0)
        self.assertIn("socket_deep", table)

    def test_throughput(self):
        rows, table = self.run_compare(
            "throughput", "--kinds=server,callback,async,sync,socket",
            "--batches=256", "--transports=unix", "--seconds=0.3",
        )
        self.assertEqual(len(rows), 20)
        for row in rows:
            self.assertGreater(row["lookups"], 0, row["kind"])
            self.assertGreater(row["server_cpu_us_per_lookup"], 0)
            self.assertGreater(row["client_cpu_us_per_lookup"], 0)
        self.assertIn("| unix | full | 256 | server |", table)

    def test_latency(self):
        rows, table = self.run_compare("latency", "--repeats=1")
        kinds = {row["kind"] for row in rows}
        self.assertEqual(len(kinds), 6)
        for row in rows:
            self.assertGreater(row["latency_us_p50"], 0)
        self.assertIn("unary/block/same", table)

    def test_scale(self):
        rows, _ = self.run_compare(
            "scale", "--streams=1,3", "--connections=1,2", "--transports=tcp"
        )
        # One stream cannot have two connections.
        self.assertEqual(len(rows), 2 * 3)

    def test_load(self):
        rows, table = self.run_compare(
            "load", "--batches=256", "--transports=unix", "--shares=0.1,0.5",
            "--seconds=0.5",
        )
        self.assertEqual(len(rows), 2 * 2)
        self.assertIn("offered", table)
        for row in rows:
            self.assertGreater(row["offered"], 0)
            self.assertGreater(row["latency_us_p99"], 0)

    def test_a_server_that_cannot_start_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(RuntimeError, "unexpected"):
                processes.Server(
                    "server",
                    [os.path.join(BIN, "server/planb_server"), "what"],
                    folder,
                    None,
                )

    def test_a_client_that_fails_is_an_error(self):
        with self.assertRaisesRegex(RuntimeError, "exit code 3"):
            processes.run_client(
                [sys.executable, "-c", "raise SystemExit(3)"], None,
                os.getpid(),
            )


if __name__ == "__main__":
    unittest.main()

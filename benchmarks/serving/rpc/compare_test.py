#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0

"""What repeats come to; and compare.py with the real programs, on a small table
and for moments: that every piece starts, answers rightly and is written down. No
figure is judged.
"""

import contextlib
import io
import os
import sys
import tempfile
import unittest

import compare
import contenders
import records

# Where Bazel put what is named in `data`.
BIN = os.getcwd()
QUICK = ["--generate=2000", "--repeats=2", "--seconds=0.03", "--warm_up=0.01",
         f"--client_cpus={min(1, os.cpu_count() - 1)}", f"--bin={BIN}"]


def row(kind, repeat, rate, **more):
    return {
        **dict.fromkeys(compare.COLUMNS, ""),
        "kind": kind,
        "transport": "unix",
        "form": "full",
        "batch": 256,
        "depth": 1 if kind == "socket" else 64,
        "repeat": repeat,
        "lookups_per_second": rate,
        **more,
    }


def shares(rows):
    """The first line of a summary: its rate, spread, and share of the socket."""
    return compare.summary(rows).splitlines()[2].split(" | ")[3:7]


class RecordsTest(unittest.TestCase):
    def test_ratios_are_of_one_turn(self):
        # The machine halves its pace in the second turn: of the ratio nothing
        # shows, though the medians alone would say 75 of 150.
        rows = [
            row("server", 0, 100e6),
            row("socket", 0, 200e6),
            row("server", 1, 50e6),
            row("socket", 1, 100e6),
            row("server", 2, 75e6),
            row("socket", 3, 1e6),  # a turn without the other
        ]
        self.assertEqual(shares(rows), ["server", "75", "50..100", "0.5"])

    def test_only_like_is_compared_with_like(self):
        rows = [
            row("server", 0, 100e6),
            row("socket", 0, 200e6, batch=1024),
            row("socket", 0, 400e6, form="upper"),
        ]
        self.assertEqual(shares(rows), ["server", "100", "100..100", ""])

    def test_a_standstill_is_no_division_by_zero(self):
        rows = [row("server", 0, 100e6), row("socket", 0, 0.0)]
        self.assertEqual(shares(rows)[3], "")

    def test_what_is_written_is_read(self):
        rows = [row("server", 0, 1.5e8), row("socket", 0, 2e8, latency_us_p50=3.0),
                row("socket", 1, 2e8), row("server", 1, 1.25e8)]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "throughput.csv")
            writer = records.Writer(path, compare.COLUMNS, compare.CASE)
            for each in rows:
                writer.add(each)
            with self.assertRaises(ValueError):
                writer.add({"speed": 1})
            with open(path, encoding="utf-8") as file:
                self.assertEqual(len(file.readlines()), 3)  # a line a case
            # Cases in the order of their first rows.
            self.assertEqual(compare.read(path),
                             [rows[0], rows[3], rows[1], rows[2]])

    def test_cells(self):
        self.assertEqual(records.cell(None), "")
        self.assertEqual(records.cell(123456789.0, 1e-6), "123")
        self.assertEqual(records.cell(12345.6), "12,346")
        self.assertEqual(records.cell(0.0), "0")


class CompareTest(unittest.TestCase):
    def run_compare(self, *argv):
        """The repeats of a run, and its summary; fails unless it went well."""
        with tempfile.TemporaryDirectory() as folder:
            with (contextlib.redirect_stderr(io.StringIO()) as said,
                  contextlib.redirect_stdout(io.StringIO()) as table):
                code = compare.main([f"--out={folder}", *QUICK, *argv])
            self.assertEqual(code, 0, said.getvalue())
            stem = os.path.join(folder, "throughput")
            self.assertTrue(os.path.exists(stem + ".machine.json"))
            with contextlib.redirect_stdout(io.StringIO()) as anew:
                compare.main([f"--markdown={stem}.csv"])
            self.assertEqual(anew.getvalue(), table.getvalue())
            return compare.read(stem + ".csv"), table.getvalue()

    def test_sockets(self):
        rows, table = self.run_compare(
            "--kinds=socket,socket_deep", "--batches=1,300"
        )
        # 2 turns, 2 sizes, 2 transports, 2 forms, 2 kinds.
        self.assertEqual(len(rows), 32)
        for row in rows:
            self.assertGreater(row["lookups"], 0)
        self.assert_cpu(rows)
        self.assertIn("socket_deep", table)

    def assert_cpu(self, rows):
        # The kernel counts in ticks: a short run on a busy machine may have none.
        for column in ("client_cpu_us_per_lookup", "server_cpu_us_per_lookup"):
            self.assertGreater(sum(row[column] for row in rows), 0)

    def test_throughput(self):
        rows, table = self.run_compare(
            "--kinds=server,bare,socket", "--batches=256", "--transports=unix",
            "--seconds=0.3",
        )
        self.assertEqual(len(rows), 12)
        for row in rows:
            self.assertGreater(row["lookups"], 0, row["kind"])
        self.assert_cpu(rows)
        self.assertIn("| unix | full | 256 | server |", table)

    def test_a_server_that_cannot_start_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(RuntimeError, "unexpected"):
                contenders.Server(
                    "server",
                    [os.path.join(BIN, "server/planb_server"), "what"],
                    folder,
                    None,
                )

    def test_a_client_that_fails_is_an_error(self):
        with self.assertRaisesRegex(RuntimeError, "exit code 3"):
            contenders.run_client(
                [sys.executable, "-c", "raise SystemExit(3)"], None,
                os.getpid(),
            )


if __name__ == "__main__":
    unittest.main()

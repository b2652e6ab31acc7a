#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0

"""records.py and summaries.py: medians, and ratios within a turn."""

import os
import tempfile
import unittest

import records
import summaries


def row(kind, repeat, rate, **more):
    return {
        **dict.fromkeys(records.COLUMNS, ""),
        "experiment": "throughput",
        "kind": kind,
        "transport": "unix",
        "form": "full",
        "batch": 256,
        "depth": 1 if kind == "socket" else 64,
        "streams": 1,
        "connections": 1,
        "repeat": repeat,
        "lookups_per_second": rate,
        **more,
    }


class RecordsTest(unittest.TestCase):
    def test_ratios_are_of_one_turn(self):
        # The machine halves its pace in the second turn: of the ratio nothing
        # shows, though the medians alone would say 75 of 150.
        rows = [
            row("server", 0, 100.0),
            row("socket", 0, 200.0),
            row("server", 1, 50.0),
            row("socket", 1, 100.0),
            row("server", 2, 75.0),
            row("socket", 3, 1.0),  # a turn without the other
        ]
        entry = records.summarize(rows, "lookups_per_second", ["socket"])[0]
        self.assertEqual(entry["kind"], "server")
        self.assertEqual(entry["median"], 75.0)
        self.assertEqual((entry["least"], entry["most"]), (50.0, 100.0))
        self.assertEqual(entry["ratios"], {"socket": 0.5})

    def test_only_like_is_compared_with_like(self):
        rows = [
            row("server", 0, 100.0),
            row("socket", 0, 200.0, batch=1024),
            row("socket", 0, 400.0, transport="tcp"),
        ]
        entry = records.summarize(rows, "lookups_per_second", ["socket"])[0]
        self.assertEqual(entry["ratios"], {})

    def test_a_standstill_is_no_division_by_zero(self):
        rows = [row("server", 0, 100.0), row("socket", 0, 0.0)]
        entry = records.summarize(rows, "lookups_per_second", ["socket"])[0]
        self.assertEqual(entry["ratios"], {"socket": None})

    def test_what_is_written_is_read(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "throughput.csv")
            writer = records.Writer(path)
            writer.add(
                {"experiment": "throughput", "kind": "server", "batch": 256,
                 "repeat": 0, "lookups_per_second": 1.5e8}
            )
            with self.assertRaises(ValueError):
                writer.add({"speed": 1})
            rows = records.read(path)
        self.assertEqual(len(rows), 1)
        self.assertEqual(rows[0]["lookups_per_second"], 1.5e8)
        self.assertEqual(rows[0]["kind"], "server")
        self.assertEqual(rows[0]["offered"], "")

    def test_the_fastest_echo_is_the_measure_of_latency(self):
        def ping(kind, p50):
            return row(kind, 0, 1.0, experiment="latency", batch=1, depth=1,
                       variant="unary/block/split", latency_us_p50=p50)

        _, entries = summaries.latency(
            [
                ping("echo_callback", 60.0),
                ping("echo_async", 50.0),
                ping("echo_async_spin", 20.0),
                ping("echo_sync", 70.0),
                ping("server", 55.0),
            ]
        )
        server = next(e for e in entries if e["kind"] == "server")
        self.assertAlmostEqual(server["of_fastest_echo"], 55 / 20)
        self.assertAlmostEqual(server["of_fastest_sleeping_echo"], 55 / 50)

    def test_cells(self):
        self.assertEqual(records.cell(None), "")
        self.assertEqual(records.cell(123456789.0, 1e-6), "123")
        self.assertEqual(records.cell(12345.6), "12,346")
        self.assertEqual(records.cell(0.0), "0")


if __name__ == "__main__":
    unittest.main()

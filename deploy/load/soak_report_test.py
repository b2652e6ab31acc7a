#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0

"""soak_report.py: what is too much, and what was announced."""

import unittest

import soak_report

MB = 1_000_000


def samples(slope, seconds=600, start=100 * MB, noise=0):
    return [
        (float(at), 0, int(start + slope * at + noise * (at % 7 - 3)))
        for at in range(seconds)
    ]


def good_report():
    return {
        "clients": {
            "unix": {
                "counts": {"lookups": 1},
                "errors": {"UNAVAILABLE": {"announced": 3, "other": 0}},
                "wrong": [],
                "failure": None,
            }
        },
        "library": {"library": {"exit_code": 0, "batches": 5}},
        "restarts": [{"exit_code": -9, "due_code": -9}],
        "rotations": [{"serial": 7, "seen_after": 1.0}],
        "memory": {"too_much": False},
    }


class MemoryTest(unittest.TestCase):
    def judge(self, points, updates=10):
        return soak_report.memory(points, 0, 10_000, updates)

    def test_flat_is_fine(self):
        verdict = self.judge(samples(0, noise=100_000))
        self.assertFalse(verdict["too_much"])
        self.assertTrue(verdict["judged"])
        self.assertLess(abs(verdict["slope_bytes_per_second"]), 200)

    def test_a_leak_is_found(self):
        # 3% in ten minutes.
        self.assertTrue(self.judge(samples(5_000, noise=100_000))["too_much"])

    def test_a_small_leak_is_found_where_updates_are_many(self):
        verdict = self.judge(samples(40_000), updates=1_000)
        self.assertEqual(verdict["limit_bytes_per_second"], 32_000)
        self.assertTrue(verdict["too_much"])

    def test_one_step_is_no_slope(self):
        points = samples(0)
        points = points[:400] + [(a, b, c + 20 * MB) for a, b, c in points[400:]]
        self.assertLess(self.judge(points)["slope_bytes_per_second"], 2_000)

    def test_too_short_is_not_judged(self):
        verdict = self.judge(samples(1_000_000, seconds=60))
        self.assertFalse(verdict["judged"])
        self.assertFalse(verdict["too_much"])
        self.assertAlmostEqual(verdict["slope_bytes_per_second"], 1_000_000)

    def test_nothing_sampled(self):
        self.assertFalse(self.judge([])["too_much"])

    def test_only_the_window_counts(self):
        points = samples(1_000_000, seconds=100) + [
            (100.0 + at, 1, 100 * MB) for at in range(400)
        ]
        verdict = soak_report.memory(points, 100, 500, 10)
        self.assertEqual(verdict["slope_bytes_per_second"], 0)


class ErrorsTest(unittest.TestCase):
    def test_announced_is_unavailable_during_a_restart(self):
        windows = [(10.0, 12.0, True), (20.0, 21.0, False)]
        errors = [
            (9.0, 10.5, "UNAVAILABLE", ""),  # under way at the signal
            (11.0, 11.1, "UNAVAILABLE", ""),
            (20.5, 30.0, "UNAVAILABLE", ""),  # begun when no server was there
            (13.0, 13.1, "UNAVAILABLE", ""),
            (11.0, 11.1, "INTERNAL", ""),
            (11.0, 11.1, "CANCELLED", ""),
            (13.0, 13.1, "CANCELLED", ""),
            (20.5, 20.6, "CANCELLED", ""),  # no server drained
        ]
        self.assertEqual(
            soak_report.sort_errors(errors, windows),
            {
                "UNAVAILABLE": {"announced": 3, "other": 1},
                "INTERNAL": {"announced": 0, "other": 1},
                "CANCELLED": {"announced": 1, "other": 2},
            },
        )


class VerdictTest(unittest.TestCase):
    def test_a_good_one_passes(self):
        self.assertEqual(soak_report.reasons_against(good_report()), [])

    def test_each_fault_fails(self):
        def spoil(*path_and_value):
            *path, last, value = path_and_value
            report = good_report()
            at = report
            for step in path:
                at = at[step]
            at[last] = value
            reasons = soak_report.reasons_against(report)
            self.assertEqual(len(reasons), 1, (path_and_value, reasons))

        unix = ("clients", "unix")
        spoil(*unix, "errors", "INTERNAL", {"announced": 0, "other": 1})
        spoil(*unix, "counts", {"lookups": 1, "wrong": 1})
        spoil(*unix, "counts", {})
        spoil(*unix, "failure", "KeyError()")
        spoil("library", "library", {"exit_code": 1, "batches": 5})
        spoil("library", "library", {"exit_code": 0, "batches": 0})
        spoil("restarts", 0, {"exit_code": 1, "due_code": 0})
        spoil("rotations", 0, {"serial": 7, "seen_after": None})
        spoil("memory", {"too_much": True})


if __name__ == "__main__":
    unittest.main()

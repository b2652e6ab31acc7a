#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0

"""report.py and messages.py: what they say of runs, good and bad."""

import contextlib
import io
import json
import os
import tempfile
import unittest

import messages
import report


def fake_run(**changes):
    run = {
        "date": "2026-11-21T00:00:00Z",
        "options": {
            "call": "planb.v1.RouteLookup.BatchLookup",
        },
        "count": 10,
        "total": 2_000_000_000,
        "rps": 5.0,
        "errorDistribution": {},
        "statusCodeDistribution": {"OK": 10},
        "latencyDistribution": [{"percentage": 50, "latency": 1500}],
        "histogram": [{"mark": 0.001, "count": 10, "frequency": 1}],
        "details": [{"latency": 1500}] * 10,
    }
    run.update(changes)
    return run


class ReportTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def keep(self, run):
        with open(self.path("report"), "w", encoding="utf-8") as file:
            json.dump(run, file)
        with open(self.path("config"), "w", encoding="utf-8") as file:
            json.dump({"stream-call-count": 3}, file)
        with open(self.path("messages"), "wb") as file:
            file.write(messages.main(["batch", "200"]))
        stem = self.path("run")
        report.main(
            ["keep", self.path("report"), self.path("config"),
             self.path("messages"), "1024", "2048", stem]
        )
        with contextlib.redirect_stdout(io.StringIO()) as out:
            code = report.main(["summary", self.folder, "run"])
        return code, out.getvalue()

    def test_a_good_run(self):
        code, said = self.keep(fake_run())
        self.assertEqual(code, 0)
        # 10 streams of 3 batches of 200 in 2 s.
        facts = dict(report.facts(report.load(self.path("run.json"))))
        self.assertEqual(facts["M lookups/s"], "0.003")
        self.assertEqual(facts["addresses a batch"], "200")
        self.assertEqual(facts["call p50 us"], "2")
        self.assertIn("| run |", said)
        self.assertNotIn("details", report.load(self.path("run.json")))

    def test_one_bad_call_is_enough(self):
        code, said = self.keep(
            fake_run(
                statusCodeDistribution={"OK": 9, "Unavailable": 1},
                errorDistribution={"went away": 1},
            )
        )
        self.assertEqual(code, 1)
        self.assertIn("WRONG run", said)

    def test_no_call_is_no_success(self):
        code, _ = self.keep(
            fake_run(count=0, statusCodeDistribution={}, histogram=None,
                     latencyDistribution=None)
        )
        self.assertEqual(code, 1)


class MessagesTest(unittest.TestCase):
    def test_a_stream_is_delimited(self):
        data = messages.main(["batch", "1"])
        size, at = report.read_varint(data, 0)
        self.assertEqual(data[at : at + 4], b"\x08\x01\x12\x10")
        self.assertEqual(size, 4 + 16)
        self.assertEqual(data[at + 4] >> 5, 1)  # in 2000::/3
        self.assertEqual(len(data), messages.MESSAGES * (1 + size))

    def test_a_lookup_holds_one_address(self):
        data = messages.main(["lookup"])
        self.assertEqual(data[:4], b"\x12\x12\x0a\x10")
        self.assertEqual(len(data), 4 + 16)


if __name__ == "__main__":
    unittest.main()

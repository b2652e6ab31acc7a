#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0

"""The linter finds what it is for: each of these spoils a good dashboard."""

import copy
import unittest

import dashboard
import lint_dashboard


class LintDashboardTest(unittest.TestCase):
    def setUp(self):
        self.dashboard = copy.deepcopy(dashboard.dashboard())
        self.panel = next(
            p for p in self.dashboard["panels"] if p["type"] == "timeseries"
        )
        self.target = self.panel["targets"][0]

    def expect(self, complaint: str):
        found = lint_dashboard.check(self.dashboard)
        self.assertTrue(any(complaint in each for each in found), found)

    def test_finds_nothing_in_ours(self):
        self.assertEqual(lint_dashboard.check(self.dashboard), [])

    def test_finds_what_is_missing(self):
        del self.panel["description"]
        self.panel["fieldConfig"]["defaults"]["unit"] = ""
        self.target["legendFormat"] = ""
        self.expect("no description")
        self.expect("no unit")
        self.expect("no legend")
        self.panel["targets"] = []
        self.expect("asks nothing")

    def test_finds_another_data_source(self):
        self.target["datasource"] = {"type": "prometheus", "uid": "P1234"}
        self.expect("data source")

    def test_finds_queries_that_fit_no_choice_and_no_zoom(self):
        self.target["expr"] = 'rate(planb_lookups_total{job="planb"}[5m])'
        self.expect("does not choose by job")
        self.expect("does not choose by instance")
        self.expect("[5m]")
        self.target["expr"] = "planb_routes"
        self.expect("planb_routes has no selector")

    def test_finds_bare_counters(self):
        self.target["expr"] = self.target["expr"].replace("rate(", "sum(")
        self.expect("is a counter")

    def test_finds_overlaps_and_repetitions(self):
        self.dashboard["panels"].append(copy.deepcopy(self.panel))
        self.expect("overlap")
        self.expect("have the id")
        self.expect("have the title")

    def test_finds_fixed_data_source(self):
        variables = self.dashboard["templating"]["list"]
        variables[:] = [v for v in variables if v["name"] != "datasource"]
        self.expect("no variable for the data source")


if __name__ == "__main__":
    unittest.main()

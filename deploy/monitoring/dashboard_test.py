#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0

"""Checks the Grafana dashboard for what makes it fit any Grafana and any reader.

Every panel says what it shows, in which unit, for the servers chosen, from the
data source chosen; rates fit any zoom; counters are shown as rates; panels do
not overlap. Whether queries have answers is for prometheus_test.py. That the
checks find what they are for is tested by spoiling the dashboard.
"""

import collections
import copy
import pathlib
import re
import unittest

import dashboard

_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_METRICS = [pathlib.Path(__file__).parents[2] / room / "METRICS.md"
            for room in ("server", "feed")]
_WIDTH = 24
# Over the time that its description says.
_FIXED_RANGES = {"Certificates replaced"}


def check_expression(title: str, expression: str):
    for selector in re.findall(r"\{([^}]*)\}", expression):
        for variable in ("job", "instance"):
            if f'{variable}=~"${variable}"' not in selector:
                yield f"{title}: {{{selector}}} does not choose by {variable}"
    if bare := re.findall(r"\b((?:planb|process|instance:)\w*)\b(?![\w:{])",
                          re.sub(r"\{[^}]*\}", "{}", expression)):
        yield f"{title}: {bare[0]} has no selector"
    for found in re.findall(r"\[([^\]]*)\]", expression):
        if found != "$__rate_interval" and title not in _FIXED_RANGES:
            yield f"{title}: [{found}] is not [$__rate_interval]"
    for match in re.finditer(r"(\w*\(?)\b\w+_(?:total|bucket)\{", expression):
        if match.group(1) not in ("rate(", "increase("):
            yield f"{title}: {match.group()} is a counter, and no rate of it"


def check_panel(panel: dict):
    title = panel.get("title") or f"panel {panel.get('id')}"
    for key in ("title", "description"):
        if not panel.get(key):
            yield f"{title}: has no {key}"
    if not panel["fieldConfig"]["defaults"].get("unit"):
        yield f"{title}: has no unit"
    if not panel.get("targets"):
        yield f"{title}: asks nothing"
    for part in [panel, *panel.get("targets", [])]:
        if part.get("datasource") != _DATASOURCE:
            yield f"{title}: its data source is not the one chosen"
    for target in panel.get("targets", []):
        if not target["legendFormat"]:
            yield f"{title}: a query has no legend"
        yield from check_expression(title, target["expr"])


def check_layout(panels: list):
    cells = collections.Counter()
    for panel in panels:
        place = panel["gridPos"]
        if place["x"] + place["w"] > _WIDTH:
            yield f"{panel['title']}: ends right of the dashboard"
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                cells[x, y] += 1
    if any(count > 1 for count in cells.values()):
        yield "panels overlap"
    for key in ("id", "title"):
        values = [panel[key] for panel in panels]
        for value, count in collections.Counter(values).items():
            if count > 1:
                yield f"{count} panels have the {key} {value}"


def check(board: dict) -> list:
    wrong = list(check_layout(board["panels"]))
    for panel in board["panels"]:
        if panel["type"] != "row":
            wrong += check_panel(panel)
    variables = {v["name"]: v for v in board["templating"]["list"]}
    if variables.get("datasource", {}).get("type") != "datasource":
        wrong.append("there is no variable for the data source")
    for name, variable in variables.items():
        if not variable.get("label"):
            wrong.append(f"variable {name}: has no label")
        if name != "datasource" and variable["datasource"] != _DATASOURCE:
            wrong.append(f"variable {name}: another data source")
    for key in ("uid", "title", "description"):
        if not board.get(key):
            wrong.append(f"the dashboard has no {key}")
    return wrong


class DashboardTest(unittest.TestCase):
    def setUp(self):
        self.dashboard = copy.deepcopy(dashboard.dashboard())
        self.panel = next(
            p for p in self.dashboard["panels"] if p["type"] == "timeseries"
        )
        self.target = self.panel["targets"][0]

    def expect(self, complaint: str):
        found = check(self.dashboard)
        self.assertTrue(any(complaint in each for each in found), found)

    def test_asks_for_metrics_that_there_are(self):
        served = {name for document in _METRICS for name in
                  re.findall(r"^\| `(\w+)`", document.read_text(), re.MULTILINE)}
        asked = {name for panel in dashboard.panels_shown()
                 for target in panel["targets"]
                 for name in re.findall(r"(?<![:\w])((?:planb|process)_\w+)\{",
                                        target["expr"])}
        self.assertGreater(len(asked), 10)
        for name in asked:
            self.assertIn(re.sub("_(bucket|sum|count)$", "", name), served)

    def test_finds_nothing_in_ours(self):
        self.assertEqual(check(self.dashboard), [])

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

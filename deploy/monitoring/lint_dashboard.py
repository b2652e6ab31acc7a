#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0

"""Checks a Grafana dashboard for what makes it fit any Grafana and any reader.

    lint_dashboard.py DASHBOARD.json

Every panel says what it shows, in which unit, for the servers chosen, from the
data source chosen; rates fit any zoom; counters are shown as rates; panels do
not overlap. Whether queries have answers is for prometheus_test.py. Prints what
is wrong; exit status 1 if anything.
"""

import collections
import json
import re
import sys

_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
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


def check(dashboard: dict) -> list:
    wrong = list(check_layout(dashboard["panels"]))
    for panel in dashboard["panels"]:
        if panel["type"] != "row":
            wrong += check_panel(panel)
    variables = {v["name"]: v for v in dashboard["templating"]["list"]}
    if variables.get("datasource", {}).get("type") != "datasource":
        wrong.append("there is no variable for the data source")
    for name, variable in variables.items():
        if not variable.get("label"):
            wrong.append(f"variable {name}: has no label")
        if name != "datasource" and variable["datasource"] != _DATASOURCE:
            wrong.append(f"variable {name}: another data source")
    for key in ("uid", "title", "description"):
        if not dashboard.get(key):
            wrong.append(f"the dashboard has no {key}")
    return wrong


def main() -> int:
    with open(sys.argv[1], encoding="utf-8") as file:
        dashboard = json.load(file)
    wrong = check(dashboard)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    shown = sum(panel["type"] != "row" for panel in dashboard["panels"])
    print(f"{shown} panels, {len(wrong)} complaints")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

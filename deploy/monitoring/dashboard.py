#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0

"""Prints the Grafana dashboard of dashboard_panels.py as JSON.

    deploy/monitoring/dashboard.py > dashboard.json

Import the JSON in Grafana (10 or later), or give it to a provisioner. The data
source, the job, the servers and the tables are chosen at its top.
"""

import json

from dashboard_panels import ROWS, Panel

_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_SELECTORS = {
    "TAB": 'job=~"$job", instance=~"$instance", table=~"$table"',
    "SEL": 'job=~"$job", instance=~"$instance"',
}
_OURS = '__name__=~"planb_build_info|planb_feed_ready"'
_WIDTH = 24
_HEIGHTS = {"stat": 4, "table": 5, "timeseries": 8}


def expression_of(text: str) -> str:
    for name, selector in _SELECTORS.items():
        text = text.replace(name, selector)
    return text


def _target(panel: Panel, index: int) -> dict:
    expression, legend = panel.queries[index]
    momentary = panel.kind != "timeseries"
    return {
        "datasource": _DATASOURCE,
        "editorMode": "code",
        "expr": expression_of(expression),
        "format": "table" if panel.kind == "table" else "time_series",
        "instant": momentary, "range": not momentary,
        "legendFormat": legend or "__auto",
        "refId": chr(ord("A") + index),
    }


def _options(kind: str) -> dict:
    if kind == "timeseries":
        return {"legend": {"displayMode": "list", "placement": "bottom"},
                "tooltip": {"mode": "multi", "sort": "desc"}}
    if kind == "stat":
        return {"colorMode": "none", "graphMode": "none",
                "reduceOptions": {"calcs": ["lastNotNull"]}}
    return {"showHeader": True}


def _defaults(panel: Panel) -> dict:
    defaults = {"unit": panel.unit}
    if panel.log:
        defaults["custom"] = {"scaleDistribution": {"type": "log", "log": 10}}
    elif panel.min is not None:
        defaults["min"] = panel.min
    return defaults


def _panel(panel: Panel, number: int, x: int, y: int) -> dict:
    result = {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": _DATASOURCE,
        "gridPos": {"x": x, "y": y, "w": panel.width,
                    "h": _HEIGHTS[panel.kind]},
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _options(panel.kind),
        "targets": [_target(panel, i) for i in range(len(panel.queries))],
    }
    if panel.kind == "table":
        shown = ["instance", "version", "compiler", "kernel"]
        result["transformations"] = [{
            "id": "filterFieldsByName",
            "options": {"include": {"names": shown}},
        }]
    return result


def _panels() -> list:
    panels, y = [], 0
    for title, row in ROWS:
        panels.append({
            "id": len(panels) + 1, "type": "row", "title": title,
            "collapsed": False,
            "gridPos": {"x": 0, "y": y, "w": _WIDTH, "h": 1}, "panels": [],
        })
        x, y, height = 0, y + 1, 0
        for panel in row:
            if x + panel.width > _WIDTH:
                x, y, height = 0, y + height, 0
            panels.append(_panel(panel, len(panels) + 1, x, y))
            x += panel.width
            height = max(height, _HEIGHTS[panel.kind])
        y += height
    return panels


def _choice(name: str, label: str, query: str) -> dict:
    return {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": _DATASOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,  # whenever the time range changes
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def dashboard() -> dict:
    return {
        "uid": "planb-lookup",
        "title": "PlanB Lookup",
        "description": "Lookups, changes, memory, security of PlanB servers; feeds.",
        "tags": ["planb"],
        "schemaVersion": 38,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,  # one crosshair for all panels
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "utc",
        "templating": {"list": [
            {"type": "datasource", "name": "datasource",
             "label": "Data source", "query": "prometheus"},
            _choice("job", "Job", f"label_values({{{_OURS}}}, job)"),
            _choice("instance", "Server or feed",
                    f'label_values({{{_OURS}, job=~"$job"}}, instance)'),
            _choice("table", "Table",
                    'label_values(planb_routes{job=~"$job", '
                    'instance=~"$instance"}, table)'),
        ]},
        "annotations": {"list": [{
            "name": "Alerts",
            "datasource": _DATASOURCE,
            "enable": True,
            "iconColor": "red",
            "expr": 'ALERTS{alertname=~"PlanB.*", alertstate="firing"}',
            "titleFormat": "{{alertname}} {{instance}}",
        }]},
        "panels": _panels(),
    }


# What Grafana would put there: everything, and a range for rules run 60 times
# faster.
_VARIABLES = {"$job": "planb|planb-feed", "$instance": ".+", "$table": ".+",
              "$__rate_interval": "5s"}


def expand(expression: str) -> str:
    for name, value in _VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def panels_shown() -> list:
    """The panels, rows left out."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


if __name__ == "__main__":
    print(json.dumps(dashboard(), indent=1))

# SPDX-License-Identifier: Apache-2.0

"""The dashboard's queries, asked of a real Prometheus."""

import math

from dashboard import dashboard
from real_server import wait_until

# What Grafana would put there: everything, and a range for rules run 60 times
# faster.
_VARIABLES = {
    "$job": "planb",
    "$instance": ".+",
    "$table": ".+",
    "$__rate_interval": "5s",
}


def expand(expression: str, **instead) -> str:
    for name, value in {**_VARIABLES, **instead}.items():
        expression = expression.replace(name, value)
    return expression


def load() -> list:
    """The panels, rows left out."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def check(prometheus) -> int:
    """Asks each query until it has an answer, a number at least; returns how
    many there are. Throws TimeoutError with the panel's title."""
    count = 0
    for panel in load():
        for target in panel["targets"]:
            expression = expand(target["expr"])
            wait_until(
                lambda: any(
                    math.isfinite(value)
                    for _, value in prometheus.query(expression)
                ),
                f"an answer for panel '{panel['title']}': {expression}",
                seconds=20,
            )
            count += 1
    return count

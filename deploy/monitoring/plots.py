#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0

"""Draws panels of the dashboard from a short run under load, with matplotlib:
what Grafana would show, by the same queries.

    plots.py BIN OUT.png

Two servers, one of them with a store, are looked up in and changed for a
quarter of a minute. It is a picture of the dashboard, not a measurement.
"""

import math
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import EngFormatter, PercentFormatter

sys.path.append(
    str(pathlib.Path(__file__).parents[2] / "benchmarks" / "serving")
)
import dashboard
import faults
from plot import save
from processes import Prometheus, Server

_SECONDS = 15
_COLUMNS = 3
_TITLES = [
    "Lookups of each server",
    "Time to answer a batch",
    "Batch size",
    "Misses",
    "Bytes of lookups",
    "Open streams",
    "Routes",
    "Changes of routes",
    "From accepted to visible",
    "Rebuild time",
    "Rebuilds",
    "Store",
    "Tables",
    "Resident",
    "Processors",
]
_FORMATS = {
    "s": EngFormatter("s", sep=" "),
    "bytes": EngFormatter("B", sep=" "),
    "Bps": EngFormatter("B/s", sep=" "),
    "ops": EngFormatter("/s", sep=" "),
    "short": EngFormatter(sep=""),
    "percentunit": PercentFormatter(1),
}


def change(server: Server, table: pathlib.Path, stop: threading.Event):
    """Routes come, change and go."""
    number = 0
    while not stop.is_set():
        number += 1
        server.ctl("announce", f"2001:db8:{number:x}::/48", 1 + number % 60)
        if number % 20 == 0:
            server.ctl("load", table)
        if number % 20 == 10:
            server.ctl("withdraw", *(f"2001:db8:{i:x}::/48" for i in range(20)))
        stop.wait(0.1)


def legend_of(template: str, labels: dict) -> str:
    for name, value in labels.items():
        template = template.replace(f"{{{{{name}}}}}", value)
    return template


def draw(axes, panel: dict, prometheus: Prometheus, start: float, end: float):
    for target in panel["targets"]:
        expression = dashboard.expand(target["expr"])
        for labels, points in prometheus.query_range(
            expression, start, end, step=0.5
        ):
            times, values = zip(*points)
            # Lines for what never happened would only hide the others.
            if any(math.isfinite(value) and value > 0 for value in values):
                legend = legend_of(target["legendFormat"], labels)
                axes.plot([t - start for t in times], values, label=legend)
    axes.set_title(panel["title"], fontsize=10, loc="left")
    defaults = panel["fieldConfig"]["defaults"]
    axes.set_xlim(0, end - start)
    if "custom" in defaults:
        axes.set_yscale("log")
    else:  # with room for a legend
        axes.set_ylim(bottom=0, top=1.25 * axes.get_ylim()[1])
    axes.yaxis.set_major_formatter(_FORMATS[defaults["unit"]])
    axes.tick_params(labelsize=7)
    axes.grid(alpha=0.3)
    if axes.lines:
        axes.legend(fontsize=6, loc="best", framealpha=0.6)


def plot(prometheus: Prometheus, start: float, end: float, path: pathlib.Path):
    by_title = {panel["title"]: panel for panel in dashboard.panels_shown()}
    rows = -(-len(_TITLES) // _COLUMNS)
    figure, grid = plt.subplots(
        rows, _COLUMNS, figsize=(15, 2.6 * rows), layout="constrained"
    )
    for axes, title in zip(grid.flat, _TITLES):
        draw(axes, by_title[title], prometheus, start, end)
    for axes in grid[-1]:
        axes.set_xlabel("seconds", fontsize=8)
    figure.suptitle(
        "PlanB Lookup: two servers for a quarter of a minute, by the "
        "dashboard's queries"
    )
    save(figure, path, dpi=90, colours=96)


def main():
    programs, path = map(pathlib.Path, sys.argv[1:3])
    prometheus_programs = subprocess.run(
        [pathlib.Path(__file__).parent / "prometheus.sh"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    traffic = ("--trace=match", "--synthetic=50000")
    running = []  # closed in the end, the last first
    stop = threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        table = work / "table.txt"
        try:
            servers = []
            for name in ("edge-1", "edge-2"):
                server = Server(programs, work, name)
                servers.append(server)
                store = "none" if servers[1:] else str(work / "planb.db")
                server.start("--generate=50000", store=store)
            prometheus = Prometheus(pathlib.Path(prometheus_programs), work)
            running.append(prometheus)
            prometheus.set_targets({s.name: s.metrics for s in servers})
            servers[0].ctl(
                "generate", "--routes=2000", "--seed=7", f"--output={table}"
            )
            time.sleep(10)  # until Prometheus has found and scraped them
            start = time.time()
            running += [
                # In prefixes of the table; and of another one, so that some
                # addresses have no route.
                faults.Load(servers[0], "--batch=1024", "--rate=3e6", *traffic),
                faults.Load(
                    servers[1], "--batch=256", "--rate=1e6", "--seed=2",
                    "--streams=4", *traffic,
                ),
            ]
            writers = [
                threading.Thread(target=change, args=(server, table, stop))
                for server in servers
            ]
            for writer in writers:
                writer.start()
            time.sleep(_SECONDS)
            plot(prometheus, start, time.time(), path)
            stop.set()
            for writer in writers:
                writer.join()
        finally:
            stop.set()
            for each in reversed(running):
                each.close()
            for server in servers:
                server.kill()


if __name__ == "__main__":
    main()

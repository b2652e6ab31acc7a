#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0

"""Draws pictures of raw repeats, as PNG.

    apt-get install --no-install-recommends python3-matplotlib
    benchmarks/serving/plot.py DIR/throughput.csv
    benchmarks/serving/plot.py DIR/visibility_NAME.csv

Points are medians, bars reach from the least to the most.

Files of rpc/compare.py make one picture beside the first, throughput.png: lookups a
second against batch size, with the bare sockets.

Of visibility/run.py's, NAME.latency.png shows the time from accepted to visible
against the size of the table, by kind of change.
"""

import csv
import io
import os
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # pylint: disable=wrong-import-position
from PIL import Image  # pylint: disable=wrong-import-position

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [os.path.join(HERE, "rpc"), os.path.join(HERE, "visibility")]

import compare  # pylint: disable=wrong-import-position
import report  # pylint: disable=wrong-import-position


def save(figure, path, dpi=72, colours=48):
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    # A palette is enough for lines, and a third of the bytes.
    image = Image.open(buffer).convert("RGB").quantize(colours)
    image.save(path, optimize=True)
    plt.close(figure)
    print(path)


# The same colours in every picture: the server's own, then greys for sockets.
LOOKS = {
    "server": {"color": "#c0392b", "marker": "o", "linewidth": 2},
    "bare": {"color": "#2980b9", "marker": "s"},
    "socket": {"color": "#555555", "marker": ".", "linestyle": ":"},
    "socket_spin": {"color": "#888888", "marker": ".", "linestyle": "--"},
    "socket_deep": {"color": "#000000", "marker": ".", "linestyle": "-."},
}
KINDS = {
    "socket": "bare socket, ping-pong",
    "socket_spin": "bare socket, ping-pong, both ends polling",
    "socket_deep": "bare socket, as many in flight as gRPC",
}


def panels(columns, rows, width=5.2, height=3.6, **more):
    return plt.subplots(rows, columns, figsize=(width * columns, height * rows),
                        squeeze=False, layout="constrained", **more)


def values_of(rows, key):
    return list(dict.fromkeys(row[key] for row in rows))


def where(rows, **wanted):
    return [row for row in rows
            if all(row[key] == value for key, value in wanted.items())]


def draw(ax, groups, scale=1.0, **looks):
    """Medians of {x: values}, and bars from the least to the most."""
    xs = sorted(groups)
    mids = [compare.statistics.median(groups[x]) for x in xs]
    ax.errorbar([x * scale for x in xs], mids,
                yerr=[[mid - min(groups[x]) for x, mid in zip(xs, mids)],
                      [max(groups[x]) - mid for x, mid in zip(xs, mids)]],
                capsize=2, **looks)


def by(rows, x, y, scale=1.0):
    """{x: the values of y}."""
    groups = {}
    for row in rows:
        if row[y] != "":
            groups.setdefault(float(row[x]), []).append(float(row[y]) * scale)
    return groups


def finish(figure, axes, path):
    for ax in axes.flat:
        ax.grid(alpha=0.3)
    axes[0][0].legend(fontsize="x-small")
    save(figure, path)


def draw_throughput(rows, path):
    forms, transports = values_of(rows, "form"), values_of(rows, "transport")
    figure, axes = panels(len(transports), len(forms))
    for i, form in enumerate(forms):
        for j, transport in enumerate(transports):
            ax = axes[i][j]
            for kind in values_of(rows, "kind"):
                own = where(rows, kind=kind, form=form, transport=transport)
                draw(ax, by(own, "batch", "lookups_per_second", 1e-6),
                     label=KINDS.get(kind, kind), markersize=4,
                     **LOOKS.get(kind, {}))
            ax.set_xscale("log", base=2)
            ax.set_yscale("log")
            ax.set_title(f"{transport}, {form} addresses")
            ax.set_xlabel("addresses a batch")
            ax.set_ylabel("million lookups a second")
    finish(figure, axes, path)


WORKLOADS = {
    "one": "one route, 200 a second",
    "one_full": "one route, one after the other",
    "batch_10000": "batch of 10,000",
    "replace_near": "replaced, 1% differs",
    "replace_other": "replaced, all differs",
}
RANKS = {"p50": "#2980b9", "p90": "#27ae60", "p99": "#e67e22",
         "p999": "#c0392b", "max": "#888888"}


def size(table, repeats):
    """Of the table as it was loaded, which changes may leave a little behind."""
    return float(table) if table.isdigit() else repeats[0]["routes"]


def parts_of(found, part):
    return list(dict.fromkeys(key[part] for key in found))


def draw_visibility(found, path):
    workloads = [workload for workload in parts_of(found, 2)
             if not workload.startswith(("stream_", "load_", "restart_"))]
    stores = parts_of(found, 1)
    figure, axes = panels(len(workloads), len(stores), 3.4, 3.2, sharey=True)
    for i, store in enumerate(stores):
        for j, workload in enumerate(workloads):
            ax = axes[i][j]
            own = sorted(
                (size(table, repeats), everything)
                for (table, at, what), (repeats, everything) in found.items()
                if (at, what) == (store, workload) and everything
            )
            for rank, colour in RANKS.items():
                ax.plot([routes for routes, _ in own],
                        [row[f"visible_us_{rank}"] / 1e3 for _, row in own],
                        label="p99.9" if rank == "p999" else rank,
                        color=colour, marker=".")
            ax.set_xscale("log")
            ax.set_yscale("log")
            kept = "in memory" if store == "none" else store
            ax.set_title(f"{WORKLOADS.get(workload, workload)}\n{kept}", fontsize="medium")
            ax.set_xlabel("routes")
        axes[i][0].set_ylabel("ms from accepted to visible")
    finish(figure, axes, path)


def main(paths):
    rows = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            columns = next(csv.reader(file), [])
        if "workload" in columns:
            found = report.series(report.read(path))
            stem = path.removesuffix(".csv")
            draw_visibility(found, stem + ".latency.png")
        else:
            rows += compare.read(path)
    if rows:
        draw_throughput(rows, os.path.join(os.path.dirname(paths[0]), "throughput.png"))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    main(sys.argv[1:])

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0

"""Draws a picture of each experiment from the raw repeats, as PNG.

    apt-get install --no-install-recommends python3-matplotlib
    benchmarks/serving/rpc/plot.py DIR/throughput.csv DIR/load.csv DIR/scale.csv

Several files of one experiment make one picture. throughput.png shows lookups a
second against batch size, with the bare sockets beside them; load.png latency
against offered load; scale.png lookups a second against streams. They are
written beside the first file. Points are medians, bars reach from the least to
the most.
"""

import io
import os
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # pylint: disable=wrong-import-position
from PIL import Image  # pylint: disable=wrong-import-position

import records  # pylint: disable=wrong-import-position

# The same colours in every picture: the server's own, then greys for sockets.
LOOKS = {
    "server": {"color": "#c0392b", "marker": "o", "linewidth": 2},
    "async": {"color": "#2980b9", "marker": "s"},
    "callback": {"color": "#27ae60", "marker": "^"},
    "sync": {"color": "#8e44ad", "marker": "v"},
    "async_spin": {"color": "#16a085", "marker": "d"},
    "socket": {"color": "#555555", "marker": ".", "linestyle": ":"},
    "socket_spin": {"color": "#888888", "marker": ".", "linestyle": "--"},
    "socket_deep": {"color": "#000000", "marker": ".", "linestyle": "-."},
}
NAMES = {
    "socket": "bare socket, ping-pong",
    "socket_spin": "bare socket, ping-pong, both ends polling",
    "socket_deep": "bare socket, as many in flight as gRPC",
}


def panels(columns, rows, width=5.2, height=3.6):
    figure, axes = plt.subplots(
        rows,
        columns,
        figsize=(width * columns, height * rows),
        squeeze=False,
        layout="constrained",
    )
    return figure, axes


def distinct(rows, key):
    return list(dict.fromkeys(row[key] for row in rows))


def points(rows, x, y, scale=1.0):
    """(xs, medians, [below, above]) of `y` by `x`, ascending."""
    groups = {}
    for row in rows:
        if row[y] != "":
            groups.setdefault(float(row[x]), []).append(float(row[y]) * scale)
    xs = sorted(groups)
    mids = [records.statistics.median(groups[at]) for at in xs]
    below = [mid - min(groups[at]) for at, mid in zip(xs, mids)]
    above = [max(groups[at]) - mid for at, mid in zip(xs, mids)]
    return xs, mids, [below, above]


def throughput(rows, path):
    forms, transports = distinct(rows, "form"), distinct(rows, "transport")
    figure, axes = panels(len(transports), len(forms))
    for i, form in enumerate(forms):
        for j, transport in enumerate(transports):
            ax = axes[i][j]
            for kind in distinct(rows, "kind"):
                xs, mids, bars = points(
                    [
                        row
                        for row in rows
                        if (row["kind"], row["form"], row["transport"])
                        == (kind, form, transport)
                    ],
                    "batch",
                    "lookups_per_second",
                    1e-6,
                )
                ax.errorbar(
                    xs,
                    mids,
                    yerr=bars,
                    label=NAMES.get(kind, kind),
                    capsize=2,
                    markersize=4,
                    **LOOKS.get(kind, {}),
                )
            ax.set_xscale("log", base=2)
            ax.set_yscale("log")
            ax.set_title(f"{transport}, {form} addresses")
            ax.set_xlabel("addresses a batch")
            ax.set_ylabel("million lookups a second")
            ax.grid(alpha=0.3)
    axes[0][0].legend(fontsize="x-small")
    save(figure, path)


def load(rows, path):
    cases = [
        (transport, batch)
        for transport in distinct(rows, "transport")
        for batch in distinct(rows, "batch")
    ]
    figure, axes = panels(len(cases), 1)
    for ax, (transport, batch) in zip(axes[0], cases):
        own = [
            row
            for row in rows
            if (row["transport"], row["batch"]) == (transport, batch)
        ]
        for name, label in (
            ("p50", "p50"),
            ("p90", "p90"),
            ("p99", "p99"),
            ("p999", "p99.9"),
        ):
            xs, mids, bars = points(own, "offered", f"latency_us_{name}")
            ax.errorbar(
                [x * 1e-6 for x in xs],
                mids,
                yerr=bars,
                label=label,
                capsize=2,
                marker=".",
            )
        ax.set_yscale("log")
        ax.set_title(f"{transport}, batches of {batch:.0f}")
        ax.set_xlabel("offered, million lookups a second")
        ax.set_ylabel("us from when a batch was due")
        ax.grid(alpha=0.3)
    axes[0][0].legend(fontsize="x-small")
    save(figure, path)


def scale(rows, path):
    transports = distinct(rows, "transport")
    figure, axes = panels(len(transports), 1)
    for ax, transport in zip(axes[0], transports):
        for connections in distinct(rows, "connections"):
            xs, mids, bars = points(
                [
                    row
                    for row in rows
                    if (row["transport"], row["connections"])
                    == (transport, connections)
                ],
                "streams",
                "lookups_per_second",
                1e-6,
            )
            ax.errorbar(
                xs,
                mids,
                yerr=bars,
                label=f"{connections:.0f} connections",
                capsize=2,
                marker=".",
            )
        ax.set_title(f"{transport}, batches of {rows[0]['batch']:.0f}")
        ax.set_xlabel("streams")
        ax.set_ylabel("million lookups a second")
        ax.set_ylim(bottom=0)
        ax.grid(alpha=0.3)
    axes[0][0].legend(fontsize="x-small")
    save(figure, path)


def save(figure, path):
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=72)
    # A palette is enough for lines, and a third of the bytes.
    image = Image.open(buffer).convert("RGB").quantize(48)
    image.save(path, optimize=True)
    plt.close(figure)
    print(path)


PICTURES = {"throughput": throughput, "load": load, "scale": scale}


def main(paths):
    experiments = {}
    for path in paths:
        rows = records.read(path)
        if not rows or rows[0]["experiment"] not in PICTURES:
            raise SystemExit(f"{path}: nothing to draw")
        experiments.setdefault(rows[0]["experiment"], []).extend(rows)
    folder = os.path.dirname(paths[0])
    for experiment, rows in experiments.items():
        PICTURES[experiment](rows, os.path.join(folder, experiment + ".png"))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    main(sys.argv[1:])

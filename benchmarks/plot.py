#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0

"""Draws the pictures of the documents, from CSV files.

    apt-get install --no-install-recommends python3-matplotlib python3-pil
    benchmarks/plot.py benchmarks/results/intel    # what bench.py wrote
    benchmarks/plot.py DIR/throughput.csv          # what rpc/compare.py did

Of bench.py's files come the pictures of the PlanB paper: rates.png (its figures 8
to 11 and 14: rates by table, by size, by cores, the ablation) and costs.png
(figures 12 and 13, and single lookups: memory, changes, time of one address). Of
compare.py's, one or several, comes throughput.png beside the first: lookups a
second against batch size. Points are medians, bars reach from the least to the most.
"""

import csv
import io
import itertools
import pathlib
import statistics
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # pylint: disable=wrong-import-position
from PIL import Image  # pylint: disable=wrong-import-position

COLOURS = plt.get_cmap("tab20").colors
OURS = "#c0392b"
# The kinds that compare.py measures.
KINDS = {
    "server": ("server", {"color": OURS, "marker": "o", "linewidth": 2}),
    "bare": ("bare gRPC", {"color": "#2980b9", "marker": "s"}),
    "socket": ("bare socket, ping-pong", {"color": "#555555", "linestyle": ":"}),
    "socket_spin": ("bare socket, ping-pong, both ends polling",
                    {"color": "#888888", "linestyle": "--"}),
    "socket_deep": ("bare socket, as many in flight as gRPC",
                    {"color": "#000000", "linestyle": "-."}),
}


class Results:
    """The CSV files of one machine."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.colours = {}

    def rows(self, experiment, metric):
        path = self.directory / f"{experiment}.csv"
        if not path.exists():
            return []
        with open(path, encoding="utf-8") as file:
            return [row for row in csv.DictReader(file)
                    if row["metric"] == metric]

    def colour(self, engine):
        """The same in every picture; the product's is red."""
        if engine == "planb":
            return OURS
        return self.colours.setdefault(
            engine, COLOURS[len(self.colours) % len(COLOURS)])


def points_with_bars(axes, points, **looks):
    """A line of (x, median, least, most)."""
    at, median, least, most = zip(*sorted(points))
    axes.errorbar(at, median, yerr=([m - l for m, l in zip(median, least)],
                                    [h - m for m, h in zip(median, most)]), **looks)


def lines(axes, results, experiment, metric, x, title, label):
    """A line an engine: `metric` against the number that `x` makes of a row."""
    engines = {}
    for row in results.rows(experiment, metric):
        engines.setdefault(row["engine"], []).append(
            (x(row), float(row["median"]), float(row["least"]),
             float(row["most"])))
    for engine, points in engines.items():
        points_with_bars(axes, points, label=engine, color=results.colour(engine),
                         marker=".", linewidth=2 if engine == "planb" else 1)
    axes.set_title(title, fontsize=9)
    axes.set_ylabel(label, fontsize=8)
    axes.set_ylim(bottom=0)
    axes.tick_params(labelsize=7)


def bars(axes, results, experiment, metric, title, label, log=False,
         trace="match"):
    """A bar an engine, of the first table of the experiment."""
    rows = results.rows(experiment, metric)
    rows = [r for r in rows
            if r["table"] == rows[0]["table"] and r["trace"] == trace]
    rows.sort(key=lambda r: float(r["median"]))
    for at, row in enumerate(rows):
        median = float(row["median"])
        error = ([median - float(row["least"] or median)],
                 [float(row["most"] or median) - median])
        axes.barh(at, median, xerr=error, color=results.colour(row["engine"]),
                  error_kw={"linewidth": 0.7})
    axes.set_yticks(range(len(rows)), [r["engine"] for r in rows], fontsize=7)
    if log:
        axes.set_xscale("log")
    axes.set_title(title, fontsize=9)
    axes.set_xlabel(label, fontsize=8)
    axes.tick_params(axis="x", labelsize=7)


def save(figure, path, dpi=80, colours=64):
    figure.tight_layout()
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    # A palette is enough for lines, and a third of the bytes.
    Image.open(buffer).convert("RGB").quantize(colours).save(path, optimize=True)
    plt.close(figure)
    print(path)


def draw_engines(directory):
    results = Results(directory)
    figure, axes = plt.subplots(2, 2, figsize=(11, 8))
    rate = "million lookups a second"
    lines(axes[0][0], results, "tables", "rate_mps",
          lambda r: (2026 if r["table"] == "real"
                     else int(r["table"].split(":")[0])),
          "tables by year (2026: real)", rate)
    axes[0][0].xaxis.get_major_locator().set_params(integer=True)
    lines(axes[0][1], results, "size", "rate_mps", lambda r: int(r["routes"]),
          "made-up tables by size", rate)
    axes[0][1].set_xscale("log")
    lines(axes[1][0], results, "cores", "rate_mps",
          lambda r: int(r["threads"]), "cores together, real table", rate)
    bars(axes[1][1], results, "ablation", "rate_mps",
         "from std::upper_bound to the engine, real table", rate)
    handles, labels = axes[0][0].get_legend_handles_labels()
    axes[0][0].legend(handles, labels, fontsize=6, ncol=2)
    save(figure, results.directory / "rates.png")

    figure, axes = plt.subplots(2, 2, figsize=(11, 8))
    bars(axes[0][0], results, "memory", "bytes_per_route", "memory, real table",
         "bytes a route", log=True)
    bars(axes[0][1], results, "updates", "update1_p50_us",
         "one change, real table (of engines without updates: a build)",
         "microseconds", log=True)
    bars(axes[1][0], results, "single", "dependent_ns",
         "one address after the other, real table", "nanoseconds")
    bars(axes[1][1], results, "memory", "build_ms", "a build, real table",
         "milliseconds", log=True)
    save(figure, results.directory / "costs.png")


def draw_throughput(paths):
    sys.path.append(str(pathlib.Path(__file__).parent / "serving/rpc"))
    import compare  # pylint: disable=import-outside-toplevel

    rows = [row for path in paths for row in compare.read(path)]
    forms, transports = (list(dict.fromkeys(row[key] for row in rows))
                         for key in ("form", "transport"))
    figure, axes = plt.subplots(len(forms), len(transports), squeeze=False,
                                figsize=(5.2 * len(transports), 3.6 * len(forms)))
    for ax, (form, transport) in zip(axes.flat, itertools.product(forms, transports)):
        for kind, (label, looks) in KINDS.items():
            rates = {}
            for row in rows:
                if (row["kind"], row["form"], row["transport"]) == (kind, form, transport):
                    rates.setdefault(row["batch"], []).append(row[compare.RATE] / 1e6)
            if rates:
                points_with_bars(
                    ax, [(batch, statistics.median(all_of), min(all_of), max(all_of))
                         for batch, all_of in rates.items()],
                    label=label, markersize=4, **looks)
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set_title(f"{transport}, {form} addresses")
        ax.set_xlabel("addresses a batch")
        ax.set_ylabel("million lookups a second")
        ax.grid(alpha=0.3)
    axes[0][0].legend(fontsize="x-small")
    save(figure, pathlib.Path(paths[0]).parent / "throughput.png")


def main(paths):
    if not paths:
        raise SystemExit(__doc__)
    if pathlib.Path(paths[0]).is_dir():
        draw_engines(paths[0])
    else:
        draw_throughput(paths)


if __name__ == "__main__":
    main(sys.argv[1:])

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0

"""Draws the pictures of a file of rows, as PNG beside it.

    apt-get install --no-install-recommends python3-matplotlib
    benchmarks/serving/visibility/plot.py \\
      benchmarks/serving/visibility/results/visibility_NAME.csv

NAME.latency.png: from accepted to visible against the size of the table, by
kind of change, in memory and with a store. NAME.lookups.png: what lookups keep
of their pace beside each kind of change, medians, with bars from the least to
the most.
"""

import io
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # pylint: disable=wrong-import-position
from PIL import Image  # pylint: disable=wrong-import-position

import report  # pylint: disable=wrong-import-position

NAMES = {
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


def distinct(found, part):
    return list(dict.fromkeys(key[part] for key in found))


def latency(found, path):
    workloads = [workload for workload in distinct(found, 2)
             if not workload.startswith(("stream_", "load_", "restart_"))]
    stores = distinct(found, 1)
    figure, axes = plt.subplots(
        len(stores), len(workloads), squeeze=False, sharey=True,
        figsize=(3.4 * len(workloads), 3.2 * len(stores)), layout="constrained",
    )
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
            ax.set_title(f"{NAMES.get(workload, workload)}\n{kept}", fontsize="medium")
            ax.set_xlabel("routes")
            ax.grid(alpha=0.3)
        axes[i][0].set_ylabel("ms from accepted to visible")
    axes[0][0].legend(fontsize="x-small")
    save(figure, path)


def lookups(found, path):
    workloads = [workload for workload in distinct(found, 2)
             if any(report.shares(repeats)
                    for key, (repeats, _) in found.items() if key[2] == workload)]
    stores = distinct(found, 1)
    figure, axes = plt.subplots(
        1, len(stores), squeeze=False, sharey=True,
        figsize=(6 * len(stores), 4), layout="constrained",
    )
    for ax, store in zip(axes[0], stores):
        for workload in workloads:
            own = sorted(
                (size(table, repeats), report.shares(repeats))
                for (table, at, what), (repeats, _) in found.items()
                if (at, what) == (store, workload) and report.shares(repeats)
            )
            mids = [report.median(kept) for _, kept in own]
            ax.errorbar(
                [routes for routes, _ in own], mids,
                yerr=[[mid - min(kept) for mid, (_, kept) in zip(mids, own)],
                      [max(kept) - mid for mid, (_, kept) in zip(mids, own)]],
                label=NAMES.get(workload, workload), capsize=2, marker=".",
            )
        ax.axhline(0.9, color="#888888", linestyle=":")
        ax.set_xscale("log")
        ax.set_ylim(bottom=0)
        ax.set_title("in memory" if store == "none" else store)
        ax.set_xlabel("routes")
        ax.grid(alpha=0.3)
    axes[0][0].set_ylabel("lookups a second, of those without changes")
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


def main(paths):
    for path in paths:
        found = report.series(report.read(path))
        if not any(everything for _, everything in found.values()):
            raise SystemExit(f"{path}: nothing to draw")
        stem = path.removesuffix(".csv")
        latency(found, stem + ".latency.png")
        lookups(found, stem + ".lookups.png")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    main(sys.argv[1:])

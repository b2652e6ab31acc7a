# SPDX-License-Identifier: Apache-2.0

"""What a file of rows comes to: a table in Markdown.

Percentiles are of all repeats together; throughputs and ratios are medians of
the repeats.
"""

import os
import statistics
import sys

sys.path.insert(
    0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "rpc")
)

import records  # pylint: disable=wrong-import-position
from records import cell, markdown  # pylint: disable=wrong-import-position

RANKS = ("p50", "p99")

# The columns of a file of rows, in this order.
COLUMNS = [
    "table",  # real, or a number of made-up routes
    "store",  # none, or how the table is kept
    "workload",  # what was done; see README.md
    "repeat",  # the turn; "all" has the percentiles of all of them
    "routes",
    "operations",  # calls, or batches of a stream
    "changes",  # routes sent
    "seconds",
    *(f"{name}_us_{rank}" for name in ("commit", "visible", "call")
      for rank in RANKS),
    "idle_lookups_per_second",  # before the workload
    "lookups_per_second",  # beside the workload
    "resident_before",  # bytes, as all that follow
    "resident_peak",  # during the workload
    "fib_before",
    "fib_after",
    "rib_before",
    "rib_after",
    "incremental_builds",
    "full_builds",
]
CASE = ("table", "store", "workload")
TEXTS = (*CASE, "repeat")


def read(path):
    """The rows of a file, numbers as numbers, without columns that are empty."""
    return [{key: value for key, value in row.items() if value != ""}
            for row in records.read(path, TEXTS)]


def series(rows):
    """{(table, store, workload): (its repeats, its row "all" or None)}, in order."""
    found = {}
    for row in rows:
        key = tuple(row[column] for column in CASE)
        repeats, _ = found.setdefault(key, ([], None))
        if row["repeat"] == "all":
            found[key] = (repeats, row)
        else:
            repeats.append(row)
    return found


def median(values):
    values = list(values)
    return statistics.median(values) if values else None


def shares(rows):
    """Of the lookups before the workload, those beside it."""
    return [row["lookups_per_second"] / row["idle_lookups_per_second"] for row in rows
            if row.get("idle_lookups_per_second")]


def line(repeats, everything):
    """The cells of a series after its case."""
    first, kept = repeats[0], shares(repeats)
    worst = max(repeats, key=lambda row: row.get("resident_peak", 0))
    at = everything or {}
    return [
        cell(first.get("routes")), cell(median(row["seconds"] for row in repeats)),
        cell(median(row["changes"] / row["seconds"] for row in repeats
                    if "changes" in row)),
        *(cell(at.get(f"{name}_us_{rank}"), 1e-3)
          for name in ("visible", "commit", "call") for rank in RANKS),
        cell(median(row["idle_lookups_per_second"] for row in repeats
                    if "idle_lookups_per_second" in row), 1e-6),
        cell(median(kept)), f"{cell(min(kept))}..{cell(max(kept))}" if kept else "",
        *(cell(worst.get(column), 2**-20)
          for column in ("resident_before", "resident_peak", "fib_after", "rib_after")),
    ]


def render(rows):
    times = [f"{name} {rank}, ms" for name in ("visible", "commit", "call")
             for rank in RANKS]
    return markdown(
        [*CASE, "routes", "seconds", "changes/s", *times, "M lookups/s idle",
         "share beside", "least..most", "resident before, MiB", "peak", "FIB", "RIB"],
        [[*case, *line(*found)] for case, found in series(rows).items()])

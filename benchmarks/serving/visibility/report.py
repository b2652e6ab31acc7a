# SPDX-License-Identifier: Apache-2.0

"""What a file of rows comes to: tables in Markdown.

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

RANKS = ("p50", "p90", "p99", "p999", "max")

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


def rate(row):
    return row["changes"] / row["seconds"]


def share(row):
    """Of the lookups before the workload, those beside it; None without."""
    if "lookups_per_second" not in row or not row.get("idle_lookups_per_second"):
        return None
    return row["lookups_per_second"] / row["idle_lookups_per_second"]


def shares(rows):
    return [one for one in map(share, rows) if one is not None]


def latencies(found):
    lines = []
    for (table, store, workload), (_, everything) in found.items():
        if everything is None or "visible_us_p50" not in everything:
            continue
        row = everything
        lines.append([
            table, store, workload, cell(row["operations"]),
            *(cell(row[f"visible_us_{rank}"], 1e-3) for rank in RANKS),
            *(cell(row[f"commit_us_{rank}"], 1e-3) for rank in ("p50", "p99")),
            *(cell(row[f"call_us_{rank}"], 1e-3) for rank in ("p50", "p99")),
        ])
    return markdown(
        ["table", "store", "workload", "times", "visible p50 ms", "p90", "p99",
         "p99.9", "max", "commit p50 ms", "p99", "call p50 ms", "p99"], lines)


def storms(found):
    lines = []
    for (table, store, workload), (repeats, _) in found.items():
        kept = shares(repeats)
        if not kept:
            continue
        lines.append([
            table, store, workload,
            cell(median(map(rate, repeats))),
            cell(median(r["idle_lookups_per_second"] for r in repeats), 1e-6),
            cell(median(r["lookups_per_second"] for r in repeats), 1e-6),
            cell(median(kept)), f"{cell(min(kept))}..{cell(max(kept))}",
        ])
    return markdown(
        ["table", "store", "workload", "changes/s", "M lookups/s idle", "beside",
         "share", "least..most"], lines)


def memory(found):
    lines = []
    for (table, store, workload), (repeats, _) in found.items():
        worst = max((r for r in repeats if "resident_peak" in r),
                    key=lambda r: r["resident_peak"], default=None)
        if worst is None:
            continue
        lines.append([
            table, store, workload,
            *(cell(value, 2**-20) for value in (
                worst["resident_before"], worst["resident_peak"],
                worst["fib_before"] + worst["fib_after"],
                max(worst["rib_before"], worst["rib_after"]))),
        ])
    return markdown(
        ["table", "store", "workload", "resident before, MiB", "peak", "both FIBs",
         "RIB"], lines)


def once(found):
    """Loads and restarts."""
    lines = [
        [table, store, workload, cell(repeats[0]["routes"]),
         cell(repeats[0]["seconds"])]
        for (table, store, workload), (repeats, _) in found.items()
        if workload.startswith(("load_", "restart_"))
    ]
    return markdown(["table", "store", "what", "routes", "seconds"], lines)


def render(rows):
    found = series(rows)
    return "\n".join((
        "From accepted to visible, in milliseconds:\n", latencies(found),
        "Changes, and lookups beside them:\n", storms(found),
        "Memory, the worst repeat:\n", memory(found),
        "Loads and restarts:\n", once(found),
    ))

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Repeats as CSV, and what they come to: medians, spreads, and ratios within one
turn. A shared machine changes its pace between turns.

    benchmarks/serving/rpc/records.py DIR/throughput.csv

writes the summary DIR/throughput.md and .json anew, as compare.py did.

A line of CSV is a case. A cell has one value where all repeats agree, else a value
for each, separated by spaces, "-" for none.
"""

import csv
import json
import statistics
import sys

from contenders import SOCKETS

# The columns of every file of repeats, in this order.
COLUMNS = [
    "experiment",  # throughput or load
    "kind",  # what was measured: server, bare, socket, ...
    "transport",  # unix or tcp
    "form",  # full or upper
    "batch",
    "depth",  # batches in flight on the one stream
    "offered",  # load: lookups a second asked for
    "repeat",  # the turn
    "seconds",
    "lookups",
    "lookups_per_second",
    "latency_us_p50",
    "latency_us_p90",
    "latency_us_p99",
    "latency_us_p999",
    "client_cpu_us_per_lookup",  # the same as seconds a million lookups
    "server_cpu_us_per_lookup",
    "unanswered",  # load: batches due and not answered in time
    "other_cpu_seconds",  # used by neither end while the client ran
]

# What tells one series of repeats from another.
CASE = [
    "experiment",
    "kind",
    "transport",
    "form",
    "batch",
    "depth",
    "offered",
]

TEXTS = ("experiment", "kind", "transport", "form")


class Writer:
    """Keeps rows in a CSV file. Each row is on the disk at once."""

    def __init__(self, path, columns=COLUMNS, case=CASE):
        self._path, self._columns, self._case = path, columns, case
        self.rows = []

    def add(self, row):
        unknown = set(row) - set(self._columns)
        if unknown:
            raise ValueError(f"no such columns: {unknown}")
        self.rows.append({key: row.get(key, "") for key in self._columns})
        with open(self._path, "w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file, lineterminator="\n")
            lines.writerow(self._columns)
            for rows in by_case(self.rows, self._case).values():
                lines.writerow(
                    packed(row[key] for row in rows) for key in self._columns
                )


def packed(values):
    """The cell of one column of a case."""
    texts = [f"{value:.6g}" if isinstance(value, float) else str(value)
             for value in values]
    return (texts[0] if len(set(texts)) == 1
            else " ".join(text or "-" for text in texts))


def read(path, texts=TEXTS):
    """The rows of such a file, numbers as numbers ("" where there is none)."""

    def value(key, cells, i):
        text = cells[key][i if len(cells[key]) > 1 else 0]
        if text in ("", "-"):
            return ""
        return text if key in texts else float(text)

    with open(path, newline="", encoding="utf-8") as file:
        lines = [{key: cell.split(" ") for key, cell in line.items()}
                 for line in csv.DictReader(file)]
    return [{key: value(key, cells, i) for key in cells}
            for cells in lines for i in range(len(cells["repeat"]))]


def by_case(rows, case=CASE):
    """{case: its rows}, in the order of their first rows."""
    cases = {}
    for row in rows:
        cases.setdefault(tuple(row[key] for key in case), []).append(row)
    return cases


def numbers(rows, column):
    return [float(row[column]) for row in rows if row.get(column, "") != ""]


def median(rows, column):
    """None if no row has it."""
    values = numbers(rows, column)
    return statistics.median(values) if values else None


def ratio(rows, others, column):
    """Median of rows/others, turn by turn; None if no turn has both."""
    theirs = {row["repeat"]: row[column] for row in others}
    ratios = [
        float(row[column]) / float(theirs[row["repeat"]])
        for row in rows
        if row[column] != "" and theirs.get(row["repeat"], "") not in ("", 0)
    ]
    return statistics.median(ratios) if ratios else None


def summarize(rows, column, against=()):
    """One entry a case: its median of `column`, least, most, and ratios to the
    case that differs from it only in being of a kind named in `against`.
    """
    cases = by_case(rows)

    def alike(case, other):
        same = [key for key in CASE if key not in ("kind", "depth")]
        return all(
            case[CASE.index(key)] == other[CASE.index(key)] for key in same
        )

    entries = []
    for case, own in cases.items():
        values = numbers(own, column)
        entry = dict(zip(CASE, case))
        entry.update(
            repeats=len(values),
            median=statistics.median(values),
            least=min(values),
            most=max(values),
        )
        for name in COLUMNS[COLUMNS.index("latency_us_p50") :]:
            entry[name] = median(own, name)
        entry["ratios"] = {
            dict(zip(CASE, other))["kind"]: ratio(own, theirs, column)
            for other, theirs in cases.items()
            if other != case
            and alike(case, other)
            and dict(zip(CASE, other))["kind"] in against
        }
        entries.append(entry)
    return entries


def markdown(header, lines):
    """A table; cells are texts."""
    rows = [header, ["---"] * len(header), *lines]
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def cell(value, scale=1.0, digits=3):
    """`value` times `scale` to so many digits; empty for None or ""."""
    if value is None or value == "":
        return ""
    return f"{value * scale:.{digits}g}" if value * scale < 1000 else (
        f"{value * scale:,.0f}"
    )


def write_summary(experiment, rows, stem):
    table, entries = summary(experiment, rows)
    with open(stem + ".json", "w", encoding="utf-8") as file:
        json.dump(entries, file, indent=1)
        file.write("\n")
    with open(stem + ".md", "w", encoding="utf-8") as file:
        file.write(table)


def summary(experiment, rows):
    """A table in Markdown, and its entries."""
    column, against, order, columns = SUMMARIES[experiment]
    entries = summarize(rows, column, against)
    lines = [[cell_of(entry) for _, cell_of in columns]
             for entry in sorted(entries, key=order)]
    return markdown([header for header, _ in columns], lines), entries


# Columns of a table: a header, and what makes the cell of an entry.


def text(key):
    return key, lambda entry: entry[key]


def whole(key):
    return key, lambda entry: f"{entry[key]:.0f}"


def number(header, key, scale=1.0):
    return header, lambda entry: cell(entry[key], scale)


def spread(scale=1.0):
    return "least..most", lambda entry: (
        f"{cell(entry['least'], scale)}..{cell(entry['most'], scale)}")


def share(socket):
    return f"of {socket}", lambda entry: cell(entry["ratios"].get(socket))


RATE = "lookups_per_second"
CPU = (number("client ns/lookup", "client_cpu_us_per_lookup", 1e3),
       number("server ns/lookup", "server_cpu_us_per_lookup", 1e3))

# By experiment: the column of interest, the kinds it is compared with, the order
# of the lines, and the columns of the table.
SUMMARIES = {
    "throughput": (
        RATE, SOCKETS,
        lambda e: (e["transport"], e["form"], float(e["batch"])),
        (text("transport"), text("form"), whole("batch"), text("kind"),
         number("M lookups/s", "median", 1e-6), spread(1e-6),
         *map(share, SOCKETS), *CPU,
         number("batch p50 us", "latency_us_p50"),
         number("p99 us", "latency_us_p99"))),
    "load": (
        RATE, (), lambda e: 0,
        (text("transport"), whole("batch"),
         number("offered M/s", "offered", 1e-6),
         number("answered M/s", "median", 1e-6),
         number("p50 us", "latency_us_p50"),
         number("p90 us", "latency_us_p90"),
         number("p99 us", "latency_us_p99"),
         number("p99.9 us", "latency_us_p999"),
         number("batches unanswered", "unanswered"))),
}


def main(path):
    rows = read(path)
    if not rows:
        raise SystemExit(f"{path} holds no repeats")
    write_summary(rows[0]["experiment"], rows, path.removesuffix(".csv"))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])

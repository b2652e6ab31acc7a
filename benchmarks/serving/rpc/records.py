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

from contenders import ECHOES, SOCKETS, SLEEPING_ECHOES

# The columns of every file of repeats, in this order.
COLUMNS = [
    "experiment",  # throughput, latency, scale or load
    "kind",  # what was measured: server, async, socket, ...
    "transport",  # unix or tcp
    "form",  # full or upper
    "batch",
    "depth",  # batches in flight on each stream
    "streams",
    "connections",
    "variant",  # latency: method/wait/placement
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
    "streams",
    "connections",
    "variant",
    "offered",
]

TEXTS = ("experiment", "kind", "transport", "form", "variant")


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
        for name in (
            "latency_us_p50",
            "latency_us_p99",
            "client_cpu_us_per_lookup",
            "server_cpu_us_per_lookup",
            "other_cpu_seconds",
        ):
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
    text = "| " + " | ".join(header) + " |\n"
    text += "|" + " --- |" * len(header) + "\n"
    for line in lines:
        text += "| " + " | ".join(line) + " |\n"
    return text


def cell(value, scale=1.0, digits=3):
    """`value` times `scale` to so many digits; empty for None or ""."""
    if value is None or value == "":
        return ""
    return f"{value * scale:.{digits}g}" if value * scale < 1000 else (
        f"{value * scale:,.0f}"
    )


def write_summary(experiment, rows, stem):
    table, entries = SUMMARIES[experiment](rows)
    with open(stem + ".json", "w", encoding="utf-8") as file:
        json.dump(entries, file, indent=1)
        file.write("\n")
    with open(stem + ".md", "w", encoding="utf-8") as file:
        file.write(table)


def throughput(rows):
    """By batch, transport and form: every kind, and its share of each bare socket."""
    entries = summarize(rows, "lookups_per_second", SOCKETS)
    lines = [
        [
            entry["transport"],
            entry["form"],
            f"{entry['batch']:.0f}",
            entry["kind"],
            cell(entry["median"], 1e-6),
            f"{cell(entry['least'], 1e-6)}..{cell(entry['most'], 1e-6)}",
            *(cell(entry["ratios"].get(socket)) for socket in SOCKETS),
            cell(entry["client_cpu_us_per_lookup"], 1e3),
            cell(entry["server_cpu_us_per_lookup"], 1e3),
            cell(entry["latency_us_p50"]),
            cell(entry["latency_us_p99"]),
        ]
        for entry in sorted(
            entries,
            key=lambda e: (e["transport"], e["form"], float(e["batch"])),
        )
    ]
    header = [
        "transport",
        "form",
        "batch",
        "kind",
        "M lookups/s",
        "least..most",
        *(f"of {socket}" for socket in SOCKETS),
        "client ns/lookup",
        "server ns/lookup",
        "batch p50 us",
        "p99 us",
    ]
    return markdown(header, lines), entries


def latency(rows):
    """By variant: every server, and how much slower than the fastest echo."""
    entries = summarize(rows, "latency_us_p50", ECHOES)

    def fastest(variant, kinds):
        return min(
            (e for e in entries
             if e["variant"] == variant and e["kind"] in kinds),
            key=lambda e: e["median"],
        )

    lines = []
    for entry in sorted(entries, key=lambda e: e["variant"]):
        shares = []
        for name, kinds in (
            ("of_fastest_echo", ECHOES),
            ("of_fastest_sleeping_echo", SLEEPING_ECHOES),
        ):
            echo = fastest(entry["variant"], kinds)
            entry[name] = (
                1.0 if entry is echo else entry["ratios"][echo["kind"]]
            )
            shares.append(cell(entry[name]))
        lines.append(
            [
                entry["variant"],
                entry["kind"],
                cell(entry["median"]),
                f"{cell(entry['least'])}..{cell(entry['most'])}",
                cell(entry["latency_us_p99"]),
                *shares,
                cell(entry["client_cpu_us_per_lookup"]),
                cell(entry["server_cpu_us_per_lookup"]),
            ]
        )
    header = [
        "method/client/cores",
        "server",
        "p50 us",
        "least..most",
        "p99 us",
        "p50 of the fastest echo's",
        "of the fastest that sleeps",
        "client CPU us/call",
        "server CPU us/call",
    ]
    return markdown(header, lines), entries


def scale(rows):
    entries = summarize(rows, "lookups_per_second")
    lines = [
        [
            entry["transport"],
            f"{entry['batch']:.0f}",
            f"{entry['streams']:.0f}",
            f"{entry['connections']:.0f}",
            cell(entry["median"], 1e-6),
            f"{cell(entry['least'], 1e-6)}..{cell(entry['most'], 1e-6)}",
            cell(entry["client_cpu_us_per_lookup"], 1e3),
            cell(entry["server_cpu_us_per_lookup"], 1e3),
        ]
        for entry in entries
    ]
    header = [
        "transport",
        "batch",
        "streams",
        "connections",
        "M lookups/s",
        "least..most",
        "client ns/lookup",
        "server ns/lookup",
    ]
    return markdown(header, lines), entries


def load(rows):
    entries = summarize(rows, "lookups_per_second")
    cases = by_case(rows)
    lines = []
    for entry in entries:
        own = cases[tuple(entry[key] for key in CASE)]
        tail = [
            median(own, f"latency_us_{name}")
            for name in ("p50", "p90", "p99", "p999")
        ]
        lines.append(
            [
                entry["transport"],
                f"{entry['batch']:.0f}",
                cell(entry["offered"], 1e-6),
                cell(entry["median"], 1e-6),
                *(cell(value) for value in tail),
                cell(median(own, "unanswered")),
            ]
        )
    header = [
        "transport",
        "batch",
        "offered M/s",
        "answered M/s",
        "p50 us",
        "p90 us",
        "p99 us",
        "p99.9 us",
        "batches unanswered",
    ]
    return markdown(header, lines), entries


SUMMARIES = {
    "throughput": throughput,
    "latency": latency,
    "scale": scale,
    "load": load,
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

# SPDX-License-Identifier: Apache-2.0

"""Raw repeats as CSV, and what they come to: medians, spreads, and ratios taken
within one turn, for a shared machine changes its pace between turns.
"""

import csv
import statistics

# The columns of every file of raw repeats, in this order.
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
    "latency_us_p9999",
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

NUMBERS = set(COLUMNS) - {
    "experiment",
    "kind",
    "transport",
    "form",
    "variant",
}


class Writer:
    """Appends rows to a CSV file, each on the disk at once."""

    def __init__(self, path):
        self._file = open(path, "w", newline="", encoding="utf-8")
        self._csv = csv.DictWriter(self._file, COLUMNS, lineterminator="\n")
        self._csv.writeheader()
        self.rows = []

    def add(self, row):
        unknown = set(row) - set(COLUMNS)
        if unknown:
            raise ValueError(f"no such columns: {unknown}")
        self._csv.writerow({key: shorten(value) for key, value in row.items()})
        self._file.flush()
        self.rows.append({key: row.get(key, "") for key in COLUMNS})


def shorten(value):
    return f"{value:.6g}" if isinstance(value, float) else value


def read(path):
    """The rows of such a file, numbers as numbers ("" where there is none)."""
    with open(path, newline="", encoding="utf-8") as file:
        return [
            {
                key: float(value) if key in NUMBERS and value != "" else value
                for key, value in row.items()
            }
            for row in csv.DictReader(file)
        ]


def case_of(row):
    return tuple(row[key] for key in CASE)


def by_case(rows):
    """{case: its rows}, in the order of their first rows."""
    cases = {}
    for row in rows:
        cases.setdefault(case_of(row), []).append(row)
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

# SPDX-License-Identifier: Apache-2.0

"""Repeats as CSV, and cells and tables of what they come to.

A line of CSV is a case. A cell has one value where all repeats agree, else a value
for each, separated by spaces, "-" for none.
"""

import csv


class Writer:
    """Keeps rows in a CSV file, each on the disk at once. The columns `case` tell one
    series of repeats from another.
    """

    def __init__(self, path, columns, case):
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


def read(path, texts):
    """The rows of such a file, but for `texts` as numbers ("" where there is none)."""

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


def by_case(rows, case):
    """{case: its rows}, in the order of their first rows."""
    cases = {}
    for row in rows:
        cases.setdefault(tuple(row[key] for key in case), []).append(row)
    return cases


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

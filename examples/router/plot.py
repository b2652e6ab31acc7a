#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0

"""Draws what `measure.sh tables` printed as SVG: packets a second with each table.

    examples/router/plot.py router.csv > router.svg

A bar is the median of the turns; the line in it reaches from the least to the most.
"""

import csv
import sys

COLOURS = {"constant": "#999999", "local": "#c0392b", "dpdk": "#2980b9",
           "paper": "#27ae60", "poptrie": "#8e44ad", "cp-trie": "#f39c12",
           "hbs": "#16a085", "neurotrie": "#34495e"}
TOP, BASE, LEFT, BAR, GAP = 24, 264, 34, 20, 24


def main():
    groups = {}
    with open(sys.argv[1], encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["burst"] == "32" and row["fib"] in COLOURS and not row["sending"]:
                name = f"{row['table']}, {row['trace']}"
                if row["rx_cores"] != row["lpm_cores"]:
                    name += ", two cores"
                groups.setdefault(name, []).append(row)
    rows = [row for group in groups.values() for row in group]
    scale = (BASE - TOP) / max(float(row["most"]) for row in rows)
    width = LEFT + len(rows) * BAR + len(groups) * GAP
    out = []
    for mpps in range(0, int((BASE - TOP) / scale) + 1, 2):
        y = BASE - mpps * scale
        out.append(f'<path d="M{LEFT} {y:.1f}H{width}" stroke="#dddddd"/>'
                   f'<text x="8" y="{y + 4:.1f}">{mpps}</text>')
    x = LEFT + GAP // 2
    for name, group in groups.items():
        out.append(f'<text x="{x}" y="{BASE + 16}">{name}</text>')
        for row in group:
            y, least, most = (BASE - scale * float(row[key])
                              for key in ("mpps", "least", "most"))
            out.append(f'<rect x="{x}" y="{y:.1f}" width="{BAR - 3}" '
                       f'height="{BASE - y:.1f}" fill="{COLOURS[row["fib"]]}"/>'
                       f'<path d="M{x + BAR // 2 - 2} {least:.1f}V{most:.1f}" '
                       'stroke="#000000"/>')
            x += BAR
        x += GAP
    for i, (fib, colour) in enumerate(COLOURS.items()):
        x = LEFT + 90 * i
        out.append(f'<rect x="{x}" y="{BASE + 28}" width="10" height="10" '
                   f'fill="{colour}"/><text x="{x + 14}" y="{BASE + 37}">{fib}</text>')
    print('<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" '
          f'font-size="12" width="{max(width, x + 90)}" height="{BASE + 48}">',
          '<rect width="100%" height="100%" fill="#ffffff"/>',
          '<text x="8" y="14">million packets a second</text>', *out, "</svg>", sep="\n")


if __name__ == "__main__":
    main()

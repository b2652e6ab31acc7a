#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""What the repeats of one experiment come to, as Markdown and JSON.

    benchmarks/serving/rpc/summaries.py DIR/throughput.csv

writes DIR/throughput.md and .json anew, as compare.py did.
"""

import json
import sys

import records
from contenders import ECHOES, SOCKETS, SLEEPING_ECHOES
from records import cell


def write(experiment, rows, stem):
    table, entries = SUMMARIES[experiment](rows)
    with open(stem + ".json", "w", encoding="utf-8") as file:
        json.dump(entries, file, indent=1)
        file.write("\n")
    with open(stem + ".md", "w", encoding="utf-8") as file:
        file.write(table)


def throughput(rows):
    """By batch, transport and form: every kind, and its share of each bare socket."""
    entries = records.summarize(rows, "lookups_per_second", SOCKETS)
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
    return records.markdown(header, lines), entries


def latency(rows):
    """By variant: every server, and how much slower than the fastest echo."""
    entries = records.summarize(rows, "latency_us_p50", ECHOES)

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
    return records.markdown(header, lines), entries


def scale(rows):
    entries = records.summarize(rows, "lookups_per_second")
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
    return records.markdown(header, lines), entries


def load(rows):
    entries = records.summarize(rows, "lookups_per_second")
    cases = records.by_case(rows)
    lines = []
    for entry in entries:
        own = cases[tuple(entry[key] for key in records.CASE)]
        tail = [
            records.median(own, f"latency_us_{name}")
            for name in ("p50", "p90", "p99", "p999")
        ]
        lines.append(
            [
                entry["transport"],
                f"{entry['batch']:.0f}",
                cell(entry["offered"], 1e-6),
                cell(entry["median"], 1e-6),
                *(cell(value) for value in tail),
                cell(records.median(own, "unanswered")),
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
    return records.markdown(header, lines), entries


SUMMARIES = {
    "throughput": throughput,
    "latency": latency,
    "scale": scale,
    "load": load,
}


def main(path):
    rows = records.read(path)
    if not rows:
        raise SystemExit(f"{path} holds no repeats")
    write(rows[0]["experiment"], rows, path.removesuffix(".csv"))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])

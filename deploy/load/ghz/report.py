#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""What is kept of ghz's runs.

    report.py keep REPORT CONFIG MESSAGES RSS_BEFORE RSS_AFTER STEM
    report.py summary FOLDER NAME...

`keep` writes ghz's JSON report to STEM.json, without its list of every single
call but with what it does not tell: batches a call, addresses a batch, the
server's memory in KB. `summary` writes FOLDER/summary.md and prints it; exit
code 1 if any call of any run did not end with OK.
"""

import json
import os
import sys

PERCENTAGES = (50, 90, 99)


def read_varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def addresses_of(call, data):
    """Addresses in one message of those that messages.py wrote."""
    if not call.endswith(".BatchLookup"):
        return 1
    _, at = read_varint(data, 0)  # the message's length
    _, at = read_varint(data, at + 1)  # its request_id
    size, _ = read_varint(data, at + 1)  # its addresses_v6
    return size // 16


def latency_us(report, percentage):
    for entry in report.get("latencyDistribution") or []:
        if entry["percentage"] == percentage:
            return entry["latency"] / 1e3
    return 0.0


def facts(report):
    """(name, text) pairs, the summary's columns."""
    calls = report["count"]
    fine = report["statusCodeDistribution"].get("OK", 0)
    ours = report["planb"]
    lookups = fine * ours["batches"] * ours["addresses"]
    seconds = report["total"] / 1e9
    return [
        ("calls", f"{calls:,}"),
        ("not OK", f"{calls - fine:,}"),
        ("calls/s", f"{report['rps']:,.0f}"),
        ("batches a call", f"{ours['batches']:,}"),
        ("addresses a batch", f"{ours['addresses']:,}"),
        ("M lookups/s", f"{lookups / seconds / 1e6:.3g}"),
        *(
            (f"call p{p} us", f"{latency_us(report, p):,.0f}")
            for p in PERCENTAGES
        ),
        ("server MB before", f"{ours['rss_kb_before'] / 1024:,.0f}"),
        ("after", f"{ours['rss_kb_after'] / 1024:,.0f}"),
    ]


def is_fine(report):
    statuses = report["statusCodeDistribution"]
    return report["count"] > 0 and set(statuses) == {"OK"}


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def keep(report_path, config_path, messages_path, before, after, stem):
    report = load(report_path)
    with open(messages_path, "rb") as file:
        data = file.read()
    report.pop("details", None)
    report["options"].pop("binary", None)  # the requests themselves
    report["errorDistribution"] = report.get("errorDistribution") or {}
    report["planb"] = {
        "batches": load(config_path).get("stream-call-count", 1),
        "addresses": addresses_of(report["options"]["call"], data),
        "rss_kb_before": int(before),
        "rss_kb_after": int(after),
    }
    with open(stem + ".json", "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)
        file.write("\n")


def summary(folder, names):
    lines = []
    wrong = []
    for name in names:
        report = load(os.path.join(folder, name + ".json"))
        if not lines:
            header = ["run"] + [fact for fact, _ in facts(report)]
            lines += [header, ["---"] * len(header)]
        lines.append([name] + [value for _, value in facts(report)])
        if not is_fine(report):
            wrong.append(f"{name}: {report['statusCodeDistribution']}")
    text = "".join("| " + " | ".join(line) + " |\n" for line in lines)
    path = os.path.join(folder, "summary.md")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    print(text, end="")
    for line in wrong:
        print(f"WRONG {line}")
    return 1 if wrong else 0


def main(argv):
    if len(argv) == 7 and argv[0] == "keep":
        keep(*argv[1:])
        return 0
    if len(argv) >= 3 and argv[0] == "summary":
        return summary(argv[1], argv[2:])
    raise SystemExit(__doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

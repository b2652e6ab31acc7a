#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0

"""Checks what promtool does not: that rules, tests and documents fit together.

    lint_rules.py RULES.yaml RULES_TEST.yaml RUNBOOK.md README.md

Every alert has a severity, the annotations and a section of the runbook, is in the
README's table under its severity, and is seen firing and not firing in the tests;
every section and every name of the table belongs to an alert;
every recorded figure is tested, or used by one that is. Prints what is wrong;
exit status 1 if anything.
"""

import collections
import re
import sys

import yaml

_SEVERITIES = {"critical", "warning"}
_ANNOTATIONS = {"summary", "description", "runbook_url"}
_PARTS = ["Meaning", "Impact", "Look at", "Do", "Tested"]


def alerts_of(rules: dict) -> dict:
    return {
        rule["alert"]: rule
        for group in rules["groups"]
        for rule in group["rules"]
        if "alert" in rule
    }


def records_of(rules: dict) -> list:
    return [
        rule["record"]
        for group in rules["groups"]
        for rule in group["rules"]
        if "record" in rule
    ]


def sections_of(runbook: str) -> dict:
    """The text of each section about an alert, by its heading."""
    parts = re.split(r"^## (.*)$", runbook, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def check_alert(name: str, rule: dict, sections: dict):
    if rule.get("labels", {}).get("severity") not in _SEVERITIES:
        yield f"{name}: the severity is none of {sorted(_SEVERITIES)}"
    annotations = rule.get("annotations", {})
    for missing in _ANNOTATIONS - annotations.keys():
        yield f"{name}: has no {missing}"
    # As GitHub and others make anchors of headings.
    wanted = f"deploy/RUNBOOK.md#{name.lower()}"
    if annotations.get("runbook_url") != wanted:
        yield f"{name}: runbook_url is not {wanted}"
    if name not in sections:
        yield f"{name}: has no section in the runbook"
        return
    for part in _PARTS:
        if f"- **{part}:** " not in sections[name]:
            yield f"{name}: its section says nothing under '{part}'"


def check_table(alerts: dict, readme: str):
    """The table `| critical | warning |` has the alerts, and no others."""
    rows = re.search(r"^\| critical \| warning \|\n\|.*\n((?:\|.*\n)+)", readme,
                     re.MULTILINE)
    listed = set()
    for row in rows[1].splitlines() if rows else []:
        for severity, cell in zip(("critical", "warning"), row.split("|")[1:]):
            listed |= {(name, severity) for name in re.findall(r"PlanB\w+", cell)}
    wanted = {(name, rule["labels"]["severity"]) for name, rule in alerts.items()}
    for name, severity in sorted(wanted ^ listed):
        yield f"{name}: the README's table and the rules differ ({severity})"


def check_tests(rules: dict, tests: dict):
    alerts = alerts_of(rules)
    fires, silent = collections.Counter(), collections.Counter()
    # Of a figure that others are computed from, the others' tests speak.
    expressions = [
        rule["expr"] for group in rules["groups"] for rule in group["rules"]
    ]
    for test in tests["tests"]:
        for case in test.get("alert_rule_test", []):
            counter = fires if case.get("exp_alerts") else silent
            counter[case["alertname"]] += 1
        for case in test.get("promql_expr_test", []):
            expressions.append(case["expr"])
    for name in alerts:
        if not fires[name]:
            yield f"{name}: no test sees it firing"
        if not silent[name]:
            yield f"{name}: no test sees it not firing"
    for name in records_of(rules):
        if not any(name in expression for expression in expressions):
            yield f"{name}: is neither tested nor used by an alert"


def main() -> int:
    texts = []
    for path in sys.argv[1:5]:
        with open(path, encoding="utf-8") as file:
            texts.append(file.read())
    rules, tests = yaml.safe_load(texts[0]), yaml.safe_load(texts[1])
    alerts, sections = alerts_of(rules), sections_of(texts[2])
    wrong = []
    for name, rule in alerts.items():
        wrong += check_alert(name, rule, sections)
    wrong += [
        f"{name}: a section of the runbook, but no alert"
        for name in sections.keys() - alerts.keys()
    ]
    for target in re.findall(r"\]\(#(\w+)\)", texts[2]):
        if target not in {name.lower() for name in sections}:
            wrong.append(f"#{target}: a link of the runbook to nowhere")
    wrong += check_table(alerts, texts[3])
    wrong += check_tests(rules, tests)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(f"{len(alerts)} alerts, {len(wrong)} complaints")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

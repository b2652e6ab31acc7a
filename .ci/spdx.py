#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Fails, and names the files, if a source does not say its licence.

    .ci/spdx.py          checks
    .ci/spdx.py --fix    adds the missing lines

A source says its licence by an SPDX line among its first three. A file with
another licence keeps its own header. Generated files and test data have none.
"""

import os
import re
import subprocess
import sys

LINE = "SPDX-License-Identifier: Apache-2.0"
# How a comment of one line begins, by the name of the file.
COMMENTS = (
    (re.compile(r"\.(cc|h|inc|proto|go)$"), "// "),
    (re.compile(r"\.(bzl|py|sh|yaml|yml)$"), "# "),
    (re.compile(r"(^|/)(BUILD|Containerfile|Makefile|WORKSPACE)$"), "# "),
)
DATA = re.compile(r"(^|/)(corpus|testdata)/.*(?<!\.py)(?<!\.sh)$")
SHELL = re.compile(r"#!.*\b(ba)?sh$")
# A line of a foreign licence, or of a generator.
FOREIGN = re.compile(r"copyright|licensed under|do not edit", re.IGNORECASE)


def comment_of(path, lines):
    """What begins a comment in this file; None if it is not a source."""
    if DATA.search(path):
        return None
    for name, comment in COMMENTS:
        if name.search(path):
            return comment
    return "# " if lines and SHELL.match(lines[0]) else None


def fixed(lines, comment):
    """The lines with the licence in its place."""
    at = 1 if lines and lines[0].startswith("#!") else 0
    if at < len(lines) and "coding:" in lines[at]:
        at += 1
    added = [comment + LINE]
    if at < len(lines) and lines[at]:
        added.append("")
    return lines[:at] + added + lines[at:]


def main():
    fix = sys.argv[1:] == ["--fix"]
    if sys.argv[1:] and not fix:
        sys.exit(__doc__)
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    files = subprocess.check_output(["git", "ls-files", "-z"], text=True)
    missing = 0
    for path in files.split("\0")[:-1]:
        if os.path.islink(path) or not os.path.isfile(path):
            continue
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
        lines = text.split("\n")
        comment = comment_of(path, lines)
        if comment is None or any(LINE in line for line in lines[:3]):
            continue
        if any("SPDX-" in line or FOREIGN.search(line) for line in lines[:3]):
            continue
        missing += 1
        print(f"{path}: {'added' if fix else 'no'} {LINE}")
        if fix:
            with open(path, "w", encoding="utf-8",
                      errors="surrogateescape") as file:
                file.write("\n".join(fixed(lines, comment)))
    return 1 if missing and not fix else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Checks that documents and comments name files and targets that exist.

    .ci/references.py    prints FILE:LINE: REFERENCE for each that does not

Four kinds of reference are checked: a path from the root with a known suffix in any
text, a Bazel label in documents and scripts, a link in documents with its heading, and
in documents a case of GoogleTest (`Suite.Case`).
"""

import collections
import functools
import os
import re
import subprocess
import sys

ROOMS = (r"(?:base|benchmarks|client|deploy|docs|examples/router|feed|follow|lpm|proto|server|"
         r"third_party)")
PATH = re.compile(
    rf"(?<![\w/.-])({ROOMS}/[\w./-]*\.(?:bzl|cc|h|html|inc|json|md|proto|py|sh|yaml))\b")
LABEL = re.compile(rf"(?<![\w:])//({ROOMS}[\w/]*)(?::([\w.]+))?(?![\w/.])")
LINK = re.compile(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)")
CASE = re.compile(r"`([A-Z]\w+)\.([A-Z]\w+)`")
DEFINED = re.compile(r"\bTEST(?:_F|_P)?\((\w+),\s*(\w+)\)")
GO = ("client/go/", "feed/")  # names methods in this form
FENCE = re.compile(r"^ *```")
TEXTS = (".bzl", ".cc", ".cfg", ".h", ".inc", ".md", ".proto", ".py", ".sh", ".yaml")
# Made by the build, or a name that stands for many.
MADE = re.compile(r"\.pb\.|version\.h$|/NAME\.")


def target_exists(folder, name):
    try:
        with open(os.path.join(folder, "BUILD"), encoding="utf-8") as file:
            return name == "all" or f'"{name}"' in file.read()
    except FileNotFoundError:
        return False


@functools.cache
def tracked():
    return subprocess.check_output(["git", "ls-files"], text=True).split()


@functools.cache
def cases():
    """The cases of GoogleTest by suite."""
    found = collections.defaultdict(set)
    for path in tracked():
        if path.endswith("_test.cc"):
            with open(path, encoding="utf-8") as file:
                for suite, case in DEFINED.findall(file.read()):
                    found[suite].add(case)
    return found


@functools.cache
def anchors(path):
    """What a link may name in a document: its headings, as GitHub and MkDocs write them."""
    found, fenced = set(), False
    with open(path, encoding="utf-8") as file:
        for line in file:
            fenced ^= bool(FENCE.match(line))
            if line.startswith("#") and not fenced:
                text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip().lower())
                found.add(re.sub(r"[^\w -]", "", text).replace(" ", "-"))
    return found


def missing(path, line):
    """The references of a line that lead nowhere."""
    for match in PATH.finditer(line):
        if not MADE.search(match[1]) and not os.path.exists(match[1]):
            yield match[1]
    if path.endswith((".md", ".sh")):
        for match in LABEL.finditer(line):
            folder = match[1].rstrip("/")
            if not target_exists(folder, match[2] or os.path.basename(folder)):
                yield match[0]
    if path.endswith(".md"):
        for match in CASE.finditer(line):
            if match[2] not in cases()[match[1]] and not path.startswith(GO):
                yield match[0]
        for match in LINK.finditer(line):
            to = os.path.join(os.path.dirname(path), match[1]) if match[1] else path
            if not os.path.exists(to):
                yield match[1]
            elif match[2] and to.endswith(".md") and match[2] not in anchors(to):
                yield f"{match[1]}#{match[2]}"


def main():
    found = 0
    for path in tracked():
        if not path.endswith(TEXTS) or os.path.islink(path):
            continue
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.startswith("#include"):
                    continue
                for reference in missing(path, line):
                    print(f"{path}:{number}: {reference}")
                    found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

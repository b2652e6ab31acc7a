#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that rooms (folders) include only from rooms they may depend on.

The rooms and their arrows are in docs/ARCHITECTURE.md. A program of tests may
also include what its side of the house shares for tests; the server's tests use
nothing of the client's, nor the other way round.
"""

import re
import subprocess
import sys

BELOW = {"base", "lpm", "proto"}
SERVER = BELOW | {"server/base"}
TABLE = SERVER | {"server/table", "follow"}
CALLER = BELOW | {"follow"}
# A room, and the rooms that its sources may include besides itself.
MAY = {
    "base": set(),
    "proto": {"base"},
    "lpm": {"base"},
    "follow": BELOW,
    "server/base": BELOW,
    "server/table": SERVER,
    "server/store": TABLE,
    "server/lookup": TABLE,
    "server/control": TABLE,
    "server/observe": TABLE,
    "server/net": SERVER,
    "server/security": SERVER,
    "client": CALLER,
    "client/load": CALLER | {"client"},
    "client/planbctl": CALLER | {"client", "client/load"},
    "examples": {"base", "lpm", "client"},
}
MAY["server"] = {room for room in MAY if room.startswith("server/")} | CALLER
# For what tests a side of the house: all of that side.
TESTS = {
    "base": {"base"},
    "proto": BELOW,
    "lpm": BELOW,
    "follow": CALLER,
    "server": MAY["server"] | {"server"},
    "client": CALLER | {"client", "client/load", "client/planbctl"},
    "examples": MAY["examples"],
}
# Measures what it is an example of, and forwards by the rivals.
MEASURES = {"examples/router/measure.cc", "examples/router/measure_traffic.h",
            "examples/router/rival_routes.cc"}
ROOMS = sorted(MAY, key=len, reverse=True)
INCLUDE = re.compile(r'^#include "([^"]+/[^"]+)"', re.MULTILINE)


def room_of(path):
    """The innermost room that holds `path`; none for third_party and the like."""
    return next((room for room in ROOMS if path.startswith(room + "/")), None)


def is_test(path):
    return "/testing/" in path or re.search(r"_(test|fuzzer)\.cc$", path)


def main():
    files = subprocess.check_output(
        ["git", "ls-files", "*.h", "*.cc", "*.inc"], text=True
    ).split()
    wrong = 0
    for path in files:
        room = room_of(path)
        if room is None:  # benchmarks and deploy may use all
            continue
        may = TESTS[room.split("/")[0]] if is_test(path) else MAY[room]
        with open(path, encoding="utf-8") as file:
            includes = INCLUDE.findall(file.read())
        for included in includes:
            other = room_of(included)
            bad = other is not None and other != room and other not in may
            # Sources use no helpers of tests.
            bad |= not is_test(path) and "/testing/" in included
            bad |= included.startswith(("benchmarks/", "deploy/"))
            bad &= path not in MEASURES
            if bad:
                print(f"{path}: may not include {included}")
                wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

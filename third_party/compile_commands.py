#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Writes compile_commands.json for editors and clang tools.

    third_party/compile_commands.py [FLAG_OF_BAZEL...]   # such as --config=clang

Asks Bazel which compile actions it would run; runs none. Build once before,
so that generated headers exist.
"""

import json
import os
import subprocess
import sys


# Manual, so that "//..." leaves them out: they need libdpdk-dev.
_DPDK = "/usr/include/dpdk/rte_ethdev.h"
_DPDK_TARGETS = ["//benchmarks/rivals:dpdk_fib"] + [
    f"//examples/router:{name}"
    for name in ("pipeline", "rival_routes", "router", "measure")]


def main():
    targets = ["//..."] + (_DPDK_TARGETS if os.path.exists(_DPDK) else [])
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    actions = json.loads(
        subprocess.check_output(
            # The header that gcc compiles is there for gcc.
            ["bazel", "aquery", "--output=jsonproto", "--noshow_progress",
             "--define=headers=text", *sys.argv[1:], f'mnemonic("CppCompile", {" + ".join(targets)})'],
            cwd=root, stderr=subprocess.DEVNULL))
    commands = []
    for action in actions.get("actions", []):
        arguments = action["arguments"]
        source = arguments[arguments.index("-c") + 1]
        # Bazel's sandbox of the sources: the tree itself does as well.
        commands.append({"directory": root, "file": source,
                         "arguments": arguments})
    path = os.path.join(root, "compile_commands.json")
    with open(path, "w", encoding="utf-8") as out:
        json.dump(commands, out, indent=1)
    print(f"{path}: {len(commands)} commands")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0

"""What a soak needs before it begins: stubs of the contract, and tables."""

import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PROTO = os.path.join(HERE, "..", "..", "proto")


def import_stubs(folder):
    """Generates the stubs of the contract and makes them importable."""
    subprocess.run(
        [
            "protoc",
            f"-I{PROTO}",
            f"--python_out={folder}",
            f"--grpc_out={folder}",
            f"--plugin=protoc-gen-grpc={shutil.which('grpc_python_plugin')}",
            *(
                f"planb/v1/{name}.proto"
                for name in ("types", "route_lookup", "route_table")
            ),
        ],
        check=True,
    )
    sys.path.insert(0, folder)


def write_tables(planbctl, routes, folder):
    """The table to begin with, and of it what never changes."""
    import soak_clients

    fixed = os.path.join(folder, "fixed")
    with open(fixed, "w", encoding="ascii") as file:
        for prefix, hop in soak_clients.fixed_routes():
            file.write(f"{prefix} {hop}\n")
    made_up = subprocess.run(
        [planbctl, "generate", f"--routes={routes}"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    everything = os.path.join(folder, "everything")
    with open(everything, "w", encoding="ascii") as file:
        # What the clients know all about is theirs alone.
        file.writelines(
            line
            for line in made_up.splitlines(keepends=True)
            if not line.startswith("2001:db8:") and not line.startswith("::/")
        )
        with open(fixed, encoding="ascii") as more:
            file.write(more.read())
    return fixed, everything

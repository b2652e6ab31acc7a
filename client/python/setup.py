# SPDX-License-Identifier: Apache-2.0

"""Generates the messages of the contract and of errors, and reads the version.

All come from the repository above, so a build needs its whole tree, and protoc.
"""

import pathlib
import re
import shutil
import subprocess

import setuptools
from setuptools.command.build_py import build_py

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROTOS = ("types", "route_lookup", "route_table")
# What an error says besides. Not as google.rpc, which other packages register.
RPC = ROOT / "third_party/googleapis/google/rpc"
# Not as planb.v1: programs may have stubs of their own under that name.
MODULES = ((r"\bplanb\.v1 import", "planb_lookup.v1 import"),)
# protoc 3.21 writes stubs that type checkers refuse: a message with a field of the
# name "self", mappings and slots without types.
STUBS = (
    (r"def __init__\(self, (?=.*\bself: )", "def __init__(self_, "),
    (r"\b_Mapping\]", "_Mapping[str, object]]"),
    (r"__slots__ = \[\]", "__slots__: list[str] = []"),
)


class BuildWithProtos(build_py):
    def run(self) -> None:
        super().run()
        library = pathlib.Path(self.build_lib)
        package = library / "planb_lookup"
        v1 = library / "planb" / "v1"
        v1.mkdir(parents=True, exist_ok=True)
        protos = [f"{ROOT}/proto/planb/v1/{name}.proto" for name in PROTOS]
        for proto in RPC.glob("*.proto"):
            text = proto.read_text(encoding="utf-8")
            copy = v1 / proto.name
            copy.write_text(text.replace("package google.rpc;",
                                         "package planb_lookup.rpc;"), encoding="utf-8")
            protos.append(str(copy))
        subprocess.run(
            ["protoc", f"-I{ROOT}/proto", f"-I{library}", f"--python_out={library}",
             f"--pyi_out={library}", *protos], check=True)
        for generated in v1.glob("*.py*"):
            text = generated.read_text(encoding="utf-8")
            for pattern, by in MODULES + STUBS * (generated.suffix == ".pyi"):
                text = re.sub(pattern, by, text)
            (package / "v1" / generated.name).write_text(text, encoding="utf-8")
        shutil.rmtree(library / "planb")


setuptools.setup(version=(ROOT / "VERSION").read_text(encoding="utf-8").strip(),
                 cmdclass={"build_py": BuildWithProtos})

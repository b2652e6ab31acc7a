# SPDX-License-Identifier: Apache-2.0

"""Generates the messages of the contract, and reads the version.

Both come from the repository above, so a build needs its whole tree, and protoc.
"""

import pathlib
import re
import subprocess

import setuptools
from setuptools.command.build_py import build_py

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROTOS = ("types", "route_lookup", "route_table")
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
        subprocess.run(
            ["protoc", f"-I{ROOT}/proto", f"--python_out={library}",
             f"--pyi_out={library}"]
            + [f"{ROOT}/proto/planb/v1/{name}.proto" for name in PROTOS],
            check=True)
        for generated in (library / "planb" / "v1").iterdir():
            text = generated.read_text(encoding="utf-8")
            for pattern, by in MODULES + STUBS * (generated.suffix == ".pyi"):
                text = re.sub(pattern, by, text)
            (package / "v1" / generated.name).write_text(text, encoding="utf-8")
            generated.unlink()
        (library / "planb" / "v1").rmdir()
        (library / "planb").rmdir()


setuptools.setup(version=(ROOT / "VERSION").read_text(encoding="utf-8").strip(),
                 cmdclass={"build_py": BuildWithProtos})

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0

"""Holds the contract to what was promised: proto/CONTRACT.txt, and the last release.

    .ci/contract.py            fails if something promised is gone or changed
    .ci/contract.py --update   adds what is new to the list

The list has a line for each method, field and value of planb.v1, as clients
depend on them: names, numbers, types, labels, streaming. A line that disappears
breaks clients (docs/COMPATIBILITY.md); --update refuses that, too. A deliberate
break, of a field that was never released, removes its line by hand. What the protos
of the newest tag v* have was released, and no list can take it back.
"""

import pathlib
import subprocess
import sys
import tempfile

from google.protobuf import descriptor_pb2

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIST = ROOT / "proto/CONTRACT.txt"
FIELD = descriptor_pb2.FieldDescriptorProto


def name(enum, value):
    return enum.Name(value).split("_", 1)[1].lower()


def of_message(prefix, message):
    path = f"{prefix}.{message.name}"
    yield f"message {path}"
    oneofs = [oneof.name for oneof in message.oneof_decl]
    for field in message.field:
        kind = field.type_name or name(FIELD.Type, field.type)
        label = name(FIELD.Label, field.label)
        if field.proto3_optional:
            label = "presence"
        elif field.HasField("oneof_index"):
            label = f"oneof {oneofs[field.oneof_index]}"
        yield f"field {path} {field.number} {field.name} {label} {kind}"
    for enum in message.enum_type:
        yield from of_enum(path, enum)
    for nested in message.nested_type:
        yield from of_message(path, nested)


def of_enum(prefix, enum):
    path = f"{prefix}.{enum.name}"
    for value in enum.value:
        yield f"value {path} {value.number} {value.name}"


def contract(protos):
    """The lines of the protos below that folder."""
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(
            ["protoc", f"-I{protos}", f"--descriptor_set_out={out.name}",
             *sorted(map(str, (protos / "planb/v1").glob("*.proto")))],
            check=True)
        files = descriptor_pb2.FileDescriptorSet.FromString(
            pathlib.Path(out.name).read_bytes())
    for file in files.file:
        for service in file.service:
            for method in service.method:
                streams = (f"{'stream ' * method.client_streaming}"
                           f"{method.input_type} -> "
                           f"{'stream ' * method.server_streaming}"
                           f"{method.output_type}")
                yield f"method {file.package}.{service.name}.{method.name} {streams}"
        for enum in file.enum_type:
            yield from of_enum(file.package, enum)
        for message in file.message_type:
            yield from of_message(file.package, message)


def git(*arguments):
    return subprocess.run(["git", "-C", ROOT, *arguments], check=False,
                          capture_output=True).stdout


def released():
    """The newest tag of a version in this history, and its contract; or None."""
    tag = git("tag", "--list", "v*", "--merged", "HEAD",
              "--sort=-v:refname").decode().partition("\n")[0]
    if not tag:
        return None
    with tempfile.TemporaryDirectory() as work:
        subprocess.run(["tar", "-xC", work], check=True,
                       input=git("archive", tag, "proto/planb/v1"))
        return tag, set(contract(pathlib.Path(work) / "proto"))


def main():
    promised = LIST.read_text(encoding="utf-8").splitlines() if LIST.exists() else []
    now = sorted(contract(ROOT / "proto"))
    broken = sorted(set(promised) - set(now))
    fresh = sorted(set(now) - set(promised))
    for line in broken:
        print("gone or changed:", line)
    release = released()
    if release is None:
        print("no tag v*: not compared with a release")
    else:
        tag, lines = release
        broken += sorted(lines - set(now))
        for line in sorted(lines - set(now)):
            print(f"gone or changed since {tag}:", line)
    if broken:
        return 1
    if "--update" in sys.argv:
        LIST.write_text("\n".join(now) + "\n", encoding="utf-8")
        print(f"{len(fresh)} lines are new, {len(now)} in all")
        return 0
    for line in fresh:
        print("new:", line)
    if fresh:
        print("add them by .ci/contract.py --update")
    return 1 if fresh else 0


if __name__ == "__main__":
    sys.exit(main())

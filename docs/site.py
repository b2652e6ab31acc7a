#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Builds the documentation as one web site.

    docs/site.py FOLDER [BIN]

The pages are the Markdown files of the repository, at the paths they have, and
a reference made from the programs' own help and from the protos. BIN holds
planb_server and planbctl; bazel-bin by default. Links between pages are checked:
a broken one, or one to a heading that is not there, is an error. mkdocs comes
from PyPI, into .cache/mkdocs.
"""

import json
import os
import pathlib
import posixpath
import re
import subprocess
import sys
import tempfile

MKDOCS = "mkdocs==1.6.1"
PYTHON = "/usr/bin/python3"  # the one that third_party/install.sh gives pip
ROOT = pathlib.Path(__file__).resolve().parents[1]
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")

# What the site has, in order.
NAV = {
    "Start": {
        "PlanB Lookup": "README.md",
        "A sidecar": "docs/guides/sidecar.md",
        "Flow enrichment": "docs/guides/flow-enrichment.md",
        "Replicas": "docs/guides/replicas.md",
        "A router": "docs/guides/router.md",
        "A route reflector's view": "docs/guides/route-reflector.md",
    },
    "Concepts": {
        "Architecture": "docs/ARCHITECTURE.md",
        "Engine": "lpm/README.md",
        "Table files": "lpm/io/TABLE_FILE.md",
        "Server": "server/README.md",
        "Store": "server/STORE.md",
        "Security": "SECURITY.md",
        "Compatibility": "docs/COMPATIBILITY.md",
        "Beside others": "docs/COMPARISON.md",
    },
    "Guides": {
        "Clients": "client/README.md",
        "Python": "client/python/README.md",
        "Go": "client/go/README.md",
        "A table that fills itself": "feed/README.md",
        "Examples": "client/examples/README.md",
        "A router": "examples/router/README.md",
        "Kubernetes and the image": "deploy/README.md",
        "systemd and packages": "deploy/systemd/README.md",
        "Many servers": "docs/SCALE.md",
        "At the edge": "deploy/edge/README.md",
        "Who may do what": "deploy/kubernetes/policy/README.md",
        "Monitoring": "deploy/monitoring/README.md",
        "Runbook": "deploy/RUNBOOK.md",
        "Load tests": "deploy/load/README.md",
    },
    "Measurements": {
        "Engines": "benchmarks/README.md",
        "Serving": "benchmarks/serving/README.md",
        "gRPC": "benchmarks/serving/rpc/README.md",
        "Visibility": "benchmarks/serving/visibility/README.md",
    },
    "Reference": {
        "planb_server": "reference/planb_server.md",
        "planbctl": "reference/planbctl.md",
        "Lookups": "reference/route_lookup.md",
        "Tables": "reference/route_table.md",
        "Types": "reference/types.md",
        "Error reasons": "reference/errors.md",
        "Metrics": "server/METRICS.md",
        "Metrics of planb-feed": "feed/METRICS.md",
    },
    "Development": {"Contributing": "CONTRIBUTING.md", "Changes": "CHANGELOG.md"},
}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


CODES = ("CANCELLED|INVALID_ARGUMENT|DEADLINE_EXCEEDED|NOT_FOUND|ALREADY_EXISTS|"
         "PERMISSION_DENIED|RESOURCE_EXHAUSTED|FAILED_PRECONDITION|ABORTED|"
         "OUT_OF_RANGE|UNIMPLEMENTED|UNAVAILABLE|DATA_LOSS|UNAUTHENTICATED")


def arguments(text, begin):
    """The text between the parentheses that open before `begin`."""
    depth, quoted, at = 1, False, begin
    while depth:
        if text[at] == "\\":
            at += 1
        elif text[at] == '"':
            quoted = not quoted
        elif not quoted:
            depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return text[begin:at - 1]


def error_reasons():
    """Each reason in the server's sources, with its codes and what it says."""
    reasons = {}
    for path in sorted((ROOT / "server").rglob("*.cc")) + sorted(
            (ROOT / "server").rglob("*.h")):
        if path.name.endswith("_test.cc") or "testing" in path.parts:
            continue
        text = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))
        for call in re.finditer(
                r"\b(Error|FieldError|QuotaError|violations\.Add|Unusable)\(", text):
            inside = arguments(text, call.end())
            code = re.search(r"StatusCode::k(\w+)", inside)
            name = re.search(r'"([A-Z]+(?:_[A-Z]+)+|CANCELLED|DRAINING)"', inside)
            if name is None or (code is None and call[1] in ("Error", "FieldError",
                                                             "violations.Add")):
                continue
            words = re.sub(r"(?<!^)([A-Z])", r"_\1", code[1]).upper() if code else (
                "RESOURCE_EXHAUSTED" if call[1] == "QuotaError"
                else "FAILED_PRECONDITION")
            said = max(re.findall(r'"([^"\\]+)"', re.sub(r'"\s*"', "", inside[name.end():])),
                       key=len, default="").strip(" :;,")
            codes, texts = reasons.setdefault(name[1], (set(), []))
            codes.add(words)
            if said.count(" ") > 1 and said not in texts:
                texts.append(said)
    return reasons


def errors_page():
    contract = " ".join(
        re.sub(r"\s*\n\s*//\s?", " ", path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / "proto/planb/v1").glob("*.proto")))
    reasons = error_reasons()
    assert len(reasons) > 50, "the sources are written otherwise"
    for codes, names in re.findall(rf"\b({CODES})\s+\(([A-Z][A-Z_, ]+[A-Z])\)", contract):
        for name in re.split(r"[, ]+", names):
            reasons.setdefault(name, (set(), []))[0].add(codes)
    lines = ["# Error reasons", "",
             "`google.rpc.ErrorInfo.reason` of the errors of domain `planb`, with "
             "their codes and a part of what their messages say. Generated from the "
             "server's sources and the contract, which has what a call may end with "
             "([lookups](route_lookup.md), [tables](route_table.md)).", "",
             "| reason | code | message | in the contract |", "| --- | --- | --- | --- |"]
    for name, (codes, texts) in sorted(reasons.items()):
        said = "<br>".join(text.replace("|", "\\|") for text in texts)
        lines.append(f"| `{name}` | {', '.join(sorted(codes))} | {said} | "
                     f"{'yes' if re.search(rf'{name}', contract) else ''} |")
    return "\n".join(lines) + "\n"


def reference(binaries):
    """The generated pages, by path. `binaries`: a folder, or None: bazel-bin."""
    if binaries is None:
        ctl = ROOT / "bazel-bin/client/planbctl/planbctl"
        server = ROOT / "bazel-bin/server/planb_server"
    else:
        ctl, server = binaries / "planbctl", binaries / "planb_server"
    commands = re.findall(r"^  ([a-z]+(?: [a-z]+)?)  ", output(ctl, "help", "all"), re.M)
    pages = {
        "planb_server": f"# planb_server\n\n```text\n{output(server, '--help=all')}```\n",
        "planbctl": "# planbctl\n\n```text\n" + output(ctl, "help", "all") + "```\n" + "".join(
            f"\n## {name}\n\n```text\n{output(ctl, 'help', *name.split())}```\n"
            for name in commands),
    }
    for proto in sorted((ROOT / "proto/planb/v1").glob("*.proto")):
        pages[proto.stem] = (f"# {proto.name}\n\nThe contract, field by field; errors "
                             f"name their reason.\n\n```proto\n{proto.read_text()}```\n")
    pages["errors"] = errors_page()
    return {f"reference/{name}.md": text for name, text in pages.items()}


def page(path, pages):
    """The file at `path`; what it links to outside of `pages` is only named."""
    def link(match):
        text, target = match.groups()
        file, _, anchor = target.partition("#")
        if not file or "://" in target or target.startswith("mailto:"):
            return match[0]
        place = posixpath.normpath(posixpath.join(posixpath.dirname(path), file))
        readme = posixpath.join(place, "README.md")
        if place not in pages and readme in pages:
            place = readme
        if place not in pages:
            return text if f"`{place}`" in text or place in text else f"{text} (`{place}`)"
        there = posixpath.relpath(place, posixpath.dirname(path) or ".")
        return f"[{text}]({there}{'#' + anchor if anchor else ''})"

    return LINK.sub(link, (ROOT / path).read_text(encoding="utf-8"))


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1]).resolve()
    binaries = pathlib.Path(sys.argv[2]).resolve() if len(sys.argv) == 3 else None
    modules = ROOT / ".cache/mkdocs"
    if not (modules / "mkdocs").exists():
        subprocess.run([PYTHON, "-m", "pip", "install", "--quiet",
                        "--disable-pip-version-check", "--root-user-action=ignore",
                        "--target", modules, MKDOCS],
                       check=True)
    generated = reference(binaries)
    pages = {place for part in NAV.values() for place in part.values()}
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        for path in pages:
            file = work / "docs" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(generated.get(path) or page(path, pages), encoding="utf-8")
        nav = "".join(f"- {part}:\n" + "".join(f"  - {json.dumps(name)}: {place}\n"
                                               for name, place in entries.items())
                      for part, entries in NAV.items())
        (work / "mkdocs.yml").write_text(
            "site_name: PlanB Lookup\nstrict: true\ntheme:\n  name: readthedocs\n"
            "  highlightjs: false\n  navigation_depth: 3\n"
            "markdown_extensions: [tables, fenced_code]\n"
            "validation: {anchors: warn, not_found: warn, unrecognized_links: warn}\n"
            f"nav:\n{nav}", encoding="utf-8")
        # Not --quiet: that counts no warnings.
        built = subprocess.run([PYTHON, "-m", "mkdocs", "build", "--strict", "--clean",
                                "--site-dir", folder], cwd=work, text=True,
                               env={**os.environ, "PYTHONPATH": str(modules)},
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if built.returncode != 0:
            sys.exit(built.stdout)
    print(folder / "index.html")


if __name__ == "__main__":
    main()

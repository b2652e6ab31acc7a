#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0

"""Prints what an image is made of, as SPDX 2.3 in JSON.

    deploy/image/sbom.py ROOT

ROOT is rootfs.sh's. The packages are Debian's: those of the shared objects in
ROOT, and those of the archives and headers that the programs are linked from,
which Bazel's link actions name; and the Go modules that planb-feed says it is built of, if
it is there.
Fails for a file that no package has. Of a ROOT for
arm64 the packages are those of third_party/arm64.sh, which have the names of this
machine's.
"""

import hashlib
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGETS = {"planb-lookup": "//server:planb_server + //client/planbctl:planbctl",
           "planb-router": "//examples/router"}
# Some that are compiled in.
HEADERS = {"planb-lookup": ("/usr/include/spdlog/spdlog.h", "/usr/include/fmt/core.h"),
           "planb-router": ("/usr/include/dpdk/rte_ethdev.h",)}
ARM64_NAMES = (("/lib/ld-linux-aarch64.so.1", "/lib64/ld-linux-x86-64.so.2"),
               ("aarch64-linux-gnu", "x86_64-linux-gnu"))


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True,
                          cwd=ROOT).stdout


def archives(targets):
    links = output("bazel", "aquery", "--noshow_progress", "--config=static",
                   f'mnemonic("CppLink", {targets})')
    libraries = pathlib.Path("/usr/lib/x86_64-linux-gnu")
    return {str(libraries / name) for name in re.findall(r"-l:(lib\S+?\.a)\b", links)}


def package_of(file):
    """The name of the Debian package that has `file`."""
    for there, here in ARM64_NAMES:
        file = file.replace(there, here)
    places = {file, str(pathlib.Path(file).resolve())}
    # Before /lib was a link to /usr/lib.
    places |= {p.removeprefix("/usr") for p in places} | {"/usr" + p for p in places}
    for place in sorted(places):
        found = subprocess.run(["dpkg-query", "--search", place], capture_output=True,
                               text=True)
        if found.returncode == 0:
            return found.stdout.split(":")[0].split(",")[0]
    sys.exit(f"sbom.py: no package has {file}")


def modules(program):
    """The Go modules of a program, with their versions; Go's own library among them."""
    go = output("deploy/go_tool.sh", "go").strip()
    text = output(go, "version", "-m", program)
    yield "stdlib", re.search(r": go(\S+)", text)[1]
    yield from re.findall(r"^\tdep\t(?!planb\.dev/)(\S+)\t(v\S+)", text, re.MULTILINE)


def package(name, edition, purl, **more):
    return {
        "SPDXID": f"SPDXRef-{re.sub('[^A-Za-z0-9.-]', '-', name)}",
        "name": name,
        "versionInfo": edition,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                          "referenceLocator": purl}],
        **more,
    }


def editions_of(names, arm64):
    """The version, architecture and source of each package."""
    lines = output("dpkg-query", "--show", "--showformat",
                   "${Package}\t${Version}\t${Architecture}\t${source:Package}\n",
                   *names).splitlines()
    if arm64:
        # Packages for all architectures are in the first list alone.
        folder = output("third_party/arm64.sh", "folder").strip()
        lines += pathlib.Path(folder, "packages").read_text().splitlines()
    editions = {name: rest for name, *rest in (line.split("\t") for line in lines)}
    for name in names:
        if arm64 and editions[name][1] not in ("arm64", "all"):
            sys.exit(f"sbom.py: no package {name} for arm64")
    return editions


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1])
    version = (ROOT / "VERSION").read_text().strip()
    programs = {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
                for path in sorted((root / "usr/bin").iterdir())}
    image_name = "planb-router" if "planb_router" in programs else "planb-lookup"
    objects = {"/" + str(path.relative_to(root)) for path in root.rglob("*.so*")}
    files = objects | archives(TARGETS[image_name]) | {*HEADERS[image_name]}
    names = {package_of(file) for file in files}
    editions = editions_of(names, any("aarch64" in file for file in objects))
    packages = []
    for name in sorted(names):
        edition, architecture, source = editions[name]
        packages.append(package(
            name, edition, f"pkg:deb/debian/{name}@{edition}?arch={architecture}",
            supplier="Organization: Debian", sourceInfo=f"built from {source}"))
    if "planb-feed" in programs:
        packages += [package(f"go-{name}", edition, f"pkg:golang/{name}@{edition}")
                     for name, edition in modules(root / "usr/bin/planb-feed")]
    image = {
        "SPDXID": "SPDXRef-image",
        "name": image_name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseDeclared": "Apache-2.0",
        "comment": "sha256 of " + ", ".join(f"{n}: {h}" for n, h in programs.items()),
    }
    relations = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
                  "relatedSpdxElement": "SPDXRef-image"}]
    relations += [{"spdxElementId": "SPDXRef-image", "relationshipType": "CONTAINS",
                   "relatedSpdxElement": package["SPDXID"]} for package in packages]
    # The same image has the same document.
    digest = hashlib.sha256(json.dumps([programs, packages]).encode()).hexdigest()
    print(json.dumps({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{image_name}-{version}",
        "documentNamespace": f"https://planb.invalid/spdx/{version}/{digest}",
        "creationInfo": {"created": "1970-01-01T00:00:00Z",
                         "creators": ["Tool: deploy/image/sbom.py"]},
        "packages": [image, *packages],
        "relationships": relations,
    }, indent=1))


if __name__ == "__main__":
    main()

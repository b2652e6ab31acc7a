#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0

"""Prints what an image is made of, as SPDX 2.3 in JSON.

    deploy/image/sbom.py ROOT

ROOT is rootfs.sh's. The packages are Debian's: those of the shared objects in
ROOT, and those of the archives and headers that the programs are linked from,
which Bazel's link actions name. Fails for a file that no package has.
"""

import hashlib
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGETS = "//server:planb_server + //client/planbctl:planbctl"
# Compiled in from headers alone.
HEADERS = ("/usr/include/spdlog/spdlog.h", "/usr/include/fmt/core.h")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True,
                          cwd=ROOT).stdout


def archives():
    links = output("bazel", "aquery", "--noshow_progress", "--config=static",
                   f'mnemonic("CppLink", {TARGETS})')
    libraries = pathlib.Path("/usr/lib/x86_64-linux-gnu")
    return {str(libraries / name) for name in re.findall(r"-l:(lib\S+?\.a)\b", links)}


def package_of(file):
    """The name of the Debian package that has `file`."""
    places = {file, str(pathlib.Path(file).resolve())}
    # Before /lib was a link to /usr/lib.
    places |= {p.removeprefix("/usr") for p in places} | {"/usr" + p for p in places}
    for place in sorted(places):
        found = subprocess.run(["dpkg-query", "--search", place], capture_output=True,
                               text=True)
        if found.returncode == 0:
            return found.stdout.split(":")[0].split(",")[0]
    sys.exit(f"sbom.py: no package has {file}")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1])
    version = (ROOT / "VERSION").read_text().strip()
    objects = {"/" + str(path.relative_to(root)) for path in root.rglob("*.so*")}
    names = {package_of(file) for file in objects | archives() | {*HEADERS}}
    packages = []
    for name in sorted(names):
        shown = output("dpkg-query", "--show", "--showformat",
                       "${Version}\t${Architecture}\t${source:Package}\n", name)
        edition, architecture, source = shown.splitlines()[0].split("\t")
        packages.append({
            "SPDXID": f"SPDXRef-{re.sub('[^A-Za-z0-9.-]', '-', name)}",
            "name": name,
            "versionInfo": edition,
            "supplier": "Organization: Debian",
            "sourceInfo": f"built from {source}",
            "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False,
            "externalRefs": [{
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator":
                    f"pkg:deb/debian/{name}@{edition}?arch={architecture}",
            }],
        })
    programs = {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
                for path in sorted((root / "usr/bin").iterdir())}
    image = {
        "SPDXID": "SPDXRef-image",
        "name": "planb-lookup",
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
        "name": f"planb-lookup-{version}",
        "documentNamespace": f"https://planb.invalid/spdx/{version}/{digest}",
        "creationInfo": {"created": "1970-01-01T00:00:00Z",
                         "creators": ["Tool: deploy/image/sbom.py"]},
        "packages": [image, *packages],
        "relationships": relations,
    }, indent=1))


if __name__ == "__main__":
    main()

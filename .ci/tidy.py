#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Checks the sources of the rooms with clang-tidy and .clang-tidy.

    .ci/tidy.py            all sources but tests, as many cores as there are
    .ci/tidy.py FILE...    these

clang-tidy spends its time on the headers of the standard library, abseil and
gRPC: ten seconds for a file of a hundred lines. So files are checked many at a
time, one after another in one text, whose headers are read once. Names that a
file keeps to itself get its number. A file that does not compile with others
nevertheless is checked alone.

Generated headers are those of the last build, which is made if need be.
"""

import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

ROOMS = ("base/*.cc", "client/*.cc", "lpm/*.cc", "proto/wire/*.cc", "server/*.cc")
TEST = re.compile(r"_test\.cc$|/testing/|_fuzz(_main)?\.cc$")
# What a kernel includes needs the names that the kernel keeps to itself; a tool
# has flags that the program has as well.
ALONE = re.compile(r"lpm/kernels/kernel_\w+\.cc$|server/store/store_speed\.cc$")
# With more files a text takes gigabytes; with fewer, headers are read again.
MAX_FILES = 28
GENERATED = ("client/planbctl/proto", "proto", "third_party/etcd",
             "third_party/googleapis", "third_party/grpc_health",
             "third_party/grpc_reflection", "third_party/opentelemetry")
OPTIONS = ["-std=c++20", "-DFMT_HEADER_ONLY", "-DSPDLOG_FMT_EXTERNAL",
           "-DSPDLOG_HEADER_ONLY", "-iquote", ".", "-iquote", "bazel-bin"]
OPTIONS += [f"-isystembazel-bin/{folder}"
            for folder in (*GENERATED, "server/observe", "server/store")]

# At the beginning of a line, what gives a name to something of the file alone.
NAMES = re.compile(
    r"^(?:template <.*>\s)?(?:class|struct|enum class|enum|union) (\w+)"
    r"|^(?:using|namespace) (\w+) ="
    r"|^(?:[\w:<>,*&\[\]]+ )+[*&]?(\w+)(?:\(|\[| =|;|\{)", re.MULTILINE)
LOCAL = re.compile(r"^namespace \{$(.*?)^\}  // namespace$",
                   re.MULTILINE | re.DOTALL)
# The file of an error of the compiler.
BROKEN = re.compile(r"^(.*?):\d+.*\[clang-diagnostic-error", re.MULTILINE)
MAIN = re.compile(r"^int (main)\(", re.MULTILINE)


def joined(files, root):
    """The files as one text, and which line of which file each line is."""
    lines, places = [], []
    for index, path in enumerate(files):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = file.read()
        names = {name for block in LOCAL.findall(text)
                 for found in NAMES.findall(block) for name in found if name}
        names.update(MAIN.findall(text))
        for name in sorted(names) if len(files) > 1 else ():
            # What is called by its full name keeps it.
            if re.search(rf"::{name}\b", text):
                continue
            text = re.sub(rf"(?<![\w.:>]){name}\b", f"{name}_{index}", text)
        for number, line in enumerate(text.splitlines(), 1):
            lines.append(line + "\n")
            places.append(f"{path}:{number}")
    return "".join(lines), places


def check(files, root):
    """What clang-tidy says, with the places in the files themselves."""
    text, places = joined(files, root)
    with tempfile.NamedTemporaryFile("w", prefix="tidy_", suffix=".cc",
                                     encoding="utf-8") as source:
        source.write(text)
        source.flush()
        ended = subprocess.run(
            ["clang-tidy-14", "--quiet", "--config-file=.clang-tidy",
             source.name, "--", *OPTIONS],
            cwd=root, capture_output=True, text=True, check=False)
        output = re.sub(re.escape(source.name) + r":(\d+)",
                        lambda match: places[int(match[1]) - 1], ended.stdout)
    if ended.returncode == 0:
        return ""
    blamed = set(BROKEN.findall(output)).intersection(files)
    if len(files) > 1 and BROKEN.search(output):
        apart = [path for path in files if path in blamed or not blamed]
        rest = [path for path in files if path not in apart]
        print("does not compile with others:", *apart, flush=True)
        parts = [[path] for path in apart] + ([rest] if rest else [])
        return "".join(check(part, root) for part in parts)
    return output or ended.stderr


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    files = sys.argv[1:] or [
        path for path in subprocess.check_output(
            ["git", "ls-files", *ROOMS], cwd=root, text=True).split()
        if not TEST.search(path)]
    subprocess.check_call(
        ["bazel", "build", "--noshow_progress", "//:version.h",
         "//server/observe:statusz_html", "//server/observe:statusz_proto",
         "//server/store:etcd_records",
         *(f"//{folder}:all" for folder in GENERATED)],
        cwd=root)
    groups = []
    # A room has flags of its own, so rooms are apart.
    for room in sorted({path.split("/", 1)[0] for path in files}):
        own = [path for path in files if path.startswith(room + "/")]
        groups += [[path] for path in own if ALONE.match(path)]
        own = [path for path in own if not ALONE.match(path)]
        count = -(-len(own) // MAX_FILES)
        groups += [own[i::count] for i in range(count)]
    # The longest first, so that no core is idle at the end.
    groups.sort(key=len, reverse=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        outputs = list(pool.map(lambda group: check(group, root), groups))
    bad = [output for output in outputs if output]
    for output in bad:
        print(output)
    print(f"clang-tidy: {len(files)} files in {len(groups)} texts, "
          f"{len(bad)} with findings")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

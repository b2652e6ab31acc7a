#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0

"""Runs the sessions of README.md, and checks the commands of all documents.

    docs/commands_test.py [--long] [FOLDER]

FOLDER has planb_server and planbctl; without it they are built. The blocks of
README.md under "A first session by hand" run as they are in one shell, with
/tmp/ replaced by a folder of the test; a line must exit with 0, or with the
status that its comment names. --long also runs grpcurl, whose build takes
minutes. Of every other document, each command of a block is looked at: flags of
planb_server and planbctl, targets of bazel and make, files. Those of planbctl
that name neither a server nor a placeholder run too, against a server.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
SESSION = "## A first session by hand"
SESSION_SECONDS = 300
STATUS = re.compile(r"#.*exit status (\d+)")
FLAG = re.compile(r"--([a-z][a-z0-9_]*)")
# What may stand before a program.
BEFORE = {"time", "sudo", "taskset", "-c", "exec"}
# A document's own words for what a reader puts in.
PLACEHOLDER = re.compile(r"^(\.\.\.|[A-Z][A-Z_]*|\[.*|.*\])$")


def blocks(text):
    """The indented and fenced blocks of a document, as lists of lines."""
    block, fenced, before = [], False, ""
    for line in text.splitlines() + [""]:
        if line.lstrip().startswith("```"):
            fenced = not fenced
            if not fenced:
                yield block
            block = []
        elif fenced:
            block.append(line.strip())
        elif line.startswith("    ") and (block or not before.strip()):
            block.append(line[4:])
        elif line.strip() or not block:
            if block:
                yield block
            block = []
        before = line
    if block:
        yield block


def commands(block):
    """The commands of a block: lines that end with a backslash go on."""
    joined = re.sub(r"\\\n\s*", " ", "\n".join(block))
    for line in joined.splitlines():
        line = re.sub(r"(^|\s)#.*", "", line).strip()
        for part in re.split(r"\s*(?:&&|\|\||;|\||&(?!\d)|\bdo\b)\s*", line):
            try:
                words = shlex.split(part)
            except ValueError:
                continue
            while words and (re.match(r"^[A-Z_]+=", words[0]) or words[0] in BEFORE
                             or words[0].isdigit() or words[0].startswith("0-")):
                words.pop(0)
            if words:
                yield words


class Checks:
    def __init__(self, folder):
        self.folder = folder
        self.wrong = []
        self.checked = 0
        self.targets = {}
        self.make = set(" ".join(re.findall(r"^([a-z][\w .-]*):",
                                            (ROOT / "Makefile").read_text(), re.M)).split())
        self.server_flags = self.flags(["planb_server", "--help=all"])
        self.ctl = {}
        self.runnable = []

    def flags(self, command):
        text = subprocess.run([self.folder / command[0], *command[1:]], check=True,
                              capture_output=True, text=True).stdout
        return set(FLAG.findall(text))

    def ctl_flags(self, name):
        if name not in self.ctl:
            try:
                self.ctl[name] = self.flags(["planbctl", "help", *name.split()]) | {"help"}
            except subprocess.CalledProcessError:
                self.ctl[name] = None
        return self.ctl[name]

    def fail(self, where, words, why):
        self.wrong.append(f"{where}: {shlex.join(words)}: {why}")

    def unknown(self, where, words, known):
        for word in words:
            match = re.match(r"^--([a-z][a-z0-9_]*)(=|$)", word)
            if match and match[1] not in known and re.sub("^no", "", match[1]) not in known:
                self.fail(where, words, f"there is no flag --{match[1]}")

    def check(self, where, words):
        program, rest = words[0], words[1:]
        name = os.path.basename(program)
        plain = [w for w in rest if not w.startswith("-") and not PLACEHOLDER.match(w)]
        if name == "planb_server" and (program == name or "bin/" in program):
            self.unknown(where, rest, self.server_flags)
        elif name == "planbctl" and (program == name or "bin/" in program):
            if plain:
                two = " ".join(plain[:2])
                known = self.ctl_flags(two) or self.ctl_flags(plain[0])
                if known is None:
                    return self.fail(where, words, f"there is no command {plain[0]}")
                self.unknown(where, rest, known)
                if where != "README.md" and len(plain) == len(rest):
                    self.runnable.append((where, words))
        elif name == "make" and plain:
            for target in plain:
                if "=" not in target and target not in self.make:
                    self.fail(where, words, f"there is no target {target}")
        elif name == "bazel":
            for target in rest:
                if target.startswith("//") and not set(target) & set("*.["):
                    self.targets.setdefault(target, (where, words))
        elif name == "kubectl":
            for flag, path in zip(rest, rest[1:]):
                if (flag in ("-k", "-f") and path.startswith("deploy/")
                        and not (ROOT / path).exists()):
                    self.fail(where, words, f"there is no {path}")
        elif "/" in program and re.match(r"^(\.ci|benchmarks|client|deploy|docs|lpm|proto|"
                                         r"server|third_party)/", program):
            if not (ROOT / program).exists():
                self.fail(where, words, f"there is no {program}")
        else:
            return
        self.checked += 1

    def check_targets(self):
        query = subprocess.run(
            ["bazel", "query", "--noshow_progress", "--keep_going",
             " + ".join(self.targets)], cwd=ROOT, capture_output=True, text=True)
        for target in re.findall(r"no such (?:target|package) '([^']*)'", query.stderr):
            for named, (where, words) in self.targets.items():
                if named.split(":")[0].strip("/") == target.split(":")[0].strip("/"):
                    self.fail(where, words, f"there is no {target}")


    def run(self):
        """Runs the commands of planbctl, in their order, against one server."""
        with tempfile.TemporaryDirectory(prefix="planb_commands") as work:
            socket = f"unix://{work}/s"

            def planbctl(*arguments):
                return subprocess.run(
                    [self.folder / "planbctl", *arguments], cwd=work, check=False,
                    env={**os.environ, "PLANB_SERVER": socket},
                    capture_output=True, text=True, timeout=SESSION_SECONDS)

            with subprocess.Popen(
                    [self.folder / "planb_server", "--generate=1000", "--store=none",
                     f"--listen={socket}", "--metrics_address="],
                    stderr=subprocess.DEVNULL) as server:
                end = time.monotonic() + SESSION_SECONDS
                while planbctl("health").returncode != 0 and time.monotonic() < end:
                    time.sleep(0.1)
                for where, words in self.runnable:
                    answer = planbctl(*words[1:])
                    if answer.returncode != 0:
                        self.fail(where, words, answer.stderr.strip())
                server.terminate()


def session(folder, long):
    """Runs the blocks of README.md. Returns what went wrong."""
    text = (ROOT / "README.md").read_text()
    part = text[text.index(SESSION):]
    part = part[:part.index("\n## ", 1)]
    lines = ["set -uEm", "PLANB_FAILED=0",
             "trap 'echo \"status $?: $BASH_COMMAND\"; PLANB_FAILED=1' ERR"]
    for block in blocks(part):
        if any("grpcurl" in line for line in block) and not long:
            block = [line for line in block if line.startswith("kill")]
        for line in re.sub(r"\\\n\s*", " ", "\n".join(block)).splitlines():
            if line == "make build":  # it is built
                continue
            status = STATUS.search(line)
            code = re.sub(r"(^|\s)#.*", "", line).rstrip()
            lines.append(f"{code} && false || [[ $? == {status[1]} ]]" if status else code)
    with tempfile.TemporaryDirectory(prefix="planb_session") as work:
        text = "\n".join(lines).replace("/tmp/", f"{work}/")
        text += "\nkill $(jobs -p) 2> /dev/null; wait; exit $PLANB_FAILED\n"
        # A file: what `pkill -f` looks for must not be among bash's arguments.
        script, log = pathlib.Path(work, "session.sh"), pathlib.Path(work, "session.log")
        script.write_text(text)
        path = f"{folder}:{os.environ['PATH']}"
        with log.open("wb") as out:
            run = subprocess.Popen(["bash", script], cwd=ROOT, start_new_session=True,
                                   env={**os.environ, "PATH": path},
                                   stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=subprocess.STDOUT)
            try:
                status = run.wait(SESSION_SECONDS)
            except subprocess.TimeoutExpired:
                status = "no status: it took too long"
            subprocess.run(["pkill", "-KILL", "-s", str(run.pid)], check=False)
            run.wait()
        print(log.read_text(errors="replace"))
    return [] if status == 0 else [f"README.md's session ended with {status}"]


def main():
    arguments = sys.argv[1:]
    long = "--long" in arguments
    folder = [a for a in arguments if a != "--long"]
    with tempfile.TemporaryDirectory() as built:
        if not folder:
            subprocess.run(["bazel", "build", "--noshow_progress", "//server:planb_server",
                            "//client/planbctl"], cwd=ROOT, check=True)
            for program in ("server/planb_server", "client/planbctl/planbctl"):
                shutil.copy(ROOT / "bazel-bin" / program, built)
        checks = Checks(pathlib.Path(folder[0] if folder else built).resolve())
        names = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True,
                               capture_output=True, text=True).stdout.split()
        for name in names:
            for block in blocks((ROOT / name).read_text(encoding="utf-8")):
                for words in commands(block):
                    checks.check(name, words)
        checks.check_targets()
        checks.run()
        wrong = checks.wrong
        if shutil.which("etcd") is None:
            print("SKIP: README.md's session needs etcd")
        else:
            wrong += session(checks.folder, long)
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{checks.checked} commands in {len(names)} documents, {len(wrong)} wrong, "
          f"{len(checks.runnable)} of planbctl run besides README.md's")
    if checks.checked < 100:
        print("too few: the documents are written otherwise", file=sys.stderr)
        return 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

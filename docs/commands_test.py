#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0

"""Runs the command blocks of all documents, as sessions.py says.

    docs/commands_test.py [--long] [--only=DOCUMENT] [FOLDER]

FOLDER has planb_server and planbctl; without it they are built. Blocks of a session
run as they are in one shell, with /tmp/ replaced by a folder of the test; a command
must exit with 0, or with the status that its comment names. Those that are not run
are listed with the reason, and a block that is neither is an error. --long also runs
what takes minutes.

Of every document, each command of a block is looked at as well: flags of planb_server
and planbctl, targets of bazel and make, files.
"""

import collections
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

import sessions

ROOT = pathlib.Path(__file__).resolve().parents[1]
# A machine may be slow; a build of grpcurl on a busy one takes many minutes.
SESSION_SECONDS = 1200
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



def begins(block, beginnings):
    """The first of `beginnings` that the block's first line has, or None."""
    return next((b for b in beginnings if block and block[0].strip().startswith(b)), None)


def shell_lines(text):
    """The lines of a script; those that end with a backslash go on."""
    return re.sub(r"\\\n\s*", " ", text).splitlines()


def script(session, found, long):
    """The session's shell, and which commands it leaves out: [(command, why)]."""
    def replaced(text):
        for old, new in session.replace.items():
            text = text.replace(old, new)
        return text

    lines, left_out = shell_lines(session.before), []
    skipped = {**session.without, **({} if long else session.long)}
    for block in found:
        key = begins(block, session.blocks)
        template = session.blocks[key] if session.blocks else sessions.SHELL
        text = replaced("\n".join(block))
        for line in shell_lines(template.replace("{block}", text)):
            why = begins([line], skipped)
            if why is not None:
                left_out.append((line, skipped[why]))
                continue
            status = STATUS.search(line)
            if status:
                code = re.sub(r"(^|\s)#.*", "", line)
                line = f"{code} && false || [[ $? == {status[1]} ]]"
            lines.append(line)
    return "\n".join(lines + shell_lines(session.after)), left_out


def run(session, found, folder, long):
    """Runs a session. Returns what went wrong, and what did not run: [(document, why)]."""
    text, left_out = script(session, found, long)
    left_out = [(session.document, why) for _, why in left_out]
    if session.root and os.geteuid() != 0:
        return [], [(session.document, "needs root") for _ in found]
    needs = subprocess.run([ROOT / "deploy/packages.sh", *session.needs], check=False,
                           capture_output=True, text=True)
    if needs.returncode != 0:
        return [], [(session.document, needs.stdout.strip()) for _ in found]
    for module in session.modules:
        if subprocess.run([ROOT / "deploy/go_tool.sh", module], check=False,
                          stdout=subprocess.DEVNULL).returncode != 0:
            return [], [(session.document, f"SKIP: {module} cannot be had")
                        for _ in found]
    with tempfile.TemporaryDirectory(prefix="planb_session") as work:
        os.mkdir(f"{work}/bin")
        # Debian's, which has the modules.
        os.symlink("/usr/bin/python3", f"{work}/bin/python3")
        text = ("set -uEm\nPLANB_FAILED=0\n"
                "trap 'echo \"status $?: $BASH_COMMAND\"; PLANB_FAILED=1' ERR\n"
                + text.replace("/tmp/", f"{work}/")
                + "\ntrap - ERR; kill $(jobs -p) 2> /dev/null; wait; exit $PLANB_FAILED\n")
        # A file: what `pkill -f` looks for must not be among bash's arguments.
        path, log = pathlib.Path(work, "session.sh"), pathlib.Path(work, "session.log")
        path.write_text(text)
        environment = {**os.environ,
                       "PATH": f"{work}/bin:{folder}:{os.environ['PATH']}:/usr/sbin"}
        begin = time.monotonic()
        with log.open("wb") as out:
            shell = subprocess.Popen(["bash", path], cwd=ROOT, start_new_session=True,
                                     env=environment, stdin=subprocess.DEVNULL, stdout=out,
                                     stderr=subprocess.STDOUT)
            try:
                status = shell.wait(SESSION_SECONDS)
            except subprocess.TimeoutExpired:
                status = "no status: it took too long"
            subprocess.run(["pkill", "-KILL", "-s", str(shell.pid)], check=False)
            shell.wait()
        print(f"== {session.document}: {len(found)} blocks, "
              f"{time.monotonic() - begin:.0f} s", flush=True)
        if status == 0:
            return [], left_out
        print(log.read_text(errors="replace"))
    return [f"{session.document}: its session ended with {status}"], left_out


def assign(documents):
    """The blocks of each session, in its order; those that do not run; what is wrong."""
    wrong, not_run, found = [], [], [[] for _ in sessions.SESSIONS]
    used = set()
    for name, document in documents.items():
        for block in document:
            first = f"{name}: {block[0].strip()[:60]}"
            homes = [(i, begins(block, s.blocks)) for i, s in enumerate(sessions.SESSIONS)
                     if s.document == name
                     and (not s.blocks or begins(block, s.blocks) is not None)]
            reason = begins(block, sessions.NOT_RUN.get(name, {}))
            test = begins(block, sessions.CXX.get(name, {}))
            if test is not None:
                lines = [line for line in block if not line.startswith("#include")]
                source = (ROOT / sessions.CXX[name][test]).read_text(encoding="utf-8")
                if "".join("".join(lines).split()) not in "".join(source.split()):
                    wrong.append(f"{first}: {sessions.CXX[name][test]} has other lines")
                used.add((name, test))
            elif homes:
                found[homes[0][0]].append(block)
                used.add((name, *homes[0]))
            elif reason is not None:
                not_run.append((name, sessions.NOT_RUN[name][reason]))
                used.add((name, reason))
            else:
                wrong.append(f"{first}: neither runs nor says why, in docs/sessions.py")
    listed = {(name, key) for table in (sessions.NOT_RUN, sessions.CXX)
              for name, keys in table.items() for key in keys}
    listed |= {(s.document, i, key) for i, s in enumerate(sessions.SESSIONS)
               for key in s.blocks or [None]}
    wrong += [f"docs/sessions.py: no block is {entry}" for entry in listed - used]
    return found, not_run, wrong


def main():
    long = "--long" in sys.argv
    only = [a.partition("=")[2] for a in sys.argv if a.startswith("--only=")]
    folder = [a for a in sys.argv[1:] if not a.startswith("--")]
    with tempfile.TemporaryDirectory() as built:
        if not folder:
            subprocess.run(["bazel", "build", "--noshow_progress", "//server:planb_server",
                            "//client/planbctl"], cwd=ROOT, check=True)
            for program in ("server/planb_server", "client/planbctl/planbctl"):
                shutil.copy(ROOT / "bazel-bin" / program, built)
        checks = Checks(pathlib.Path(folder[0] if folder else built).resolve())
        names = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True,
                               capture_output=True, text=True).stdout.split()
        documents = {name: list(blocks((ROOT / name).read_text(encoding="utf-8")))
                     for name in names}
        for name, document in documents.items():
            for block in document:
                for words in commands(block):
                    checks.check(name, words)
        checks.check_targets()
        found, not_run, wrong = assign(documents)
        wrong += checks.wrong
        ran = 0
        for session, blocks_of in zip(sessions.SESSIONS, found):
            if not only or session.document in only:
                failed, left_out = run(session, blocks_of, checks.folder, long)
                ran += len(blocks_of)
                wrong += failed
                not_run += left_out
    print("Not run, by docs/sessions.py:")
    for why in sorted({why for _, why in not_run}):
        counts = collections.Counter(name for name, each in not_run if each == why)
        print(f"  {why}:", ", ".join(f"{name} ({n})" for name, n in counts.items()))
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{checks.checked} commands in {len(names)} documents, {ran} blocks run, "
          f"{len(wrong)} wrong")
    if checks.checked < 100:
        print("too few: the documents are written otherwise", file=sys.stderr)
        return 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

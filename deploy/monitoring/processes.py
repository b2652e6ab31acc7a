#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0

"""Real programs under test: planb_server, etcd, and Prometheus with rules that run
60 times as fast.

    processes.py RULES.yaml      prints the faster rules

Minutes become seconds and hours become minutes, in ranges, offsets and `for`;
nothing else changes, so that a test waits seconds for what takes minutes in
operation. Refuses durations that would not be whole seconds then.
"""

import json
import os
import pathlib
import random
import re
import resource
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

import yaml

HERE = pathlib.Path(__file__).parent


def free_port() -> int:
    """A port without a listener, and that no connection gets by chance before
    its process has it: below those that the kernel hands out."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def wait_until(condition, what: str, seconds: float = 60):
    """Polls until `condition()` is true, and returns what it then was."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {seconds} s still not: {what}")
        time.sleep(0.1)


class Server:
    """One server with a Unix socket and a metrics port of its own.

    Not thread-safe. Ends its process when it is closed.
    """

    def __init__(self, programs: pathlib.Path, work: pathlib.Path, name: str):
        self.name = name
        self.programs = programs
        self.work = work
        self.target = f"unix://{work}/{name}.sock"
        self.metrics = f"127.0.0.1:{free_port()}"
        self.log = work / f"{name}.log"
        self._process = None

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self, *flags: str, store: str = "none"):
        """Starts it, perhaps again, and waits until it serves."""
        with open(self.log, "ab") as log:
            begin = log.tell()
            command = [
                self.programs / "planb_server", f"--listen={self.target}",
                f"--metrics_address={self.metrics}", f"--store={store}", *flags
            ]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Small stacks: what a limit of memory is spent on, is data.
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (
                    1 << 20, resource.RLIM_INFINITY)))

        def serves() -> bool:
            if self._process.poll() is not None:
                raise RuntimeError(f"{self.name} ended: {self.tail()}")
            # An event and no fields; in JSON it is quoted.
            return b" serving\n" in self.log.read_bytes()[begin:]

        wait_until(serves, f"{self.name} serves")
        return self

    def ctl(self, *arguments, check=True, timeout=60) -> str:
        """What planbctl prints."""
        command = [
            self.programs / "planbctl", f"--server={self.target}",
            *map(str, arguments)
        ]
        done = subprocess.run(command,
                              stdin=subprocess.DEVNULL,
                              text=True,
                              capture_output=True,
                              timeout=timeout,
                              check=False)
        if check and done.returncode != 0:
            raise RuntimeError(f"planbctl {arguments}: {done.stderr}")
        return done.stdout

    def limit(self, what: int, soft: int):
        """Sets the soft limit of the running process."""
        hard = resource.prlimit(self.pid, what)[1]
        if hard != resource.RLIM_INFINITY and (soft == resource.RLIM_INFINITY or
                                               soft > hard):
            soft = hard
        resource.prlimit(self.pid, what, (soft, hard))

    def descriptors(self) -> int:
        """How many are open."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def status_bytes(self, field: str) -> int:
        """A field of /proc/PID/status that is in kB, such as VmData."""
        for line in open(f"/proc/{self.pid}/status", encoding="ascii"):
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
        raise KeyError(field)

    def metric(self, name: str) -> float:
        """The sum of all series of this name."""
        url = f"http://{self.metrics}/metrics"
        with urllib.request.urlopen(url, timeout=60) as answer:
            text = answer.read().decode()
        values = re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE)
        if not values:
            raise KeyError(name)
        return sum(map(float, values))

    def kill(self):
        """As the kernel does that has no memory left."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]


class Feed:
    """A planb-feed of one source, a file by default, with a table of its own on a server.

    Not thread-safe.
    """

    def __init__(self, server: Server, source: dict | None = None):
        self._server = server
        self.metrics = f"127.0.0.1:{free_port()}"
        self.file = server.work / f"{server.name}.routes"
        self._config = server.work / f"{server.name}.feed.yaml"
        # JSON is YAML.
        self._config.write_text(json.dumps({
            "server": server.target, "table": "fed", "create_table": True,
            "metrics_address": self.metrics,
            "sources": [source or {"name": "file", "kind": "file", "options": {
                "path": str(self.file), "poll": "200ms"}}]}))
        self._process = None

    def tell(self, *routes: str):
        """Puts the file in place."""
        draft = self.file.with_suffix(".draft")
        draft.write_text("\n".join(routes) + "\n")
        draft.rename(self.file)

    def start(self):
        """Starts it, perhaps again, and does not wait."""
        with open(self._server.work / f"{self._server.name}.feed.log", "ab") as log:
            self._process = subprocess.Popen(
                [self._server.programs / "planb-feed", f"--config={self._config}"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self):
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


class Etcd:
    """One member of etcd. Not thread-safe. Ends its process when it is closed."""

    def __init__(self, work: pathlib.Path, name: str):
        self._log = work / f"{name}.etcd.log"
        self.address = f"127.0.0.1:{free_port()}"
        peer = f"http://127.0.0.1:{free_port()}"
        self._command = [
            "etcd", f"--data-dir={work}/{name}.etcd",
            f"--listen-client-urls=http://{self.address}",
            f"--advertise-client-urls=http://{self.address}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}"
        ]
        self._process = None

    def start(self):
        """Starts it, perhaps again, and waits until it answers."""
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(self._command,
                                             stdin=subprocess.DEVNULL,
                                             stdout=log,
                                             stderr=log)

        def answers() -> bool:
            if self._process.poll() is not None:
                raise RuntimeError(f"etcd ended: {self._log.read_text()[-2000:]}")
            try:
                with urllib.request.urlopen(f"http://{self.address}/health"):
                    return True
            except OSError:
                return False

        wait_until(answers, "etcd answers")

    def ctl(self, *arguments) -> str:
        """What etcdctl prints."""
        return subprocess.run(
            ["etcdctl", f"--endpoints={self.address}", *arguments],
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
            env={
                **os.environ, "ETCDCTL_API": "3"
            }).stdout

    def kill(self):
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


# Not within a word: the name `rate5m` stays.
_DURATION = re.compile(r"(?<![\w.])(\d+)(ms|s|m|h|d|w|y)(?!\w)")
_FASTER = {"m": "s", "h": "m"}


def faster(text: str) -> str:
    """`text`, an expression or a duration, with its durations shortened."""

    def shorten(match: re.Match) -> str:
        number, unit = match.groups()
        if unit not in _FASTER:
            raise ValueError(f"{match.group()} is not in minutes or hours")
        return number + _FASTER[unit]

    return _DURATION.sub(shorten, text)


def faster_rules(rules: dict) -> dict:
    for group in rules["groups"]:
        for rule in group["rules"]:
            for key in ("expr", "for"):
                if key in rule:
                    rule[key] = faster(rule[key])
    return rules


class Prometheus:
    """Scrapes what `set_targets` names, twice a second: 30 s in earnest.

    Not thread-safe. Ends its process when it is closed.
    """

    def __init__(self, programs: pathlib.Path, work: pathlib.Path):
        self._log = work / "prometheus.log"
        self.address = f"127.0.0.1:{free_port()}"
        with open(HERE / "rules.yaml", encoding="utf-8") as file:
            rules = faster_rules(yaml.safe_load(file))
        (work / "rules.yaml").write_text(yaml.safe_dump(rules))
        self._targets = {job: work / f"{job}.json" for job in ("planb", "planb-feed")}
        self.set_targets({})
        config = {
            "global": {
                "scrape_interval": "500ms",
                "scrape_timeout": "500ms",
                "evaluation_interval": "500ms"
            },
            "rule_files": [str(work / "rules.yaml")],
            "scrape_configs": [{
                "job_name": job,
                "file_sd_configs": [{
                    "files": [str(file)],
                    "refresh_interval": "1s"
                }]
            } for job, file in self._targets.items()]
        }
        (work / "prometheus.yaml").write_text(yaml.safe_dump(config))
        with open(self._log, "wb") as log:
            command = [
                programs / "prometheus",
                f"--config.file={work}/prometheus.yaml",
                f"--storage.tsdb.path={work}/tsdb",
                f"--web.listen-address={self.address}",
                "--query.lookback-delta=10s", "--log.level=warn"
            ]
            self._process = subprocess.Popen(command,
                                             stdin=subprocess.DEVNULL,
                                             stdout=log,
                                             stderr=log,
                                             cwd=work)
        wait_until(self._ready, "Prometheus is ready")

    def _ready(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"Prometheus ended: {self.tail()}")
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready"):
                return True
        except OSError:
            return False

    def set_targets(self, targets: dict, feeds: dict | None = None):
        """`targets`, `feeds`: HOST:PORT by name, which becomes the label `instance`."""
        for file, of in zip(self._targets.values(), (targets, feeds or {})):
            entries = [{"targets": [address], "labels": {"instance": name}}
                       for name, address in of.items()]
            # Renamed, so that it is never read half written.
            draft = file.with_suffix(".draft")
            draft.write_text(json.dumps(entries))
            draft.rename(file)

    def _get(self, path: str, **parameters):
        asked = urllib.parse.urlencode(parameters)
        url = f"http://{self.address}{path}?{asked}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            said = error.read().decode()
            raise RuntimeError(f"{parameters}: {said}") from error

    def query(self, expression: str) -> list:
        """The samples of an instant query, as (labels, value)."""
        data = self._get("/api/v1/query", query=expression)
        return [
            (each["metric"], float(each["value"][1])) for each in data["result"]
        ]

    def samples(self, expression: str, start: float, end: float) -> list:
        """The series of a query, as (labels, [(time, value)]), twice a second."""
        data = self._get("/api/v1/query_range", query=expression, start=start, end=end,
                         step="500ms")
        return [(each["metric"], [(at, float(value)) for at, value in each["values"]])
                for each in data["result"]]

    def firing(self) -> set:
        """(alert, instance) of what fires now."""
        return {(each["labels"]["alertname"],
                 each["labels"].get("instance", ""))
                for each in self._get("/api/v1/alerts")["alerts"]
                if each["state"] == "firing"}

    def tail(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]

    def close(self):
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                print("Prometheus had to be killed", file=sys.stderr)
                self._process.kill()
                self._process.wait()


def main() -> None:
    """Prints the rules of a file, running 60 times as fast."""
    with open(sys.argv[1], encoding="utf-8") as file:
        yaml.safe_dump(faster_rules(yaml.safe_load(file)), sys.stdout)


if __name__ == "__main__":
    main()

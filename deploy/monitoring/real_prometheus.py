# SPDX-License-Identifier: Apache-2.0

"""A real Prometheus under test, with the rules run 60 times faster."""

import json
import pathlib
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

import yaml

import faster
from real_server import free_port, wait_until

HERE = pathlib.Path(__file__).parent


class Prometheus:
    """Scrapes what `set_targets` names, twice a second: 30 s in earnest.

    Not thread-safe. Ends its process when it is closed.
    """

    def __init__(self, programs: pathlib.Path, work: pathlib.Path):
        self._work = work
        self._log = work / "prometheus.log"
        self.address = f"127.0.0.1:{free_port()}"
        with open(HERE / "rules.yaml", encoding="utf-8") as file:
            rules = faster.render(yaml.safe_load(file))
        (work / "rules.yaml").write_text(yaml.safe_dump(rules))
        self._targets = work / "targets.json"
        self.set_targets({})
        config = {
            "global": {
                "scrape_interval": "500ms",
                "scrape_timeout": "500ms",
                "evaluation_interval": "500ms",
            },
            "rule_files": [str(work / "rules.yaml")],
            "scrape_configs": [
                {
                    "job_name": "planb",
                    "file_sd_configs": [
                        {
                            "files": [str(self._targets)],
                            "refresh_interval": "1s",
                        }
                    ],
                }
            ],
        }
        (work / "prometheus.yaml").write_text(yaml.safe_dump(config))
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [
                    programs / "prometheus",
                    f"--config.file={work}/prometheus.yaml",
                    f"--storage.tsdb.path={work}/tsdb",
                    f"--web.listen-address={self.address}",
                    "--query.lookback-delta=10s",
                    "--log.level=warn",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=work,
            )
        wait_until(self._ready, "Prometheus is ready")

    def _ready(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"Prometheus ended: {self.tail()}")
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready"):
                return True
        except OSError:
            return False

    def set_targets(self, targets: dict):
        """`targets`: HOST:PORT by name, which becomes the label `instance`."""
        entries = [
            {"targets": [address], "labels": {"instance": name}}
            for name, address in targets.items()
        ]
        # Renamed, so that it is never read half written.
        draft = self._targets.with_suffix(".draft")
        draft.write_text(json.dumps(entries))
        draft.rename(self._targets)

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

    def query_range(self, expression: str, start, end, step) -> list:
        """The series of a range query, as (labels, [(time, value), ...])."""
        data = self._get(
            "/api/v1/query_range",
            query=expression,
            start=start,
            end=end,
            step=step,
        )
        return [
            (each["metric"], [(t, float(v)) for t, v in each["values"]])
            for each in data["result"]
        ]

    def firing(self) -> set:
        """(alert, instance) of what fires now."""
        return {
            (each["labels"]["alertname"], each["labels"].get("instance", ""))
            for each in self._get("/api/v1/alerts")["alerts"]
            if each["state"] == "firing"
        }

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

# SPDX-License-Identifier: Apache-2.0

"""A real planb_server under test: started, fed, hurt, ended."""

import os
import pathlib
import resource
import socket
import subprocess
import time


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


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
            self._process = subprocess.Popen(
                [
                    self.programs / "planb_server",
                    f"--listen={self.target}",
                    f"--metrics_address={self.metrics}",
                    f"--store={store}",
                    *flags,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Small stacks: what a limit of memory is spent on, is data.
                preexec_fn=lambda: resource.setrlimit(
                    resource.RLIMIT_STACK, (1 << 20, resource.RLIM_INFINITY)
                ),
            )

        def serves() -> bool:
            if self._process.poll() is not None:
                raise RuntimeError(f"{self.name} ended: {self.tail()}")
            # An event and no fields; in JSON it is quoted.
            return b" serving\n" in self.log.read_bytes()[begin:]

        wait_until(serves, f"{self.name} serves")
        return self

    def ctl(self, *arguments, check=True, stdin=subprocess.DEVNULL) -> str:
        """What planbctl prints."""
        done = subprocess.run(
            [
                self.programs / "planbctl",
                f"--server={self.target}",
                *map(str, arguments),
            ],
            stdin=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"planbctl {arguments}: {done.stderr}")
        return done.stdout

    def limit(self, what: int, soft: int):
        """Sets the soft limit of the running process."""
        hard = resource.prlimit(self.pid, what)[1]
        if hard != resource.RLIM_INFINITY and (
            soft == resource.RLIM_INFINITY or soft > hard
        ):
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

    def kill(self):
        """As the kernel does that has no memory left."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]

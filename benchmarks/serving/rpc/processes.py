# SPDX-License-Identifier: Apache-2.0

"""Servers and clients as processes: each bound to its cores, and a server
stopped in its tracks (SIGSTOP) while another is measured, so that not even one
that polls without a pause disturbs the others.
"""

import json
import os
import resource
import signal
import socket
import subprocess
import time

START_SECONDS = 60


def bound_to(cpus):
    """For preexec_fn: binds the child to `cpus`; None leaves it free."""

    def bind():
        if cpus:
            os.sched_setaffinity(0, cpus)

    return bind


def cpu_seconds(pid):
    """Processor time of all threads of a process, to the nanosecond."""
    return time.clock_gettime((~pid << 3) | 2)  # as clock_getcpuclockid(3)


def machine_busy_seconds():
    """Time that processors of this machine did anything, or were stolen."""
    with open("/proc/stat", encoding="ascii") as file:
        fields = [int(word) for word in file.readline().split()[1:9]]
    idle = fields[3] + fields[4]
    return (sum(fields) - idle) / os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server on a Unix socket and a TCP port, stopped unless `measured`."""

    def __init__(self, name, argv, folder, cpus):
        self.addresses = {
            "unix": f"unix://{folder}/{name}.sock",
            "tcp": f"127.0.0.1:{free_port()}",
        }
        self.log = os.path.join(folder, f"{name}.log")
        listen = ",".join(self.addresses.values())
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                argv + [f"--listen={listen}"],
                stdout=log,
                stderr=log,
                preexec_fn=bound_to(cpus),
            )
        self.await_listening()
        self.process.send_signal(signal.SIGSTOP)

    @property
    def pid(self):
        return self.process.pid

    def await_listening(self):
        host, port = self.addresses["tcp"].rsplit(":", 1)
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                socket.create_connection((host, int(port)), 1).close()
                return
            except OSError:
                if self.process.poll() is not None:
                    raise RuntimeError(self.last_words()) from None
                if time.monotonic() > end:
                    self.stop()
                    raise RuntimeError(f"no listener: {self.log}") from None
                time.sleep(0.05)

    def last_words(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return f"{self.process.args[0]} ended: {log.read()[-2000:]}"

    def __enter__(self):
        self.process.send_signal(signal.SIGCONT)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGSTOP)

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def run_client(argv, cpus, server_pid):
    """Runs a client to its end: what its line of JSON says, and besides
    `other_cpu_seconds`, what neither end used while it ran.
    """
    own_before = resource.getrusage(resource.RUSAGE_CHILDREN)
    server_before = cpu_seconds(server_pid)
    busy_before = machine_busy_seconds()
    done = subprocess.run(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        preexec_fn=bound_to(cpus),
    )
    if done.returncode != 0:
        raise RuntimeError(
            f"{' '.join(argv)}\nexit code {done.returncode}: "
            f"{done.stdout[-1000:]}{done.stderr[-1000:]}"
        )
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = own.ru_utime + own.ru_stime
    used -= own_before.ru_utime + own_before.ru_stime
    used += cpu_seconds(server_pid) - server_before
    said = json.loads(done.stdout.strip().splitlines()[-1])
    busy = machine_busy_seconds() - busy_before
    said["other_cpu_seconds"] = max(0.0, busy - used)
    return said

# SPDX-License-Identifier: Apache-2.0

"""What is measured: the servers, and the clients that ask them, as processes.

Each is bound to its cores. A server is stopped (SIGSTOP) while another is
measured, so that not even one that polls without a pause disturbs the others.
Which repeats are taken when is for compare.py.
"""

import json
import os
import resource
import signal
import socket
import subprocess
import time

# Batches in flight on a stream of so many addresses: enough for gRPC.
DEPTHS = {1: 256, 32: 128, 256: 64, 1024: 32, 4096: 8, 16384: 4, 65536: 3}

# Kinds that answer lookups, and the server each is asked of.
LOOKUPS = {
    "server": "server",
    "bare": "bare",
    "socket": "socket",  # ping-pong, both ends sleep while they wait
    "socket_spin": "socket_spin",  # ping-pong, both ends poll
    "socket_deep": "socket",  # as many batches in flight as gRPC has
}
SOCKETS = ("socket", "socket_spin", "socket_deep")

START_SECONDS = 60


def depth_for(batch):
    return DEPTHS.get(batch) or max(3, min(256, 32768 // batch))


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


class Process:
    """A child on some cores, whose output is appended to a log."""

    def __init__(self, argv, log, cpus=None):
        self.log = log
        with open(log, "ab") as file:
            self.process = subprocess.Popen(argv, stdout=file, stderr=file,
                                            preexec_fn=bound_to(cpus))
        self.pid = self.process.pid

    def last_words(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return f"{self.process.args[0]}: {log.read()[-2000:]}"

    def stop(self, how=signal.SIGKILL):
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise RuntimeError(f"does not end: {self.last_words()}") from None


class Server(Process):
    """A server on a Unix socket and a TCP port, stopped unless it is measured."""

    def __init__(self, name, argv, folder, cpus):
        self.addresses = {
            "unix": f"unix://{folder}/{name}.sock",
            "tcp": f"127.0.0.1:{free_port()}",
        }
        listen = ",".join(self.addresses.values())
        super().__init__(argv + [f"--listen={listen}"],
                         os.path.join(folder, f"{name}.log"), cpus)
        self.await_listening()
        self.process.send_signal(signal.SIGSTOP)

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

    def __enter__(self):
        self.process.send_signal(signal.SIGCONT)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGSTOP)


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


class Contenders:
    """Starts each server when it is first needed; ends them all."""

    def __init__(self, args, folder):
        self._args = args
        self._folder = folder
        self._servers = {}

    def close(self):
        for server in self._servers.values():
            server.stop()

    def table(self, made_up="generate"):
        if self._args.generate:
            return f"--{made_up}={self._args.generate}"
        return f"--routes={self._args.routes}"

    def program(self, name):
        return os.path.join(self._args.bin, name)

    def server(self, name):
        if name not in self._servers:
            self._servers[name] = Server(
                name, self._argv(name), self._folder, self._args.server_cpus
            )
        return self._servers[name]

    def _argv(self, name):
        if name == "server":
            return [
                self.program("server/planb_server"),
                "--metrics_address=",
                "--log_level=warning",
                # More threads than cores would cost it throughput.
                f"--lookup_threads={len(self._args.server_cpus)}",
                self.table(),
                *self._args.server_args,
            ]
        return self._baseline("bare" if name == "bare" else "socket_baseline",
                              name == "socket_spin")

    def _baseline(self, program, spin=False):
        return [self.program(f"benchmarks/serving/rpc/{program}"),
                f"--table={self._args.generate or self._args.routes}",
                *(["--spin"] if spin else [])]

    def ask(self, kind, transport, form, batch, depth, check=False):
        """One repeat of a kind of LOOKUPS; what its client says."""
        server = self.server(LOOKUPS[kind])
        target = server.addresses[transport]
        if kind in SOCKETS:
            argv = [*self._baseline("socket_baseline", kind == "socket_spin"),
                    f"--connect={target}", f"--upper={form == 'upper'}",
                    f"--warm_up_seconds={self._args.warm_up}"]
        else:
            argv = [self.program("client/planbctl/planbctl"), "bench", "--json",
                    "--quiet", "--trace=match", self.table("synthetic"),
                    f"--server={target}", f"--form={form}", "--streams=1",
                    "--connections=1", f"--warmup={self._args.warm_up}s"]
        argv += [f"--server_pid={server.pid}", f"--batch={batch}",
                 f"--depth={depth}", f"--seconds={self._args.seconds}",
                 f"--check={check}"]
        with server:
            return run_client(argv, self._args.client_cpus, server.pid)

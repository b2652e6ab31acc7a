# SPDX-License-Identifier: Apache-2.0

"""Who is measured: the servers, and the clients that ask them.

Everything here is about command lines; which repeats are taken when is
compare.py's affair.
"""

import os

import processes

# Batches in flight on a stream of so many addresses: enough for gRPC.
DEPTHS = {1: 256, 32: 128, 256: 64, 1024: 32, 4096: 8, 16384: 4, 65536: 3}

# Kinds that answer lookups, and the server each is asked of.
LOOKUPS = {
    "server": "server",
    "callback": "callback",
    "async": "async",
    "async_spin": "async_spin",
    "sync": "sync",
    "socket": "socket",  # ping-pong, both ends sleep while they wait
    "socket_spin": "socket_spin",  # ping-pong, both ends poll
    "socket_deep": "socket",  # as many batches in flight as gRPC has
}
SOCKETS = ("socket", "socket_spin", "socket_deep")

SLEEPING_ECHOES = ("echo_callback", "echo_async", "echo_sync")
ECHOES = (*SLEEPING_ECHOES, "echo_async_spin")


def depth_for(batch):
    return DEPTHS.get(batch) or max(3, min(256, 32768 // batch))


class Contenders:
    """Starts each server when it is first needed; ends them all."""

    def __init__(self, args, folder):
        self._args = args
        self._folder = folder
        self._servers = {}

    def close(self):
        for server in self._servers.values():
            server.stop()

    def table(self):
        if self._args.generate:
            return [f"--generate={self._args.generate}"]
        return [f"--routes={self._args.routes}"]

    def program(self, name):
        return os.path.join(self._args.bin, name)

    def server(self, name, cpus=None):
        """The server of that name, on `cpus` if not where all others are."""
        cpus = cpus or self._args.server_cpus
        key = f"{name}.{'_'.join(map(str, cpus))}"
        if key not in self._servers:
            self._servers[key] = processes.Server(
                key, self._argv(name, cpus), self._folder, cpus
            )
        return self._servers[key]

    def _argv(self, name, cpus):
        bare = self.program("benchmarks/serving/rpc/bare")
        if name in ("server", "server_spin"):
            argv = [
                self.program("server/planb_server"),
                "--metrics_address=",
                "--log_level=warning",
                # More threads than cores would cost it throughput.
                f"--lookup_threads={len(cpus)}",
                *self.table(),
                *self._args.server_args,
            ]
            spin = self._args.spin_args if name == "server_spin" else []
            return argv + spin
        if name in ("socket", "socket_spin"):
            argv = [self.program("benchmarks/serving/rpc/socket_baseline"), *self.table()]
            argv += ["--server_cpu=-1"]
            return argv + (["--spin"] if name == "socket_spin" else [])
        if name in ECHOES:
            style = name[len("echo_") :]
            return [bare, "--work=echo", f"--style={style}"]
        return [bare, "--work=lookup", f"--style={name}", *self.table()]

    def ask(self, kind, transport, form, batch, depth, **more):
        """One repeat of a kind of LOOKUPS; what its client says."""
        server = self.server(LOOKUPS[kind], more.get("server_cpus"))
        target = server.addresses[transport]
        if kind in SOCKETS:
            argv = self._socket_argv(kind, form, batch, depth)
            argv += [f"--connect={target}", f"--server_pid={server.pid}"]
        else:
            argv = self.bench_argv(form, batch, depth, **more)
            argv += [f"--server={target}", f"--server_pid={server.pid}"]
        with server:
            said = processes.run_client(
                argv, more.get("client_cpus") or self._args.client_cpus,
                server.pid,
            )
        return said

    def _socket_argv(self, kind, form, batch, depth):
        argv = [
            self.program("benchmarks/serving/rpc/socket_baseline"),
            *self.table(),
            f"--batch={batch}",
            f"--form={form}",
            f"--depth={depth}",
            f"--seconds={self._args.seconds}",
            f"--warm_up_seconds={self._args.warm_up}",
            "--client_cpu=-1",
        ]
        return argv + (["--spin"] if kind == "socket_spin" else [])

    def bench_argv(self, form, batch, depth, streams=1, connections=1,
                   rate=None, check=False, **_):
        """planbctl bench; `rate` (lookups a second) makes it an open loop."""
        table = (
            [f"--synthetic={self._args.generate}"]
            if self._args.generate
            else [f"--routes={self._args.routes}"]
        )
        argv = [
            self.program("client/planbctl/planbctl"),
            "bench",
            "--json",
            "--trace=match",
            *table,
            f"--batch={batch}",
            f"--depth={depth}",
            f"--streams={streams}",
            f"--connections={connections}",
            f"--seconds={self._args.seconds}",
            f"--warmup={self._args.warm_up}s",
            "--quiet",
        ]
        if form != "full":
            argv.append(f"--form={form}")
        if rate is not None:
            argv.append(f"--rate={rate:.0f}")
        if check:
            argv.append("--check")
        return argv

    def ping(self, name, method, wait, same_core):
        """One repeat of one address in flight; what its client says."""
        server = self.server(name)
        argv = [
            self.program("benchmarks/serving/rpc/ping_server"),
            f"--server={server.addresses['unix']}",
            f"--server_pid={server.pid}",
            f"--method={method}",
            f"--wait={wait}",
            f"--seconds={self._args.seconds}",
            f"--warm_up_seconds={self._args.warm_up}",
        ]
        if name in ECHOES:
            argv.append("--echo")
        args = self._args
        cpus = args.server_cpus if same_core else args.client_cpus
        with server:
            return processes.run_client(argv, cpus, server.pid)

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0

"""The containers of the rendered overlays, run as processes: no cluster.

    deploy/kubernetes/rendered_test.py FOLDER RENDERED

FOLDER has planb_server, planbctl and planb-feed, RENDERED is validate.sh's, with OVERLAY.yaml, or
has the chart. The router's forwarder takes part if FOLDER has planb_router. Each container gets the arguments that its pod has, its mounts as folders
with the Secrets and ConfigMaps of the overlay in them, and an address of 127.0.0.0/8 for
[::].

Each server's arguments pass --check_config, and each becomes ready, by its readiness
probe; but those of `replicas` and `followers` need each other and etcd:
certificates_test.sh runs them. Of `router` all containers run, with Debian's FRR, and the capabilities of the
pod's, beside a peer in a network of its own: the pod becomes ready, forwards what the peer sends by the
peer's route, each packet once, and goes on so while zebra is killed and comes back.

Needs root, for a network and an /etc/hosts of its own.
"""

import base64
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

import yaml

PATIENCE = 120
ROUTED = "198.51.100.1"
HERE = pathlib.Path(__file__).resolve().parent
# Hands a node's folder over, as root: pod_test.sh runs it.
SKIPPED = {"own-folder"}


class Container:
    """A container of a pod as a process. `address` is the pod's."""

    def __init__(self, world, spec, mounts, address, pod):
        self.spec, self.address, self._world, self._mounts = spec, address, world, mounts
        self.name = f"{pod}/{spec['name']}"
        self._variables = {"POD_NAME": pod}
        self.log = world.work / f"{pod}.{spec['name']}.log"
        self.process = None

    def real(self, text):
        """`text` with the mounts' folders, the pod's address and its variables."""
        for name, value in self._variables.items():
            text = text.replace(f"$({name})", value)
        for path in sorted(self._mounts, key=len, reverse=True):
            text = text.replace(path + "/", f"{self._mounts[path]}/")
            if text.endswith("=" + path):
                text = text.removesuffix(path) + str(self._mounts[path])
        return text.replace("[::]", self.address)

    def command(self, *more):
        program = self.spec.get("command", ["planb_server"])
        programs = {"planb_server": self._world.folder / "planb_server",
                    "/usr/bin/planbctl": self._world.folder / "planbctl",
                    "/usr/bin/planb-feed": self._world.folder / "planb-feed"}
        if self.spec["name"] == "forwarder":
            program = [self._world.folder / "planb_router"]
        added = self.spec.get("securityContext", {}).get("capabilities", {}).get("add")
        apart = ["setpriv", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all,+"
                 + ",+".join(added).lower()] if added else []
        return [*apart, str(programs.get(program[0], program[0])), *program[1:], *more,
                *map(self.real, self.spec.get("args", []))]

    def run(self, *more):
        """To its end, which has to be a good one."""
        done = subprocess.run(self.command(*more), capture_output=True, text=True,
                              check=False, timeout=PATIENCE, env=self.environment())
        if done.returncode != 0:
            raise SystemExit(f"FAIL: {self.name}: {done.returncode}: {done.stderr}")
        return done.stdout

    def environment(self):
        variables = {each["name"]: self.real(each["value"])
                     for each in self.spec.get("env", []) if "value" in each}
        return {**os.environ, **variables}

    def start(self):
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, env=self.environment())
        self._world.started.append(self)

    def ready(self):
        """What the readiness probe says."""
        probe = self.spec["readinessProbe"]
        if "grpc" in probe:
            command = [self._world.folder / "planbctl", "health",
                       f"--server={self.address}:{probe['grpc']['port']}"]
        else:
            ports = {each["name"]: each["containerPort"] for each in self.spec["ports"]}
            get = probe["httpGet"]
            command = ["curl", "--silent", "--fail",
                       f"http://{self.address}:{ports[get['port']]}{get['path']}"]
        return subprocess.run(command, check=False, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0

    def await_ready(self):
        end = time.monotonic() + PATIENCE
        while not self.ready():
            if self.process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"FAIL: {self.name} is not ready: "
                                 f"{self.log.read_text(errors='replace')[-3000:]}")
            time.sleep(0.1)

    def rewrite(self, *more):
        """The files that it mounts, for where it runs; `more`: what else is replaced."""
        for folder in self._mounts.values():
            for file in filter(pathlib.Path.is_file, folder.iterdir()):
                text = self.real(file.read_text())
                for old, new in more:
                    text = text.replace(old, new)
                file.write_text(text)

    def within_limit(self):
        """Fails if it ever took more memory than its limit."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        peak = int(re.search(r"VmHWM:\s*(\d+) kB", status)[1]) >> 10
        limit = int(self.spec["resources"]["limits"]["memory"].removesuffix("Mi"))
        print(f"{self.name}: {peak} MiB of {limit}")
        if peak > limit:
            raise SystemExit(f"FAIL: {self.name} takes more than its limit")

    def stop(self):
        """As the kubelet does. A server ends with 0."""
        self.process.terminate()
        code = self.process.wait(PATIENCE)
        if code not in (0, -signal.SIGTERM):
            raise SystemExit(f"FAIL: {self.name}: exit code {code} after SIGTERM")


class World:
    """What the pods share: files, addresses, names."""

    def __init__(self, folder, rendered, work):
        self.folder, self.work = folder, work
        self.started = []
        self.overlays = {path.stem: [d for d in yaml.safe_load_all(path.read_text()) if d]
                         for path in sorted(rendered.glob("*.yaml"))}
        self._next = 10
        self._hosts = ["127.0.0.1 localhost"]

    def new_address(self, *names):
        self._next += 1
        address = f"127.0.0.{self._next}"
        self._hosts += [f"{address} {name}" for name in names]
        # Written in place: it is mounted.
        pathlib.Path("/etc/hosts").write_text("\n".join(self._hosts) + "\n")
        return address

    def volume(self, overlay, namespace, volume, pod):
        """The folder of a pod's volume."""
        folder = self.work / pod / volume["name"]
        folder.mkdir(parents=True)
        for kind, name in (("Secret", volume.get("secret", {}).get("secretName")),
                           ("ConfigMap", volume.get("configMap", {}).get("name"))):
            if name is None:
                continue
            [found] = [d for d in self.overlays[overlay] if d["kind"] == kind
                       and d["metadata"]["name"] == name
                       and d["metadata"]["namespace"] == namespace]
            for file, text in found["data"].items():
                data = base64.b64decode(text) if kind == "Secret" else text.encode()
                (folder / file).write_bytes(data)
        return folder

    def pod(self, overlay, workload, pod, *names):
        """The containers of one pod of a workload, by name; `names` lead to it."""
        namespace = workload["metadata"]["namespace"]
        spec = workload["spec"]["template"]["spec"]
        volumes = spec.get("volumes", []) + [
            {"name": claim["metadata"]["name"]}
            for claim in workload["spec"].get("volumeClaimTemplates", [])]
        folders = {v["name"]: self.volume(overlay, namespace, v, pod) for v in volumes}
        address = self.new_address(*names)
        containers = {}
        for each in spec.get("initContainers", []) + spec["containers"]:
            mounts = {m["mountPath"]: folders[m["name"]]
                      for m in each.get("volumeMounts", [])}
            containers[each["name"]] = Container(self, each, mounts, address, pod)
        return containers

    def server(self, overlay, workload, pod, *names):
        """Starts the pod's server, after what comes before it."""
        containers = self.pod(overlay, workload, pod, *names)
        for name, container in containers.items():
            if name == "planb-server":
                break
            if name not in SKIPPED:
                container.run()
        server = containers["planb-server"]
        server.pod = containers
        server.run("--check_config")
        server.start()
        return server

    def end(self):
        for each in reversed(self.started):
            if each.process.poll() is None:
                each.process.kill()
                each.process.wait()


def workloads(overlay):
    return [d for d in overlay if "template" in d.get("spec", {})]


def has_server(workload):
    spec = workload["spec"]["template"]["spec"]
    return any(each["name"] == "planb-server"
               for each in spec.get("initContainers", []) + spec["containers"])


def alone(world, overlay):
    """Each server of an overlay that needs nothing else becomes ready."""
    for workload in filter(has_server, workloads(world.overlays[overlay])):
        server = world.server(overlay, workload, f"{overlay}-0")
        feed = server.pod.get("planb-feed")
        if feed:
            feed.rewrite()
            feed.start()
            feed.await_ready()
        server.await_ready()
        if feed:
            feed.stop()
        server.stop()
        print(f"{overlay}: {workload['kind']} {workload['metadata']['name']} is ready")


def send(count):
    """The peer: sends datagrams to ROUTED and wants each back once, one hop older."""
    expected, seen = [(63, number) for number in range(1, count + 1)], []
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire, \
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        wire.bind(("eth1", 0x0800))  # IPv4

        def receive(wanted, patience):
            wire.settimeout(patience)
            try:
                while len(seen) < wanted:
                    frame, origin = wire.recvfrom(2000)
                    if (origin[2] != socket.PACKET_OUTGOING
                            and frame[30:34] == socket.inet_aton(ROUTED)):
                        seen.append((frame[22], int.from_bytes(frame[42:46], "big")))
            except TimeoutError:
                pass

        def send_and_receive(numbers, patience):
            for number in numbers:
                sender.sendto(number.to_bytes(4, "big"), (ROUTED, 9))
            receive(len(seen) + len(numbers), patience)

        # The flow is new: until the forwarder has had an answer for it, a busy server is
        # one that is away, and the packet is dropped.
        end = time.monotonic() + PATIENCE
        while not seen and time.monotonic() < end:
            send_and_receive([0], 0.5)
        receive(count, 1)
        seen = [packet for packet in seen if packet[1]]
        for first in range(1, count + 1, 10):
            send_and_receive(range(first, first + 10), 10)
            if seen != expected[:len(seen)]:
                break
        receive(count + 1, 1)
    if seen != expected:
        raise SystemExit(f"FAIL: {count} sent; came back, as (TTL, number): {seen}")


def router(world, overlay):
    """The pod with FRR, and a peer that announces a route."""
    def ip(command):
        subprocess.run(["ip", *command.split()], check=True)

    def session(state):
        """Whether the feed's session with zebra is in this state."""
        page = f"http://{server.address}:9465/metrics"
        return f'state="{state}"}} 1' in subprocess.run(
            ["curl", "--silent", page], capture_output=True, text=True, check=True).stdout

    def await_(what, condition):
        end = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > end:
                raise SystemExit(f"FAIL: {overlay}: {what}: " + "".join(
                    each.log.read_text(errors="replace")[-1500:] for each in world.started))
            time.sleep(0.1)

    [workload] = filter(has_server, workloads(world.overlays[overlay]))
    server = world.server(overlay, workload, f"{overlay}-0")
    pod = server.pod
    forwarder = pod["forwarder"]
    forwards = (world.folder / "planb_router").exists()
    # The kubelet's are open to all users.
    subprocess.run(["chmod", "-R", "a+rwX", world.work], check=True)
    # Not the seconds after which a router of this size has told all.
    pod["planb-feed"].rewrite(("kind: fpm", "kind: fpm\n    options: {quiet: 1s}"))
    ip("link add eth0 type veth peer name eth1")
    ip("address add 192.0.2.2/24 dev eth0")
    ip("link set eth0 up")
    with subprocess.Popen(["unshare", "--net", "sleep", "infinity"]) as peer:
        try:
            inside_peer = ["nsenter", f"--net=/proc/{peer.pid}/ns/net"]
            await_("a network of the peer's", lambda: os.readlink(
                f"/proc/{peer.pid}/ns/net") != os.readlink("/proc/self/ns/net"))
            ip(f"link set eth1 netns {peer.pid}")
            for command in ("address add 192.0.2.1/24 dev eth1", "link set eth1 up",
                            f"route add {ROUTED} via 192.0.2.2"):
                subprocess.run([*inside_peer, "ip", *command.split()], check=True)
            config = world.work / "peer.conf"
            config.write_text("""router bgp 64501
 bgp router-id 192.0.2.1
 no bgp ebgp-requires-policy
 no bgp network import-check
 neighbor 192.0.2.2 remote-as 64500
 neighbor 192.0.2.2 timers connect 1
 address-family ipv4 unicast
  network 198.51.100.0/24
""")
            with subprocess.Popen(
                    [*inside_peer, "/usr/lib/frr/bgpd", "--skip_runas", "--no_kernel",
                     f"--config_file={config}", f"--pid_file={config}.pid", "--vty_port=0",
                     f"--vty_socket={world.work}", f"--socket={world.work}/none"]) as bgpd:
                try:
                    pod["planb-feed"].start()
                    pod["zebra"].start()
                    zserv = pathlib.Path(pod["zebra"].real("/var/run/frr/zserv.api"))
                    await_("zebra listens", zserv.exists)
                    pod["bgpd"].start()
                    pod["planb-feed"].await_ready()
                    server.await_ready()

                    def routed():
                        return subprocess.run(
                            [world.folder / "planbctl", "lookup", ROUTED],
                            check=False, env=server.environment(),
                            stdout=subprocess.DEVNULL).returncode == 0

                    def forwarded():
                        if forwards and subprocess.run(
                                [*inside_peer, sys.executable, __file__, "--send", "500"],
                                check=False).returncode:
                            forwarder.stop()
                            raise SystemExit(f"FAIL: {forwarder.name}: "
                                             + forwarder.log.read_text())

                    await_("the peer's route", routed)
                    if forwards:
                        forwarder.start()
                        forwarder.await_ready()
                    forwarded()
                    pod["zebra"].process.kill()
                    pod["zebra"].process.wait()
                    await_("zebra is lost", lambda: session("lost"))
                    forwarded()
                    pod["zebra"].start()
                    await_("zebra is back", lambda: session("following") or not routed())
                    if not routed():
                        raise SystemExit(f"FAIL: {overlay}: the route went with zebra")
                    forwarded()
                    if forwards:
                        forwarder.within_limit()
                        forwarder.stop()
                        if not forwarder.log.read_text().endswith("held 0\n"):
                            raise SystemExit(f"FAIL: {forwarder.log.read_text()}")
                finally:
                    bgpd.kill()
        finally:
            peer.kill()
    print(f"{overlay}: the pod is ready, and its route survives zebra;",
          "1500 packets forwarded, each once" if forwards
          else "without its forwarder: no planb_router")


def sound(world, overlay):
    """The arguments of servers that need others, which certificates_test.sh runs."""
    for workload in filter(has_server, workloads(world.overlays[overlay])):
        name = workload["metadata"]["name"]
        world.pod(overlay, workload, f"{overlay}-{name}")["planb-server"].run(
            "--check_config")
        print(f"{overlay}: the arguments of {workload['kind']} {name} are sound")


def inside(folder, rendered):
    """In a network and with an /etc/hosts of its own."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    # As on a node.
    pathlib.Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    with tempfile.TemporaryDirectory(prefix="planb_pods") as work:
        world = World(folder, rendered, pathlib.Path(work))
        hosts = pathlib.Path(work, "hosts")
        hosts.touch()
        subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)
        try:
            for overlay in sorted(set(world.overlays) - {"replicas", "followers"}):
                (router if overlay == "router" else alone)(world, overlay)
            for overlay in sorted(set(world.overlays) & {"replicas", "followers"}):
                sound(world, overlay)
        finally:
            world.end()
            subprocess.run(["umount", "/etc/hosts"], check=True)
    print("PASS: servers become ready with the arguments of", *world.overlays)


def main():
    if sys.argv[1:2] == ["--send"]:
        send(int(sys.argv[2]))
        return
    if len(sys.argv) == 4 and sys.argv[1] == "--inside":
        inside(*map(pathlib.Path, sys.argv[2:]))
        return
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    folder, rendered = (os.path.realpath(argument) for argument in sys.argv[1:])
    needs = subprocess.run([HERE.parent / "packages.sh", "curl", "ip:iproute2",
                            "unshare:util-linux", "setpriv:util-linux", "vtysh:frr"], check=False)
    if needs.returncode != 0:
        sys.exit(needs.returncode)
    apart = ["unshare", "--mount", "--net", "--"]
    if subprocess.run([*apart, "true"], check=False, stderr=subprocess.DEVNULL).returncode:
        print("SKIP: no network of its own can be made here, which needs root")
        sys.exit(77)
    os.execvp(apart[0], [*apart, sys.executable, __file__, "--inside", folder, rendered])


if __name__ == "__main__":
    main()

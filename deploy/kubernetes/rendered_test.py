#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0

"""The containers of the rendered overlays, run as processes: no cluster.

    deploy/kubernetes/rendered_test.py FOLDER RENDERED

FOLDER has planb_server and planbctl, RENDERED is validate.sh's, with OVERLAY.yaml, or
has the chart. Each container gets the arguments that its pod has, its mounts as folders
with the Secrets and ConfigMaps of the overlay in them, and an address of 127.0.0.0/8 for
[::].

Each server's arguments pass --check_config, and each becomes ready, by its readiness
probe; but those of `replicas` and `followers` need each other and etcd:
certificates_test.sh runs them.

Needs root, for a network and an /etc/hosts of its own.
"""

import base64
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import yaml

PATIENCE = 120
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
                    "/usr/bin/planbctl": self._world.folder / "planbctl"}
        return [str(programs[program[0]]), *program[1:], *more,
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
        ports = {each["name"]: each["containerPort"] for each in self.spec["ports"]}
        if "grpc" in probe:
            command = [self._world.folder / "planbctl", "health",
                       f"--server={self.address}:{probe['grpc']['port']}"]
        else:
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
        server.await_ready()
        server.stop()
        print(f"{overlay}: {workload['kind']} {workload['metadata']['name']} is ready")


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
    with tempfile.TemporaryDirectory(prefix="planb_pods") as work:
        world = World(folder, rendered, pathlib.Path(work))
        hosts = pathlib.Path(work, "hosts")
        hosts.touch()
        subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)
        try:
            for overlay in sorted(set(world.overlays) - {"replicas", "followers"}):
                alone(world, overlay)
            for overlay in sorted(set(world.overlays) & {"replicas", "followers"}):
                sound(world, overlay)
        finally:
            world.end()
            subprocess.run(["umount", "/etc/hosts"], check=True)
    print("PASS: servers become ready with the arguments of", *world.overlays)


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--inside":
        inside(*map(pathlib.Path, sys.argv[2:]))
        return
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    folder, rendered = (os.path.realpath(argument) for argument in sys.argv[1:])
    needs = subprocess.run([HERE.parent / "packages.sh", "curl", "ip:iproute2",
                            "unshare:util-linux"], check=False)
    if needs.returncode != 0:
        sys.exit(needs.returncode)
    apart = ["unshare", "--mount", "--net", "--"]
    if subprocess.run([*apart, "true"], check=False, stderr=subprocess.DEVNULL).returncode:
        print("SKIP: no network of its own can be made here, which needs root")
        sys.exit(77)
    os.execvp(apart[0], [*apart, sys.executable, __file__, "--inside", folder, rendered])


if __name__ == "__main__":
    main()

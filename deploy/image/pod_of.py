#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0

"""Turns the sidecar's Deployment into a pod that podman 4.3 can play.

pod_of.py FOLDER < RENDERED.yaml > pod.yaml

The pod runs the very containers of the manifest: images, commands, arguments,
mounts and security settings. Changed is only what this podman cannot do:
- a native sidecar (an init container with restartPolicy Always, which it would
  run over and over) becomes an ordinary container; nothing orders the two, so
  a function that starts too early is restarted;
- probes go: it knows no gRPC probe;
- port declarations go: it would publish them, and this pod has no network;
- an emptyDir becomes a folder in FOLDER, open to all users as the kubelet makes
  it: this podman would give it to the first container's user alone;
- images are those loaded beforehand: there is no registry.
"""

import os
import sys

import yaml

PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def main(folder):
    documents = yaml.safe_load_all(sys.stdin)
    (deployment,) = [d for d in documents if d["kind"] == "Deployment"]
    template = deployment["spec"]["template"]
    spec = template["spec"]
    sidecars = [
        container
        for container in spec["initContainers"]
        if container.pop("restartPolicy", None) == "Always"
    ]
    if [sidecar["name"] for sidecar in sidecars] != ["planb-server"]:
        raise SystemExit("planb-server is not the only native sidecar")
    for sidecar in sidecars:
        spec["initContainers"].remove(sidecar)
        for probe in PROBES:
            if "grpc" not in sidecar.pop(probe):
                raise SystemExit(f"{sidecar['name']}: {probe} is not gRPC")
    spec["containers"] = sidecars + spec["containers"]
    for container in spec["initContainers"] + spec["containers"]:
        container["imagePullPolicy"] = "Never"
        container.pop("ports", None)
    for volume in spec["volumes"]:
        if volume.pop("emptyDir", None) is None:
            raise SystemExit(f"{volume['name']} is no emptyDir")
        path = os.path.join(folder, volume["name"])
        os.mkdir(path)
        os.chmod(path, 0o777)
        volume["hostPath"] = {"path": path, "type": "Directory"}
    # The function may come before the server's socket does, and ends then.
    spec["restartPolicy"] = "OnFailure"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "pod", **template["metadata"]},
        "spec": spec,
    }
    yaml.safe_dump(pod, sys.stdout)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])

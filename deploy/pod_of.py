#!/usr/bin/python3
"""Turns the sidecar's Deployment into a pod that podman 4.3 can play.

pod_of.py < RENDERED.yaml > pod.yaml

The pod runs the very containers of the manifest: images, commands, arguments,
mounts and security settings. Changed is only what this podman cannot do:
- a native sidecar (an init container with restartPolicy Always, which it would
  run over and over) becomes an ordinary container; nothing orders the two, so
  a function that starts too early is restarted;
- probes go: it knows no gRPC probe;
- port declarations go: it would publish them, and this pod has no network;
- images are those loaded beforehand: there is no registry.
"""

import sys

import yaml

PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def main():
    documents = yaml.safe_load_all(sys.stdin)
    (deployment,) = [d for d in documents if d["kind"] == "Deployment"]
    template = deployment["spec"]["template"]
    spec = template["spec"]
    sidecars = spec.pop("initContainers")
    for sidecar in sidecars:
        if sidecar.pop("restartPolicy", None) != "Always":
            raise SystemExit(f"{sidecar['name']} is no native sidecar")
        for probe in PROBES:
            if "grpc" not in sidecar.pop(probe):
                raise SystemExit(f"{sidecar['name']}: {probe} is not gRPC")
    spec["containers"] = sidecars + spec["containers"]
    for container in spec["containers"]:
        container["imagePullPolicy"] = "Never"
        container.pop("ports", None)
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
    main()

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0

"""What manifests must be besides valid: checks what schemas cannot.

manifest_rules.py RENDERED.yaml...

Each file is one overlay. Prints one line for each breach and ends with 1 if
there is any. Exempt by name is `own-folder` alone, which must be root.
"""

import pathlib
import re
import sys

import yaml

import sizing

VERSION = (pathlib.Path(__file__).resolve().parents[2] / "VERSION").read_text().strip()

# What a server needs to end after its drain: threads, the store, the kubelet.
GRACE = 5
# Until no Service leads to a pod that ends. SIGTERM goes out at the same moment as the
# news of its end.
UNROUTED = 5
_FRR = {"NET_ADMIN", "NET_RAW", "SYS_ADMIN", "SETGID", "SETUID"}
CAPABILITIES = {"zebra": _FRR, "bgpd": _FRR | {"NET_BIND_SERVICE"},
                "forwarder": {"NET_ADMIN", "NET_RAW"}}
PRIVILEGED = "no-kernel-forwarding"
ROOT_ALLOWED = ("own-folder", PRIVILEGED, *CAPABILITIES)
UNITS = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


def to_bytes(quantity):
    number, unit = re.fullmatch(r"(\d+)(\D*)", str(quantity)).groups()
    return int(number) * UNITS[unit]


def flag(container, name):
    """The value of the last --name=value, or None."""
    values = [
        argument.partition("=")[2]
        for argument in container.get("args", [])
        if argument.partition("=")[0] == "--" + name
    ]
    return values[-1] if values else None


def pause(container):
    """Seconds between the end of its pod and its SIGTERM."""
    hook = container.get("lifecycle", {}).get("preStop", {})
    return hook.get("sleep", {}).get("seconds", 0)


def pod_breaches(kind, pod):
    containers = pod.get("initContainers", []) + pod["containers"]
    if pod.get("automountServiceAccountToken") is not False:
        yield "a service account token is mounted"
    security = pod.get("securityContext", {})
    if security.get("runAsNonRoot") is not True:
        yield "the pod may run as root"
    if security.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        yield "no seccomp profile"
    for container in containers:
        for breach in container_breaches(container):
            yield f"{container['name']}: {breach}"
        # A sidecar's callers are in its pod, and end before it. What a rollout replaces
        # one by one has to serve until callers are led elsewhere.
        routed = (kind == "Deployment" and container["name"] == "planb-server"
                  and container in pod["containers"])
        if routed and pause(container) < UNROUTED:
            yield "planb-server: drains while Services still lead to it"
        if not routed and "preStop" in container.get("lifecycle", {}):
            yield f"{container['name']}: a preStop hook runs while callers still look up"
    servers = [c for c in containers if c["name"] == "planb-server"]
    for server in servers:
        for breach in server_breaches(server):
            yield f"planb-server: {breach}"
        drain = int(re.fullmatch(r"(\d+)s", flag(server, "drain_timeout"))[1])
        if pod.get("terminationGracePeriodSeconds", 30) < pause(server) + drain + GRACE:
            yield "killed before it can have drained"


def container_breaches(container):
    security = container.get("securityContext", {})
    if security.get("readOnlyRootFilesystem") is not True:
        yield "can write its root file system"
    if container["name"] != PRIVILEGED:
        if security.get("privileged"):
            yield "is privileged"
        if security.get("allowPrivilegeEscalation") is not False:
            yield "may gain privileges"
        capabilities = security.get("capabilities", {})
        added = set(capabilities.get("add", []))
        if (capabilities.get("drop") != ["ALL"]
                or added - CAPABILITIES.get(container["name"], set())):
            yield "has capabilities"
    root = (
        security.get("runAsUser", 65532) == 0
        or security.get("runAsNonRoot") is False
    )
    if root and container["name"] not in ROOT_ALLOWED:
        yield "runs as root"
    resources = container.get("resources", {})
    for kind in ("requests", "limits"):
        if "memory" not in resources.get(kind, {}):
            yield f"no memory in {kind}"
    if "cpu" in resources.get("limits", {}):
        yield "a CPU limit throttles"
    if not re.search(r":(?!latest$)[^/]+$", container["image"]):
        yield "an image without a fixed tag"
    name, _, tag = container["image"].rpartition("/")[2].partition(":")
    if name in ("planb-lookup", "planb-router") and tag != VERSION:
        yield f"{name} {tag} in the manifests of version {VERSION}"


def server_breaches(server):
    port = int(flag(server, "health_address").rpartition(":")[2])
    for probe, service in (
        ("startupProbe", "startup"),
        ("readinessProbe", None),
        ("livenessProbe", "startup"),
    ):
        grpc = server.get(probe, {}).get("grpc", {})
        if grpc.get("port") != port or grpc.get("service") != service:
            yield f"{probe} does not ask the health port for {service}"
    for address in flag(server, "listen").split(","):
        secure = flag(server, "tls_cert") and flag(server, "tls_key")
        if not address.startswith("unix:") and not secure:
            yield f"plain text on {address}"
    # Sized by --max_routes and --memory_quota_bytes, so that they must be there.
    quota = sizing.size_of_flag(flag(server, "memory_quota_bytes"))
    wanted = sizing.request_bytes(int(flag(server, "max_routes")), quota)
    if to_bytes(server["resources"]["requests"]["memory"]) < wanted:
        yield f"requests less memory than {wanted} bytes"
    wanted = sizing.limit_bytes(
        sizing.size_of_flag(flag(server, "max_table_memory_bytes")), quota
    )
    if to_bytes(server["resources"]["limits"]["memory"]) < wanted:
        yield f"memory limit below {wanted} bytes, which it may come to"


def selector_breaches(document, pods):
    """Whether what selects pods by labels finds any."""
    spec = document["spec"]
    selector = {
        "Service": lambda: spec["selector"],
        "PodDisruptionBudget": lambda: spec["selector"]["matchLabels"],
        "NetworkPolicy": lambda: spec["podSelector"]["matchLabels"],
    }[document["kind"]]()
    labels = [pod["metadata"]["labels"] for pod in pods]
    if not any(selector.items() <= known.items() for known in labels):
        yield "selects no pod"


def mount_breaches(workload, documents):
    """Whether what its pods mount comes with them: else they would wait for it."""
    there = {(d["kind"], d["metadata"]["namespace"], d["metadata"]["name"])
             for d in documents if d["kind"] in ("Secret", "ConfigMap")}
    for volume in workload["spec"]["template"]["spec"].get("volumes", []):
        for kind, name in (
            ("Secret", volume.get("secret", {}).get("secretName")),
            ("ConfigMap", volume.get("configMap", {}).get("name")),
        ):
            if name and (kind, workload["metadata"]["namespace"], name) not in there:
                yield f"mounts the {kind} {name}, which is not there"


def breaches(path):
    with open(path, encoding="utf-8") as file:
        documents = list(yaml.safe_load_all(file))
    workloads = [d for d in documents if "template" in d.get("spec", {})]
    pods = [workload["spec"]["template"] for workload in workloads]
    servers = 0
    for document in documents:
        found = []
        if document in workloads:
            pod = document["spec"]["template"]["spec"]
            found = [*pod_breaches(document["kind"], pod), *mount_breaches(document, documents)]
            names = pod.get("initContainers", []) + pod["containers"]
            servers += any(c["name"] == "planb-server" for c in names)
        elif document["kind"] in (
            "Service",
            "PodDisruptionBudget",
            "NetworkPolicy",
        ):
            found = selector_breaches(document, pods)
        for breach in found:
            yield f"{document['kind']} {document['metadata']['name']}: {breach}"
    if servers == 0:
        yield "no workload with the server"


def main(paths):
    found = [f"{p}: {breach}" for p in paths for breach in breaches(p)]
    print("\n".join(found) or f"{len(paths)} overlays keep the rules")
    return 1 if found else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    sys.exit(main(sys.argv[1:]))

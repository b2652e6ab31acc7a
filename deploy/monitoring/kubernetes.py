#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0

"""Prints rules, and what to scrape, as resources of the Prometheus operator.

    deploy/monitoring/kubernetes.py | kubectl apply -f -

A PrometheusRule with the groups of rules.yaml and a PodMonitor for the
containers that deploy/kubernetes/base adds to a pod, in any namespace, and for
those of planb-feed.
"""

import pathlib
import sys

import yaml

_HERE = pathlib.Path(__file__).parent
_HEADER = "# Made by kubernetes.py of rules.yaml.\n"


def rule_resource() -> dict:
    with open(_HERE / "rules.yaml", encoding="utf-8") as file:
        rules = yaml.safe_load(file)
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "planb-lookup"},
        "spec": rules,
    }


def endpoint(port: str, container: str, job: str) -> dict:
    """`job` is what the rules and the dashboard ask for."""
    return {
        "port": port,
        "relabelings": [
            {"action": "keep", "regex": container,
             "sourceLabels": ["__meta_kubernetes_pod_container_name"]},
            {"targetLabel": "job", "replacement": job},
        ],
    }


def monitor_resource() -> dict:
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": {"name": "planb-lookup"},
        "spec": {
            "namespaceSelector": {"any": True},
            # As a sidecar it is in pods of any name: the container tells.
            "selector": {},
            "podMetricsEndpoints": [
                endpoint("metrics", "planb-server", "planb"),
                endpoint("feed", "planb-feed", "planb-feed"),
            ],
        },
    }


def text() -> str:
    return _HEADER + yaml.safe_dump_all(
        [monitor_resource(), rule_resource()], sort_keys=False, width=80
    )


if __name__ == "__main__":
    sys.stdout.write(text())

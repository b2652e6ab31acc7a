#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Judges one ghz run: every call OK, every logged answer the announced one.

check.py REPORT                        (statuses only)
check.py REPORT CONFIG ROUTES LOG      (answers too)

REPORT is ghz's JSON report, CONFIG the configuration that ran, ROUTES the
UpdateRoutes configuration that ran before it, LOG ghz's debug log. ghz logs no
more than the first 100 replies of a second: a run whose answers are to be
judged must be slower, for a missing reply is an error here. Every address that
CONFIG looks up must have a host route in ROUTES: such a route is longer
than any other. Exit code 0 if all is right, 1 with the reasons if not.
"""

import base64
import ipaddress
import json
import re
import sys


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def host_routes(config):
    """The announced host routes, as {address: next hop}."""
    routes = {}
    for update in config["data"]["updates"]:
        network = ipaddress.ip_network(update["prefix"]["text"])
        if network.num_addresses != 1:
            raise SystemExit(f"{network} is no host route")
        routes[network.network_address] = update["next_hop_id"]
    return routes


def split_packed(text, size):
    data = base64.b64decode(text)
    return [
        ipaddress.ip_address(data[i : i + size])
        for i in range(0, len(data), size)
    ]


def log_lines(path, message):
    """The `response` fields of the log's lines of one kind."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            entry = json.loads(line)
            if entry.get("message") == message and entry.get("response"):
                yield entry["workerID"], entry["response"]


def unescape(text):
    """The bytes of a quoted string in protobuf's text form."""
    # ghz escapes bytes in octal: each becomes a character U+00..U+FF.
    return text.encode("utf-8").decode("unicode_escape").encode("latin-1")


def check_unary(config, routes, log, total):
    """Yields errors in the logged replies of `total` calls of Lookup."""
    addresses = [
        ipaddress.ip_address(a["text"])
        if "text" in a
        else ipaddress.ip_address(base64.b64decode(a["packed"]))
        for a in config["data"]["addresses"]
    ]
    expected = [(routes[a], a.packed, a.max_prefixlen) for a in addresses]
    replies = 0
    for _, text in log_lines(log, "Received response"):
        replies += 1
        got = [
            (
                result.get("next_hop_id", 0),
                base64.b64decode(result["prefix"]["address"]),
                result["prefix"]["length"],
            )
            for result in json.loads(text).get("results", [])
        ]
        if got != expected:
            yield f"reply {replies}: {got}, not {expected}"
    if replies != total:
        yield f"{replies} replies to {total} calls"


def check_stream(config, routes, log, total):
    """Yields errors in the logged replies of `total` BatchLookup streams."""
    requests = []
    for message in config["data"]:
        addresses = split_packed(message.get("addresses_v6", ""), 16)
        addresses += split_packed(message.get("addresses_v4", ""), 4)
        hops = b"".join(routes[a].to_bytes(4, "little") for a in addresses)
        requests.append((message["request_id"], hops))
    count = config["stream-call-count"]
    expected = [requests[i % len(requests)] for i in range(count)]
    replies = {}
    # A worker runs its streams one after the other.
    for worker, text in log_lines(log, "Receive message"):
        number = replies.get(worker, 0)
        replies[worker] = number + 1
        request_id = re.search(r"\brequest_id: *(\d+)", text)
        hops = re.search(r'\bnext_hops: *"((?:[^"\\]|\\.)*)"', text)
        got = (
            int(request_id[1]) if request_id else 0,
            unescape(hops[1]) if hops else b"",
        )
        if got != expected[number % count] or re.search(r"\berror:", text):
            yield f"{worker}, reply {number}: {text}"
    if sum(replies.values()) != total * count:
        yield f"{sum(replies.values())} replies to {total}x{count} batches"


def main(report_path, config_path=None, routes_path=None, log_path=None):
    report = load(report_path)
    call, total = report["options"]["call"], report["options"]["total"]
    errors = []
    if report["count"] != total:
        errors.append(f"{report['count']} of {total} calls were made")
    if report["statusCodeDistribution"] != {"OK": total}:
        errors.append(f"statuses {report['statusCodeDistribution']}")
    errors += report["errorDistribution"]
    judged = "statuses"
    if not errors and config_path:
        judged = "statuses and answers"
        config, routes = load(config_path), host_routes(load(routes_path))
        check = check_stream if "stream-call-count" in config else check_unary
        errors += check(config, routes, log_path, total)
    for error in errors[:5]:
        print(f"  {error}")
    if errors:
        print(f"WRONG {call}: {len(errors)} errors")
        return 1
    latency = {
        entry["percentage"]: entry["latency"] / 1e3
        for entry in report["latencyDistribution"] or []
    }
    unit = "stream" if call.endswith(".BatchLookup") else "call"
    print(
        f"right {call}: {judged} of {total} {unit}s; "
        f"a {unit} took {latency.get(50, 0):.0f} us (p50), "
        f"{latency.get(99, 0):.0f} us (p99)"
    )
    return 0


if __name__ == "__main__":
    if len(sys.argv) not in (2, 5):
        raise SystemExit(__doc__)
    sys.exit(main(*sys.argv[1:]))

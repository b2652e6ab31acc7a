#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Sends NetFlow v9 as a router would, of flows between addresses of a table.

    netflow.py [--flows=N] [--rate=N] [--source=ADDRESS] TABLE HOST:PORT

TABLE has a prefix at the beginning of each line. --rate is in flows a second; 0: as
fast as possible. --source is the address that the router has.
"""

import argparse
import ipaddress
import random
import socket
import struct
import time

FLOWS = 20                                     # in a packet of 1,232 bytes at most
# Types and sizes of the fields: bytes, packets, protocol, ports, interfaces.
FIELDS = [(1, 4), (2, 4), (4, 1), (7, 2), (11, 2), (10, 4), (14, 4)]
TEMPLATES = {4: (256, [(8, 4), (12, 4)]), 6: (257, [(27, 16), (28, 16)])}


def flow_set(number, data):
    data += bytes(-len(data) % 4)
    return struct.pack("!HH", number, 4 + len(data)) + data


def template(version):
    number, addresses = TEMPLATES[version]
    fields = addresses + FIELDS
    return struct.pack("!HH", number, len(fields)) + b"".join(
        struct.pack("!HH", *field) for field in fields)


def packet(addresses, count):
    """The flow set of a packet: flows of one family."""
    return flow_set(TEMPLATES[addresses[0].version][0], b"".join(
        random.choice(addresses).packed + random.choice(addresses).packed
        + struct.pack("!IIBHHII", 1500, 1, 6, 443, 50000, 10, 20)
        for _ in range(count)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--flows", type=int, default=10000)
    parser.add_argument("--rate", type=int, default=0)
    parser.add_argument("--source", default="127.0.0.1")
    parser.add_argument("table")
    parser.add_argument("collector")
    options = parser.parse_args()
    random.seed(1)
    with open(options.table, encoding="utf-8") as table:
        prefixes = [line.split()[0] for line in table if line[0] not in "#\n"]
    families = {4: [], 6: []}
    for prefix in prefixes:
        address = ipaddress.ip_network(prefix).network_address
        families[address.version].append(address)
    families = [addresses for addresses in families.values() if addresses]
    # Some packets, again and again: making them takes longer than sending.
    packets = [packet(random.choice(families), FLOWS) for _ in range(500)]
    templates = flow_set(0, template(4) + template(6))
    host, _, port = options.collector.rpartition(":")
    collector = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    collector.bind((options.source, 0))
    collector.connect((host, int(port)))
    begin = time.monotonic()
    for number in range(-(-options.flows // FLOWS)):
        sets, records = packets[number % len(packets)], FLOWS
        if number % 20 == 0:                   # as routers repeat them
            sets, records = templates + sets, FLOWS + len(TEMPLATES)
        collector.send(struct.pack(
            "!HHIIII", 9, records, 1000, int(time.time()), number, 0) + sets)
        if options.rate:
            due = begin + number * FLOWS / options.rate
            time.sleep(max(0.0, due - time.monotonic()))
    print(f"{options.flows} flows in {time.monotonic() - begin:.1f} s")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What run.sh asks of its hosts, and the world that its BGP tells.

    run_probe.py ask SOURCE ADDRESS SECONDS LONGEST
        pings every 10 ms; fails if an answer came twice, or none for LONGEST seconds
    run_probe.py visit TABLE COUNT
        pings so many addresses that routes of the table have, and as many at random; fails if
        one with a route does not answer, once, or one without does
    run_probe.py world TABLE GATEWAY FILE
        writes the table as a dump of a router (MRT, RFC 6396)
    run_probe.py offloads INTERFACE
        turns off what frames of veth come merged by
"""

import array
import fcntl
import ipaddress
import os
import random
import socket
import struct
import sys
import time

SIOCETHTOOL = 0x8946
OFFLOADS = {"tx checksums": 0x17, "TSO": 0x1F, "GSO": 0x24, "GRO": 0x2C}
ECHO, REPLY = 128, 129
ICMP6_FILTER = 1
OWN = ipaddress.ip_network("2001:db8::/32")  # of run.sh


class Pings(socket.socket):
    """Echo requests of ICMPv6, each with a number."""

    def __init__(self):
        super().__init__(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
        blocked = bytearray(b"\xff" * 32)
        struct.pack_into("=I", blocked, REPLY // 32 * 4, 0xFFFFFFFF ^ 1 << REPLY % 32)
        self.setsockopt(socket.IPPROTO_ICMPV6, ICMP6_FILTER, bytes(blocked))
        self.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)

    def ask(self, address, number):
        # The kernel fills in the checksum.
        self.sendto(struct.pack("!BBHHHI", ECHO, 0, 0, os.getpid() & 0xFFFF,
                                number & 0xFFFF, number), (address, 0))

    def answers(self, until):
        """The address and the number of each answer until then."""
        while (left := until - time.monotonic()) > 0:
            self.settimeout(left)
            try:
                data, peer = self.recvfrom(2000)
            except TimeoutError:
                return
            _, _, _, process, _, number = struct.unpack("!BBHHHI", data[:12])
            if process == os.getpid() & 0xFFFF:
                yield peer[0], number


def ask(source, address, seconds, longest):
    answers, sent, gap, last, others = {}, 0, 0.0, time.monotonic(), 0
    with Pings() as pings:
        pings.bind((source, 0))
        end = last + float(seconds)
        while time.monotonic() < end:
            pings.ask(address, sent)
            sent += 1
            for peer, number in pings.answers(time.monotonic() + 0.01):
                others += peer != address
                answers[number] = answers.get(number, 0) + 1
                gap, last = max(gap, time.monotonic() - last), time.monotonic()
    gap = max(gap, time.monotonic() - last)
    twice = sum(count > 1 for count in answers.values())
    print(f"{sent} pings, {len(answers)} answered, {twice} twice, {others} by others, "
          f"longest silence {gap * 1000:.0f} ms")
    return int(twice > 0 or others > 0 or not answers or gap > float(longest))


def routes(table):
    with open(table, encoding="ascii") as lines:
        for line in lines:
            prefix, number = line.split()
            address, bits = prefix.split("/")
            packed = socket.inet_pton(socket.AF_INET6, address)
            yield int.from_bytes(packed, "big"), int(bits), number


def visit(table, count):
    choose = random.Random(1)
    prefixes = [(address, bits) for address, bits, _ in routes(table)]
    known = {}
    for address, bits in prefixes:
        known.setdefault(bits, set()).add(address >> (128 - bits))

    def has_route(address):
        return any(address >> (128 - bits) in known[bits] for bits in known)

    places = {}
    while len(places) < 2 * int(count):
        address, bits = choose.choice(prefixes) if len(places) < int(count) else (1 << 125, 3)
        address |= choose.getrandbits(128) & ((1 << (128 - bits)) - 1)
        if ipaddress.IPv6Address(address) not in OWN:
            places[str(ipaddress.IPv6Address(address))] = has_route(address)
    sent, answers, others = [], {}, 0
    with Pings() as pings:

        def read(seconds):
            nonlocal others
            for peer, number in pings.answers(time.monotonic() + seconds):
                answers.setdefault(peer, []).append(number)
                others += sent[number] != peer

        # Again, if a busy machine had no time for one.
        for first in (True, False, False):
            for place, routed in places.items():
                if place not in answers and (routed or first):
                    pings.ask(place, len(sent))
                    sent.append(place)
                    read(0.0005)
            read(1)
    with_route = [place for place, routed in places.items() if routed]
    answered = sum(place in answers for place in with_route)
    wrong = others + sum(not places.get(place, False) for place in answers)
    twice = sum(len(set(numbers)) < len(numbers) for numbers in answers.values())
    print(f"{len(with_route)} addresses with a route, {answered} answered, {twice} twice; "
          f"{len(places) - len(with_route)} without, {wrong} answered")
    return int(answered < len(with_route) or wrong > 0 or twice > 0)


def world(table, gateway, file):
    # A path by the number of a route, as of neighbours of one AS.
    gateway = socket.inet_pton(socket.AF_INET6, gateway)
    with open(file, "wb") as dump:

        def record(kind, body):
            dump.write(struct.pack("!IHHI", 0, 13, kind, len(body)) + body)

        record(1, struct.pack("!IHHBI16sI", 1, 0, 1, 3, 1, gateway, 65003))
        for count, (address, bits, number) in enumerate(routes(table)):
            attributes = (
                struct.pack("!4B", 0x40, 1, 1, 0)  # the origin
                + struct.pack("!5BI", 0x40, 2, 6, 2, 1, 4200000000 + int(number))
                + struct.pack("!4B16s", 0x80, 14, 17, 16, gateway))
            record(4, struct.pack("!IB", count, bits)
                   + address.to_bytes(16, "big")[:(bits + 7) // 8]
                   + struct.pack("!HHIH", 1, 0, 0, len(attributes)) + attributes)


def offloads(interface):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for command in OFFLOADS.values():
            value = array.array("I", [command, 0])
            request = struct.pack("16sP", interface.encode(), value.buffer_info()[0])
            fcntl.ioctl(sock, SIOCETHTOOL, request)
    return 0


def main():
    what, *arguments = sys.argv[1:]
    return {"ask": ask, "visit": visit, "world": world,
            "offloads": offloads}[what](*arguments)


if __name__ == "__main__":
    sys.exit(main())

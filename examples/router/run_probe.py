#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the hosts of run.sh do.

    run_probe.py echo ADDRESS                     answers datagrams
    run_probe.py ask ADDRESS SECONDS LONGEST      asks every 10 ms; fails if an answer came
                                                  twice, or none for LONGEST seconds
    run_probe.py offloads INTERFACE               turns off what frames of veth come merged by
"""

import array
import fcntl
import socket
import struct
import sys
import time

PORT = 7777
SIOCETHTOOL = 0x8946
OFFLOADS = {"tx checksums": 0x17, "TSO": 0x1F, "GSO": 0x24, "GRO": 0x2C}


def echo(address):
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
        sock.bind((address, PORT))
        while True:
            data, peer = sock.recvfrom(2000)
            sock.sendto(data, peer)


def ask(address, seconds, longest):
    answers, sent, gap, last = {}, 0, 0.0, time.monotonic()
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
        end = last + seconds
        while time.monotonic() < end:
            sock.sendto(struct.pack("!I", sent), (address, PORT))
            sent += 1
            turn = time.monotonic() + 0.01
            while (left := turn - time.monotonic()) > 0:
                sock.settimeout(left)
                try:
                    number, = struct.unpack("!I", sock.recv(2000))
                except TimeoutError:
                    break
                answers[number] = answers.get(number, 0) + 1
                gap, last = max(gap, time.monotonic() - last), time.monotonic()
    gap = max(gap, time.monotonic() - last)
    twice = sum(count > 1 for count in answers.values())
    print(f"{sent} asked, {len(answers)} answered, {twice} twice, "
          f"longest silence {gap * 1000:.0f} ms")
    return int(twice > 0 or not answers or gap > longest)


def offloads(interface):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for command in OFFLOADS.values():
            value = array.array("I", [command, 0])
            request = struct.pack("16sP", interface.encode(), value.buffer_info()[0])
            fcntl.ioctl(sock, SIOCETHTOOL, request)
    return 0


def main():
    what, name, *numbers = sys.argv[1:]
    return {"echo": echo, "ask": ask, "offloads": offloads}[what](
        name, *map(float, numbers))


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Writes the hand-made inputs of the fuzz corpus into the directory given.

Each shows one thing that the readers know or refuse. libFuzzer (third_party/fuzz.sh) found
the other inputs of corpus.txt.
"""

import bz2
import ctypes
import gzip
import pathlib
import struct
import sys

V6 = bytes.fromhex("20010db8000000000000000000000001")
LINK_LOCAL = bytes.fromhex("fe800000000000000000000000000001")


def mrt(kind, subtype, body):
    return struct.pack(">IHHI", 1785420000, kind, subtype, len(body)) + body


def peers():
    table = struct.pack(">IH", 1, 4) + b"view" + struct.pack(">H", 3)
    table += struct.pack(">BI4sH", 0, 2, bytes([192, 0, 2, 1]), 64500)
    table += struct.pack(">BI4sI", 2, 3, bytes([192, 0, 2, 2]), 4200000000)
    table += struct.pack(">BI16sI", 3, 4, V6, 64501)
    return mrt(13, 1, table)


def attribute(kind, value, flags=0x40):
    if flags & 0x10:
        return struct.pack(">BBH", flags, kind, len(value)) + value
    return struct.pack(">BBB", flags, kind, len(value)) + value


def rib(subtype, length, prefix, entries):
    body = struct.pack(">IB", 1, length) + prefix
    body += struct.pack(">H", len(entries))
    for peer, path_id, attributes in entries:
        body += struct.pack(">HI", peer, 1785000000)
        if path_id is not None:
            body += struct.pack(">I", path_id)
        body += struct.pack(">H", len(attributes)) + attributes
    return mrt(13, subtype, body)


def xxh3(data, seed):
    """XXH3-64, from Debian's libxxhash0."""
    function = ctypes.CDLL("libxxhash.so.0").XXH3_64bits_withSeed
    function.restype = ctypes.c_uint64
    function.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
    return struct.pack("<Q", function(data, len(data), seed))


def table_file(blocks, counts, version=1):
    """A table file, as ../TABLE_FILE.md has it."""
    data = b"\x89PLB\r\n\x1a\n" + struct.pack("<I", version)
    for ordinal, (kind, payload) in enumerate(blocks + [(6, None)]):
        if payload is None:
            payload = struct.pack("<4Q", *counts) + xxh3(data, 0)
        block = struct.pack("<II", kind, len(payload)) + payload
        data += block + xxh3(block, ordinal)
    return data


def short(value):
    return struct.pack("<H", len(value)) + value


def table_files():
    header = (1, struct.pack("<Q", 42) + bytes(range(16)) + short(b"red"))
    hop = struct.pack("<IIB", 7, 3, 16) + V6 + short(b"eth0") + short(b"up")
    hop4 = struct.pack("<IIB4s", 9, 1, 4, V6[:4]) + short(b"") + short(b"")
    group = struct.pack("<IHIIII", 8, 2, 7, 2, 9, 1) + short(b"both")
    route4 = struct.pack("<IB", 9, 25) + bytes([192, 0, 2, 128])
    route6 = struct.pack("<IB", 8, 47) + V6[:4] + b"\0\2"
    default6 = struct.pack("<IB", 5, 0)
    yield "table_empty.plb", table_file([header], (0, 0, 0, 0))
    full = [header, (2, hop), (3, group), (4, route4), (5, route6)]
    yield "table.plb", table_file(full, (1, 1, 1, 1))
    split = [header, (2, hop), (2, hop4), (5, default6 + route6)]
    yield "table_split.plb", table_file(split, (2, 0, 0, 2))
    as64496 = (2, hop + short(b"\x08\xf0\xf7\x03"))
    yield "table_attributes.plb", table_file([header, as64496] + full[2:],
                                             (1, 1, 1, 1), version=2)
    yield "table_newer.plb", table_file([header], (0, 0, 0, 0), version=3)
    yield "table_order.plb", table_file(full[:1] + full[:0:-1], (1, 1, 1, 1))
    both = [header, (2, hop4), (3, struct.pack("<IH", 9, 0) + short(b""))]
    yield "table_clash.plb", table_file(both, (1, 1, 0, 0))


def bgp(kind, body):
    return b"\xff" * 16 + struct.pack(">HB", 19 + len(body), kind) + body


def update(withdrawn, attributes, nlri):
    body = struct.pack(">H", len(withdrawn)) + withdrawn
    return bgp(2, body + struct.pack(">H", len(attributes)) + attributes + nlri)


def bgp4mp(subtype, message, micros=None, narrow=False, v4=False):
    body = b"" if micros is None else struct.pack(">I", micros)
    body += struct.pack(">HH" if narrow else ">II", 64500, 64999)
    address = bytes([192, 0, 2, 1]) if v4 else V6
    body += struct.pack(">HH", 0, 1 if v4 else 2) + address + address
    return mrt(16 if micros is None else 17, subtype, body + message)


def update_files():
    hop4 = attribute(1, b"\0") + attribute(3, bytes([192, 0, 2, 9]))
    reach = attribute(14, b"\0\2\1\x20" + V6 + LINK_LOCAL + b"\0\x20" + V6[:4])
    unreach = attribute(15, b"\0\2\1\x30" + V6[:6], 0x90)
    vpn = attribute(14, b"\0\1\x80whatever", 0x90)
    v4 = update(b"\x08\x0a", hop4, b"\x18\xc0\x00\x02\0")
    v6 = update(b"", unreach + hop4 + reach, b"")
    paths = update(b"\0\0\0\1\x08\x0a", hop4, b"\0\0\0\2\x08\x0a")
    bad = update(b"\x21", b"", b"") + b"x"
    states = struct.pack(">HH", 5, 6)
    yield "update_as2.mrt", bgp4mp(1, v4, narrow=True, v4=True) + bgp4mp(4, v6)
    yield "update_et.mrt", bgp4mp(4, v6, micros=7) + bgp4mp(7, v4, 999999)
    yield "update_add_path.mrt", bgp4mp(9, paths) + bgp4mp(8, paths, None, True)
    yield "update_states.mrt", bgp4mp(5, states) + bgp4mp(0, states, None, True)
    yield "update_ignored.mrt", (bgp4mp(4, bgp(4, b"")) + peers() +
                                 bgp4mp(4, update(b"", vpn, b"")) +
                                 bgp4mp(3, b""))
    yield "update_malformed.mrt", (bgp4mp(4, bad) + bgp4mp(4, v4, 1000000) +
                                   bgp4mp(4, b"short") + bgp4mp(5, b"x"))
    yield "update.mrt.gz", gzip.compress(bgp4mp(4, v4), mtime=0)
    yield "update.mrt.bz2", bz2.compress(bgp4mp(4, v6))


def seeds():
    yield from update_files()
    yield from table_files()
    path = attribute(1, b"\0") + attribute(2, struct.pack(">BBI", 2, 1, 64500))
    sets = attribute(2, struct.pack(">BBIBBI", 1, 1, 7, 3, 1, 8), 0x50)
    hop4 = attribute(3, bytes([192, 0, 2, 9]))
    hop6 = attribute(14, b"\x10" + V6)
    both6 = attribute(14, b"\x20" + V6 + LINK_LOCAL)
    full6 = attribute(14, b"\0\2\1\x10" + V6 + b"\0\x20" + V6[:4], 0x90)
    v4 = rib(2, 24, bytes([192, 0, 2]), [(0, None, path + hop4)])
    v6 = rib(4, 32, V6[:4], [(2, None, path + hop6), (1, None, sets + both6)])
    add_path = rib(10, 127, V6, [(1, 5, path + full6), (1, 6, hop6)])
    rest = attribute(4, struct.pack(">I", 5)) + attribute(5, struct.pack(">I", 200))
    rest += attribute(8, struct.pack(">3I", 4225892359, 7, 7), 0xc0)
    rest += attribute(16, struct.pack(">2I", 195572, 9), 0xc0)
    rest += attribute(32, struct.pack(">6I", 9, 2, 3, 1, 2, 3), 0xd0)
    mixed = attribute(2, struct.pack(">BB2IBB2IBB3I", 3, 2, 8, 7, 2, 2, 1, 4200000000,
                                     1, 3, 9, 6, 9))
    as4 = attribute(17, struct.pack(">BB2I", 2, 2, 4200000000, 3))
    old = struct.pack(">HH4sBBI4sH", 0, 1, bytes([10, 0, 0, 0]), 8, 1, 0, V6[:4], 64500)
    old_path = attribute(2, struct.pack(">BB3HBBH", 2, 3, 1, 23456, 3, 3, 1, 9)) + as4 + hop4
    text = b"# table\n2001:db8::/32 1\r\n192.0.2.0/24\t2 # two\n\n::/0 1\n"
    yield "text.txt", text
    bad_lines = b"oops\n::1/0 1\n::/0 0\n::/129 1\n::/0 3"
    yield "text_malformed.txt", text + bad_lines
    long_line = b"::/0 1" + b" " * 4100 + b"\n"
    yield "text_long.txt", long_line + b"#" * 4100 + b"\n"
    yield "text_gateways.txt", (
        b"\xef\xbb\xbfdefault via 192.0.2.1 dev eth0 metric 9\n"
        b"192.0.2.7 dev e scope link\n10.0.0.0/8 proto static\n"
        b"\tnexthop via inet6 fe80::1 dev e weight 3\n"
        b"\tnexthop via 192.0.2.9 dev f weight 1 dead\n"
        b"blackhole ::/0 dev lo pref medium\nlocal 10.0.0.1 table local\n"
        b"default via 192.0.2.2 metric 5\n10.0.0.0/8 5\n10.1.0.0/16\n")
    yield "text_bird.txt", (
        b"1007-Table master4:\n10.0.0.0/8  unicast [b 10:00 from ::1] * (100) [AS1i]\n"
        b"\tvia 192.0.2.1 on eth0 weight 2\n\tvia fe80::1 on eth1\n\tType: BGP\n"
        b"  unicast [c 10:00] (50)\n\tdev e\n"
        b"::/0 via fe80::1 on e [k 10:00] ! (10)\n10.1.0.0/16 prohibited [s 1] * (2)\n")
    yield "text_origins.txt", b"192.0.2.0\t24\t1_2\n::\t0\t3,4_5\n::\t129\t1\n"
    yield "text_csv.txt", b'n,"as"\n192.0.2.0/24,"1"\n'
    yield "text_twice.txt", b"; two\n::/0 1\n::/0 2\n::/0\n"
    yield "text.gz", gzip.compress(text, mtime=0) + gzip.compress(b"", mtime=0)
    yield "text.bz2", bz2.compress(text[:30]) + bz2.compress(text[30:])
    yield "ipv4.mrt", peers() + v4
    yield "ipv6.mrt", peers() + v6
    yield "add_path.mrt", peers() + add_path
    yield "attributes.mrt", (peers() + rib(2, 8, b"\x0a", [(0, None, mixed + rest + hop4)]) +
                             rib(2, 9, b"\x0a\0", [(1, None, rest[:-5] + b"\0" + hop4),
                                                   (2, None, hop4)]))
    yield "attributes_as2.mrt", mrt(12, 1, old + struct.pack(">H", len(old_path)) + old_path)
    yield "ipv6.mrt.gz", gzip.compress(peers() + v6, mtime=0)
    yield "ignored.mrt", mrt(16, 4, b"x") + mrt(13, 6, b"y") + v4
    yield "malformed.mrt", (peers() + mrt(14, 0, b"z") + mrt(13, 1, b"short") +
                            rib(4, 129, V6 + b"\0", []) +
                            rib(2, 0, b"", [(9, None, hop6 + b"\0")]))
    yield "wild_length.mrt", v4 + struct.pack(">IHHI", 0, 13, 2, 0xffffffff)
    yield "unknown.json", b'{"routes": []}\n'


def main():
    directory = pathlib.Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for name, data in seeds():
        (directory / name).write_bytes(data)


main()

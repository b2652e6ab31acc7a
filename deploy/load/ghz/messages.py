#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Writes request messages for ghz --binary-file.

    messages.py lookup           one LookupRequest of one address
    messages.py batch ADDRESSES  64 BatchLookupRequests of so many addresses,
                                 each behind its length, as ghz wants a stream

Addresses are random in 2000::/3, the same every time. By hand, because that
takes fewer lines than generated code would to import, and shows what a client
has to send: `addresses_v6` is the packed bytes and nothing else.
"""

import random
import sys

MESSAGES = 64


def varint(value):
    data = bytearray()
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


def field(number, data):
    """A field of wire type 2."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def addresses(source, count):
    packed = bytearray(source.randbytes(16 * count))
    for i in range(0, len(packed), 16):
        packed[i] = 0x20 | packed[i] & 0x1F
    return bytes(packed)


def lookup_request(source):
    # Address.packed = 1 within LookupRequest.addresses = 2.
    return field(2, field(1, addresses(source, 1)))


def batch_request(source, request_id, count):
    # request_id = 1 is a varint; addresses_v6 = 2.
    return b"\x08" + varint(request_id) + field(2, addresses(source, count))


def main(argv):
    source = random.Random(1)
    if argv == ["lookup"]:
        return lookup_request(source)
    if len(argv) == 2 and argv[0] == "batch" and int(argv[1]) > 0:
        batches = [
            batch_request(source, i + 1, int(argv[1])) for i in range(MESSAGES)
        ]
        return b"".join(varint(len(batch)) + batch for batch in batches)
    raise SystemExit(__doc__)


if __name__ == "__main__":
    sys.stdout.buffer.write(main(sys.argv[1:]))

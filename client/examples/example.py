# SPDX-License-Identifier: Apache-2.0

"""Looks up addresses packed by numpy, eight batches in flight on one stream.

Usage: example.py TARGET, with the table of test.sh: 2001:db8:KK00::/40 leads to
next hop KK + 1, and 2001:db8:0:0:8000::/65 to 1000.
"""

import ipaddress
import sys
import threading

import grpc
import numpy as np
from planb.v1 import route_lookup_pb2, route_lookup_pb2_grpc

DEPTH = 8
UNDECIDED = 0xFFFFFFFF  # the lower half of the address decides

# A row is an address in network byte order: here random ones in 2001:db8::/32.
addresses = np.zeros((100_000, 16), np.uint8)
addresses[:] = np.frombuffer(ipaddress.ip_address("2001:db8::").packed, np.uint8)
addresses[2:, 4:] = np.random.default_rng(1).integers(256, size=(99_998, 12))
addresses[1, 8] = 0x80  # 2001:db8:0:0:8000::
expected = addresses[:, 4].astype(np.uint32) + 1
expected[1] = 1000


def lookup(stub, field, rows):
    """The next hops of `rows`, which go into `field`, 4,096 a batch."""
    batches = [rows[i : i + 4096] for i in range(0, len(rows), 4096)]
    room = threading.Semaphore(DEPTH)

    def requests():  # gRPC runs this in a thread of its own
        for batch in batches:
            room.acquire()
            yield route_lookup_pb2.BatchLookupRequest(**{field: batch.tobytes()})

    next_hops = []
    for reply in stub.BatchLookup(requests(), timeout=60):
        room.release()
        assert not reply.HasField("error"), reply.error
        next_hops.append(np.frombuffer(reply.next_hops, "<u4"))
    return np.concatenate(next_hops)


with grpc.insecure_channel(sys.argv[1]) as channel:
    stub = route_lookup_pb2_grpc.RouteLookupStub(channel)
    hops = lookup(stub, "addresses_v6", addresses)
    assert (hops == expected).all()
    print(f"{len(hops)} next hops, the first {hops[:4]}")

    # Half the bytes, where routes on /64 and shorter decide.
    hops = lookup(stub, "upper_halves_v6", addresses[:, :8])
    undecided = np.flatnonzero(hops == UNDECIDED)
    assert undecided.tolist() == [0, 1]
    hops[undecided] = lookup(stub, "addresses_v6", addresses[undecided])
    assert (hops == expected).all()
    print(f"the same from upper halves, {len(undecided)} of them asked in full")

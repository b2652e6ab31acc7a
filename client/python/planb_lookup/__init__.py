# SPDX-License-Identifier: Apache-2.0

"""Longest-prefix-match lookups by a PlanB Lookup server.

    with planb_lookup.Client("unix:///run/planb/planb.sock") as client:
        client.announce({"2001:db8::/32": 7})
        client.lookup(["2001:db8::1", "192.0.2.1"])   # array([7, 0])
        client.lookup(rows)     # rows: numpy uint8, (n, 16), (n, 4) or (n, 8)

Client and Stream block; AsyncClient and AsyncStream are the same for asyncio.
"""

from planb_lookup._aio import AsyncClient, AsyncStream
from planb_lookup._calls import Ack, Answer, NextHop
from planb_lookup._client import Client, Stream
from planb_lookup._codec import (
    NO_ROUTE, UNDECIDED, Addresses, Error, Result, pack)
from planb_lookup._directory import NextHopDirectory, NextHopGroup, NextHops
from planb_lookup.v1.types_pb2 import Attributes

__all__ = [
    "NO_ROUTE", "UNDECIDED", "Ack", "Addresses", "Answer", "AsyncClient",
    "AsyncStream", "Attributes", "Client", "Error", "NextHop", "NextHopDirectory",
    "NextHopGroup", "NextHops", "Result", "Stream", "pack",
]

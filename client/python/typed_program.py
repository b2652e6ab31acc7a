# SPDX-License-Identifier: Apache-2.0

"""A typed program that uses planb_lookup. Nothing runs it: test.sh has mypy check it.

A line with "type: ignore" is wrong in the way that it names. mypy --strict also
refuses such a comment on a line that it would accept.
"""

import ipaddress
from collections.abc import Iterator
from typing import assert_type

import grpc
import numpy as np
import numpy.typing as npt

import planb_lookup
from planb_lookup import (
    Addresses, Answer, AsyncClient, Client, Error, NextHop, Result, Stream)
from planb_lookup.v1 import route_table_pb2, types_pb2

Hops = npt.NDArray[np.uint32]
ROWS = np.zeros((4, 16), np.uint8)


def calls(client: Client) -> None:
    assert_type(client.lookup(["2001:db8::1", ipaddress.IPv4Address(1)]), Hops)
    assert_type(client.lookup(ROWS, flow_hashes=np.ones(4, np.uint32)), Hops)
    assert_type(client.resolve(("::1",), flow_hashes=[5]), list[Answer])
    done = client.announce({"::/0": 7}, ack="persisted", expected_generation=3)
    assert_type(done, route_table_pb2.UpdateRoutesResponse)
    assert_type(done.generation, int)
    ids: dict[str, int] = {"::/0": 7}
    hops: dict[ipaddress.IPv4Network, NextHop] = {}
    mixed: dict[ipaddress.IPv4Network | ipaddress.IPv6Network | str, int | NextHop] = {}
    client.announce(ids)
    client.announce(hops)
    client.announce(mixed)
    client.announce({"::/0": client.lookup(ROWS)[0]})
    client.withdraw(mixed)
    client.announce([("::/0", 1), ("::/1", NextHop(2, label="b"))])
    client.announce(zip(ids, [NextHop(1)]))
    assert_type(client.withdraw(iter(["::/0"])).removed, int)
    assert_type(client.status("blue"), types_pb2.Table)
    assert_type(client.status().digest, bytes)
    with client.follow_next_hops(table="blue", timeout=1) as directory:
        assert_type(directory.now.next_hops[7], NextHop)
        assert_type(directory.now.groups[8].members, tuple[tuple[int, int], ...])
        assert_type(directory.error, Error | None)
        directory.now.groups[8] = 5  # type: ignore[index]


def wrong_calls(client: Client) -> None:
    Client(5)  # type: ignore[arg-type]
    Client("server:1", credentials="secret")  # type: ignore[arg-type]
    client.lookup("2001:db8::1", batch=5)  # type: ignore[call-arg]
    client.lookup([1, 2])  # type: ignore[list-item]
    floats = np.zeros((4, 16), np.float64)
    client.lookup(floats)  # type: ignore[arg-type]
    client.announce({"::/0": "7"})  # type: ignore[arg-type]
    client.announce({7: 7})  # type: ignore[arg-type]
    client.announce([("::/0", 7)], ack="soon")  # type: ignore[arg-type]
    client.announce([("::/0", 7)], "blue")  # type: ignore[call-arg]
    client.withdraw(5)  # type: ignore[arg-type]
    client.status().generation  # type: ignore[attr-defined]
    NextHop("7")  # type: ignore[arg-type]
    NextHop(7).id = 8  # type: ignore[misc]
    Stream()  # type: ignore[call-arg]
    planb_lookup.LookupError  # type: ignore[attr-defined]
    first: str = client.lookup(ROWS)  # type: ignore[assignment]
    del first


def streams(client: Client, batches: Iterator[npt.NDArray[np.uint8]]) -> int:
    with client.stream(in_flight=8, want_prefix_lengths=True) as stream:
        assert_type(stream, Stream)
        assert_type(stream.send(ROWS), int)
        result = stream.receive()
        assert_type(result, Result)
        assert_type(result.next_hops, Hops)
        result.next_hops = result.next_hops  # type: ignore[misc]
        if result.prefix_lengths is not None:
            assert_type(result.prefix_lengths, npt.NDArray[np.uint8])
        len(result.prefix_lengths)  # type: ignore[arg-type]
        stream.send(["::1"])  # type: ignore[arg-type]
        short, out = np.empty(4, np.uint16), np.empty(4, np.uint32)
        stream.lookup(ROWS, out=short)  # type: ignore[arg-type]
        assert_type(stream.lookup(ROWS, out=out), Hops)
        for each in stream.map(batches):
            assert_type(each, Result)
        return stream.reconnects


def errors(client: Client, addresses: Addresses) -> str:
    try:
        client.lookup(addresses)
    except Error as error:
        assert_type(error.code, grpc.StatusCode)
        assert_type(error.fields, tuple[tuple[str, str], ...])
        assert_type(error.retry_after, float | None)
        error.retry_after + 1.0  # type: ignore[operator]
        return error.reason
    return 5  # type: ignore[return-value]


async def asynchronous(batches: list[npt.NDArray[np.uint8]]) -> None:
    async with AsyncClient("unix:///run/planb/planb.sock", table="blue") as client:
        assert_type(await client.lookup(["::1"]), Hops)
        assert_type(await client.resolve(["::1"]), list[Answer])
        assert_type(await client.status(), types_pb2.Table)
        for hop in client.lookup(["::1"]):  # type: ignore[attr-defined]
            del hop
        async with client.stream() as stream:
            async for result in stream.map(batches):
                assert_type(result, Result)


def messages() -> None:
    replica = types_pb2.Replica(name="a", version="1")
    assert_type(replica.self, bool)
    for visible in replica.tables:
        assert_type(visible, types_pb2.Replica.Visible)
    types_pb2.Route(prefix={"address": bytes(16), "length": 0}, next_hop_id=1)
    types_pb2.Route(next_hop_id="1")  # type: ignore[arg-type]
    types_pb2.Route(prefix=5)  # type: ignore[arg-type]
    types_pb2.Route().metric  # type: ignore[attr-defined]

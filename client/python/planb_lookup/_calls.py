# SPDX-License-Identifier: Apache-2.0

"""The unary calls: how each is asked, and what its reply becomes."""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, SupportsIndex, TypeAlias, TypeVar

import numpy as np

from planb_lookup import _codec
from planb_lookup.v1 import route_lookup_pb2, route_table_pb2, types_pb2

IpAddress: TypeAlias = "ipaddress.IPv4Address | ipaddress.IPv6Address"
IpNetwork: TypeAlias = "ipaddress.IPv4Network | ipaddress.IPv6Network"
# The state that an update reaches before its call returns.
Ack: TypeAlias = Literal["accepted", "visible", "persisted", "replicated"]

BATCH_LOOKUP = "/planb.v1.RouteLookup/BatchLookup"
# The most addresses that the server takes in one unary call, by default.
MAX_RESOLVED = 4096

_LENGTH = re.compile("0|[1-9][0-9]{0,2}")
_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True)
class NextHop:
    """What an id of a next hop stands for."""

    id: int
    gateway: IpAddress | None = None
    interface: str = ""
    # In groups that are set without a weight for it.
    weight: int = 1
    label: str = ""
    # What routes to it mean: AS path, communities, tags. A message has no hash.
    attributes: types_pb2.Attributes | None = dataclasses.field(
        default=None, hash=False)


@dataclasses.dataclass(frozen=True)
class Answer:
    """The answer for one address, with what the table knows of it."""

    # 0: no route.
    next_hop_id: int
    # The longest prefix that matched.
    prefix: IpNetwork | None
    # None if the table has no object of this id.
    next_hop: NextHop | None
    # With a flow hash: the member of the group `next_hop_id`; else 0.
    member_id: int
    generation: int


# An id, also as numpy has it, or what it stands for.
Hop: TypeAlias = "SupportsIndex | NextHop"
# A dict[str, ...] is no Mapping[str | IpNetwork, ...] to type checkers.
Routes: TypeAlias = (
    "Mapping[str, Hop] | Mapping[ipaddress.IPv4Network, Hop] |"
    " Mapping[ipaddress.IPv6Network, Hop] | Mapping[IpNetwork, Hop] |"
    " Mapping[str | IpNetwork, Hop] | Iterable[tuple[str | IpNetwork, Hop]]")


@dataclasses.dataclass(frozen=True)
class Call(Generic[_T]):
    method: str
    request: bytes
    convert: Callable[[bytes], _T]


def status(table: str) -> Call[types_pb2.Table]:
    return Call("/planb.v1.RouteTable/GetTable",
                route_table_pb2.GetTableRequest(table=table).SerializeToString(),
                types_pb2.Table.FromString)


def announce(table: str, routes: Routes, **options: Any
             ) -> Call[route_table_pb2.UpdateRoutesResponse]:
    pairs: Iterable[tuple[str | IpNetwork, Hop]] = (
        routes.items() if isinstance(routes, Mapping) else routes)
    next_hops: dict[int, NextHop] = {}
    changes: list[tuple[str | IpNetwork, int]] = []
    for index, (prefix, hop) in enumerate(pairs):
        if isinstance(hop, NextHop):
            if next_hops.setdefault(hop.id, hop) != hop:
                raise ValueError(f"next hop {hop.id} is there twice, differently")
            hop = hop.id
        changes.append((prefix, _codec.integer(hop, f"routes[{index}]: next hop")))
    return _update(table, changes, route_table_pb2.RouteUpdate.OP_UPSERT,
                   next_hops.values(), **options)


def withdraw(table: str, prefixes: Iterable[str | IpNetwork], **options: Any
             ) -> Call[route_table_pb2.UpdateRoutesResponse]:
    return _update(table, ((prefix, 0) for prefix in prefixes),
                   route_table_pb2.RouteUpdate.OP_DELETE, (), **options)


def _packed_prefix(prefix: str | IpNetwork, where: str) -> tuple[bytes, int]:
    """The address of a prefix, and its length.

    Texts are those that planbctl takes: netmasks and addresses without a length
    are refused.
    """
    if isinstance(prefix, str):
        where = f"{where}: prefix {prefix!r}"
        address, slash, digits = prefix.partition("/")
        packed = _codec.packed_address(address, where)
        size = 8 * len(packed)
        if not slash:
            raise ValueError(f'{where} has no "/LENGTH"')
        if not _LENGTH.fullmatch(digits) or int(digits) > size:
            raise ValueError(f"{where}: the length must be a plain number of 0..{size}")
        length = int(digits)
        if int.from_bytes(packed, "big") & ((1 << (size - length)) - 1):
            raise ValueError(f"{where} has host bits set")
        return packed, length
    if not isinstance(prefix, (ipaddress.IPv4Network, ipaddress.IPv6Network)):
        raise TypeError(f"{where}: {prefix!r} is no prefix")
    return (_codec.packed_address(prefix.network_address,
                                  f"{where}: prefix {prefix}"), prefix.prefixlen)


def _update(table: str, changes: Iterable[tuple[str | IpNetwork, int]], op: int,
            next_hops: Iterable[NextHop], *, ack: Ack = "visible",
            expected_generation: int | None = None, validate_only: bool = False,
            request_id: str = "", require_next_hops: bool = False,
            writer_epoch: int = 0, complete: bool | None = None
            ) -> Call[route_table_pb2.UpdateRoutesResponse]:
    packed = {16: bytearray(), 4: bytearray()}
    where = "routes" if op == route_table_pb2.RouteUpdate.OP_UPSERT else "prefixes"
    for index, (prefix, hop) in enumerate(changes):
        address, length = _packed_prefix(prefix, f"{where}[{index}]")
        if not 0 <= hop < _codec.UNDECIDED:
            raise ValueError(f"{where}[{index}]: {prefix}: {hop} is no next hop")
        packed[len(address)] += (
            address + bytes((length, op)) + hop.to_bytes(4, "little"))
    request = route_table_pb2.UpdateRoutesRequest(
        table=table, ack=f"ACK_{ack.upper()}",
        next_hops=[_message(each) for each in next_hops],
        expected_generation=expected_generation, validate_only=validate_only,
        request_id=request_id, require_next_hops=require_next_hops,
        writer_epoch=writer_epoch, changes_v6=bytes(packed[16]),
        changes_v4=bytes(packed[4]))
    if complete is not None:
        request.complete = complete
    return Call("/planb.v1.RouteTable/UpdateRoutes", request.SerializeToString(),
                route_table_pb2.UpdateRoutesResponse.FromString)


def resolve(table: str, addresses: Sequence[_codec.Address],
            flow_hashes: Sequence[int] | None, min_generation: int,
            require_complete: bool) -> Call[list[Answer]]:
    request = route_lookup_pb2.LookupRequest(
        table=table, min_generation=min_generation, want_prefix=True,
        want_next_hop=True, require_complete=require_complete, flow_hashes=[
            _codec.integer(each, f"flow_hashes[{index}]")
            for index, each in enumerate(flow_hashes or ())])
    for index, address in enumerate(addresses):
        request.addresses.add().packed = _codec.packed_address(
            address, f"addresses[{index}]")
    return Call("/planb.v1.RouteLookup/Lookup", request.SerializeToString(),
                _answers)


def resolved_pieces(addresses: _codec.Addresses, flow_hashes: Sequence[int] | None
                    ) -> Iterable[
                        tuple[Sequence[_codec.Address], Sequence[int] | None]]:
    """The addresses in pieces that one call takes."""
    if isinstance(addresses, np.ndarray):
        rows = _codec.checked_rows(addresses)
        if rows.shape[1] == 8:
            raise ValueError("upper halves are no addresses")
        addresses = [ipaddress.ip_address(row.tobytes()) for row in rows]
    if flow_hashes is not None and len(flow_hashes) != len(addresses):
        raise ValueError("flow_hashes are one for each address")
    for begin in range(0, len(addresses), MAX_RESOLVED):
        end = begin + MAX_RESOLVED
        yield (addresses[begin:end],
               None if flow_hashes is None else flow_hashes[begin:end])


def _answers(reply: bytes) -> list[Answer]:
    response = route_lookup_pb2.LookupResponse.FromString(reply)
    return [
        Answer(result.next_hop_id,
               _network(result.prefix) if result.HasField("prefix") else None,
               next_hop_of(result.next_hop) if result.HasField("next_hop") else None,
               result.member_id, response.generation)
        for result in response.results]


def _network(prefix: types_pb2.Prefix) -> IpNetwork:
    return ipaddress.ip_network((prefix.address, prefix.length))


def next_hop_of(message: types_pb2.NextHop) -> NextHop:
    gateway = ipaddress.ip_address(message.gateway) if message.gateway else None
    return NextHop(message.id, gateway, message.interface, message.weight,
                   message.label,
                   message.attributes if message.HasField("attributes") else None)


def _message(next_hop: NextHop) -> types_pb2.NextHop:
    where = f"next hop {next_hop.id}"
    return types_pb2.NextHop(
        id=_codec.integer(next_hop.id, where), interface=next_hop.interface,
        weight=_codec.integer(next_hop.weight, f"{where}: weight"),
        label=next_hop.label, attributes=next_hop.attributes, gateway=b"" if next_hop.gateway is None
        else _codec.packed_address(next_hop.gateway, f"{where}: gateway"))

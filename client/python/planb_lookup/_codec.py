# SPDX-License-Identifier: Apache-2.0

"""The batch messages on the wire, errors, and addresses as numpy arrays.

The addresses of a batch are copied once, and protobuf never sees them; it writes and
reads all else.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import operator
import socket
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

import grpc
import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError, Message

from planb_lookup.v1 import error_details_pb2, route_lookup_pb2, status_pb2

NO_ROUTE = 0
# Only for upper halves: the lower half of the address decides.
UNDECIDED = 0xFFFFFFFF

Rows: TypeAlias = npt.NDArray[np.uint8]
Hops: TypeAlias = npt.NDArray[np.uint32]
Address: TypeAlias = "str | ipaddress.IPv4Address | ipaddress.IPv6Address"
# Rows of 16 bytes (IPv6), 4 (IPv4) or 8 (the upper halves of IPv6 addresses),
# in network byte order; or a sequence of addresses of both families.
Addresses: TypeAlias = "Rows | Sequence[Address]"

_MALFORMED = grpc.StatusCode.INTERNAL
_CODES = {code.value[0]: code for code in grpc.StatusCode}
# The tag of the field that holds rows of so many bytes, and that of flow hashes.
_TAGS = {16: b"\x12", 4: b"\x1a", 8: b"\x42"}
_FLOW_HASHES = b"\x4a"
_M = TypeVar("_M", bound=Message)


class Error(Exception):
    """A refusal by the server, or a failure of the connection.

    `reason` is that of the server, such as "TABLE_NOT_FOUND". It is empty if the
    error comes from gRPC.
    """

    def __init__(self, code: grpc.StatusCode, message: str, reason: str = "",
                 fields: Sequence[tuple[str, str]] = (),
                 retry_after: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        # The fields at fault, such as "updates[17].prefix", with descriptions.
        self.fields = tuple(fields)
        # Seconds to wait before another attempt; None if waiting does not help.
        self.retry_after = retry_after

    def __str__(self) -> str:
        text = f"{self.code.name}: {self.message}"
        if self.reason:
            text += f" [{self.reason}]"
        for field, why in self.fields:
            if self.message.startswith(f"{field}: "):
                continue  # the message is of this field
            text += f"; {field}" if why == self.message else f"; {field}: {why}"
        return text

    @property
    def retryable(self) -> bool:
        return self.retry_after is not None or self.code in (
            grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


@dataclasses.dataclass(frozen=True, eq=False)
class Result:
    """The answer to one batch, all of it from one generation."""

    id: int
    generation: int
    # One for each address: 0 is "no route". Empty on an error.
    next_hops: Hops
    # With want_prefix_lengths, one for each address; 255 is "no route".
    prefix_lengths: Rows | None = None
    error: Error | None = None


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _parsed(kind: type[_M], data: bytes) -> _M:
    try:
        return kind.FromString(data)
    except (DecodeError, UnicodeDecodeError):
        raise Error(_MALFORMED, "the server sent a malformed message") from None


def encode_batch(batch_id: int, rows: Rows, flow_hashes: Hops | None,
                 options: bytes) -> bytes:
    head = route_lookup_pb2.BatchLookupRequest(request_id=batch_id)
    parts: list[Any] = [head.SerializeToString(), options]
    if len(rows):
        parts += _TAGS[rows.shape[1]], _varint(rows.nbytes), rows.data.cast("B")
    if flow_hashes is not None and len(flow_hashes):
        parts += _FLOW_HASHES, _varint(flow_hashes.nbytes), flow_hashes.data.cast("B")
    return b"".join(parts)


def decode_batch(data: bytes) -> Result:
    """The arrays are read-only."""
    reply = _parsed(route_lookup_pb2.BatchLookupResponse, data)
    if len(reply.next_hops) % 4:
        raise Error(_MALFORMED, "next hops have 4 bytes each")
    lengths = reply.prefix_lengths
    error = None
    if reply.HasField("error"):
        why = reply.error
        error = Error(_CODES.get(why.code, grpc.StatusCode.UNKNOWN), why.message,
                      why.reason, ((why.field, why.message),) if why.field else ())
    return Result(reply.request_id, reply.generation,
                  np.frombuffer(reply.next_hops, "<u4"),
                  np.frombuffer(lengths, np.uint8) if lengths else None, error)


def _detail(kind: type[_M], data: bytes) -> _M:
    """A part of a status: empty if it is malformed, since the rest says why."""
    try:
        return _parsed(kind, data)
    except Error:
        return kind()


def error_of(failure: grpc.RpcError) -> Error:
    """The Error of a failed call, with what its details say (google.rpc.Status)."""
    reason = ""
    retry_after: float | None = None
    fields: list[tuple[str, str]] = []
    trailers: Any = failure.trailing_metadata()
    details: bytes = next((value for key, value in trailers or ()
                           if key == "grpc-status-details-bin"), b"")
    for detail in _detail(status_pb2.Status, details).details:
        name = detail.type_url.rpartition("/")[2]
        if name == "google.rpc.ErrorInfo":
            reason = _detail(error_details_pb2.ErrorInfo, detail.value).reason
        elif name == "google.rpc.BadRequest":
            fields += [(each.field, each.description) for each in _detail(
                error_details_pb2.BadRequest, detail.value).field_violations]
        elif name == "google.rpc.RetryInfo":
            delay = _detail(error_details_pb2.RetryInfo, detail.value).retry_delay
            retry_after = delay.seconds + delay.nanos * 1e-9
    return Error(failure.code(), failure.details() or "", reason, fields,
                 retry_after)


def pack(addresses: Sequence[Address]) -> tuple[Rows, Rows, npt.NDArray[np.bool_]]:
    """IPv6 rows, IPv4 rows, and for each address whether it is IPv6."""
    v6, v4 = bytearray(), bytearray()
    is_v6 = np.zeros(len(addresses), np.bool_)
    for index, address in enumerate(addresses):
        packed = packed_address(address, f"addresses[{index}]")
        if len(packed) == 16:
            is_v6[index] = True
            v6 += packed
        else:
            v4 += packed
    return (np.frombuffer(v6, np.uint8).reshape(-1, 16),
            np.frombuffer(v4, np.uint8).reshape(-1, 4), is_v6)


def packed_address(address: Address, where: str) -> bytes:
    if isinstance(address, str):
        # Several times as fast as the module ipaddress; refuses zone ids too.
        try:
            return socket.inet_pton(
                socket.AF_INET6 if ":" in address else socket.AF_INET, address)
        except (OSError, ValueError):
            raise ValueError(f"{where}: {address!r} is no address") from None
    # An interface of ipaddress is a kind of address there; it has a length.
    if (not isinstance(address, (ipaddress.IPv4Address, ipaddress.IPv6Address))
            or isinstance(address, (ipaddress.IPv4Interface, ipaddress.IPv6Interface))):
        raise TypeError(f"{where}: {address!r} is no address")
    if getattr(address, "scope_id", None):
        raise ValueError(f"{where}: {address} has a zone id, which a table does not"
                         " know")
    return address.packed


def integer(value: Any, where: str) -> int:
    """The value of an int or of an integer of numpy, such as a lookup returns."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{where}: {value!r} is no integer") from None


def checked_rows(rows: Rows) -> Rows:
    if rows.dtype != np.uint8 or rows.ndim != 2 or rows.shape[1] not in _TAGS:
        raise ValueError("addresses are an array of uint8 with 16, 4 or 8 columns,"
                         f" not {rows.dtype} of shape {rows.shape}")
    return np.ascontiguousarray(rows)


def checked_hashes(flow_hashes: Hops | None, count: int) -> Hops | None:
    if flow_hashes is None:
        return None
    if flow_hashes.dtype != np.uint32 or flow_hashes.shape != (count,):
        raise ValueError("flow_hashes are an array of uint32, one for each address,"
                         f" not {flow_hashes.dtype} of shape {flow_hashes.shape}")
    return np.ascontiguousarray(flow_hashes, dtype="<u4")


def checked_out(out: Hops | None, count: int) -> Hops:
    if out is None:
        return np.empty(count, np.uint32)
    if (out.dtype != np.uint32 or out.shape != (count,)
            or not out.flags.writeable):
        raise ValueError("out is a writable array of uint32 with one place for each"
                         f" address, not {out.dtype} of shape {out.shape},"
                         f" writable: {out.flags.writeable}")
    return out

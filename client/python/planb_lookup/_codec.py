# SPDX-License-Identifier: Apache-2.0

"""The batch messages on the wire, errors, and addresses as numpy arrays.

BatchLookupRequest and BatchLookupResponse are written and read by hand: the
addresses of a batch are copied once, and protobuf never sees them.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import operator
import socket
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import grpc
import numpy as np
import numpy.typing as npt

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
# The tag of the field that holds rows of so many bytes.
_TAGS = {16: b"\x12", 4: b"\x1a", 8: b"\x42"}


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


def varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def read_fields(data: bytes, at: int = 0, end: int | None = None
                ) -> Iterator[tuple[int, int, int]]:
    """The fields of a message, but for those of fixed size, of which none is known.

    (number, value, -1) of a varint; (number, begin, end) of bytes.
    """
    end = len(data) if end is None else end
    try:
        while at < end:
            tag, at = _read_varint(data, at)
            if not 8 <= tag < 1 << 32:
                raise IndexError
            kind = tag & 7
            if kind == 0:
                value, at = _read_varint(data, at)
                yield tag >> 3, value, -1
                continue
            if kind == 2:
                size, at = _read_varint(data, at)
            elif kind in (1, 5):
                size = 8 if kind == 1 else 4
            else:
                raise IndexError
            if at + size > end:
                raise IndexError
            if kind == 2:
                yield tag >> 3, at, at + size
            at += size
    except IndexError:
        raise Error(_MALFORMED, "the server sent a malformed message") from None


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
        shift += 7
        if shift > 63:
            raise IndexError


def batch_options(table: str, min_generation: int, max_wait: float,
                  want_prefix_lengths: bool) -> bytes:
    """What all batches of a stream have in common, encoded."""
    if max_wait < 0:
        raise ValueError(f"max_wait: {max_wait} is less than no time")
    min_generation = integer(min_generation, "min_generation")
    if not 0 <= min_generation < 1 << 64:
        raise ValueError(f"min_generation: {min_generation} is no generation")
    encoded = b""
    if table:
        name = table.encode()
        encoded += b"\x22" + varint(len(name)) + name
    if min_generation:
        encoded += b"\x28" + varint(min_generation)
    if max_wait > 0:
        encoded += b"\x30" + varint(round(min(max_wait * 1000, 0xFFFFFFFF)))
    return encoded + (b"\x38\x01" if want_prefix_lengths else b"")


def encode_batch(batch_id: int, rows: Rows, flow_hashes: Hops | None,
                 options: bytes) -> bytes:
    parts: list[Any] = [b"\x08", varint(batch_id)]
    if len(rows):
        parts += _TAGS[rows.shape[1]], varint(rows.nbytes), rows.data.cast("B")
    if flow_hashes is not None and len(flow_hashes):
        parts += b"\x4a", varint(flow_hashes.nbytes), flow_hashes.data.cast("B")
    parts.append(options)
    return b"".join(parts)


def decode_batch(data: bytes) -> Result:
    """The next hops are a view of `data`: read-only, perhaps not aligned."""
    batch_id = generation = 0
    hops: Hops = np.empty(0, np.uint32)
    lengths = None
    error: Error | None = None
    errors: list[bytes] = []
    for number, begin, end in read_fields(data):
        if end < 0:  # a field is known by its number and its type
            if number == 1:
                batch_id = begin
            elif number == 2:
                generation = begin
        elif number == 3:
            if (end - begin) % 4:
                raise Error(_MALFORMED, "next hops have 4 bytes each")
            hops = np.frombuffer(data, "<u4", (end - begin) // 4, begin)
        elif number == 4:
            lengths = np.frombuffer(data, np.uint8, end - begin, begin)
        elif number == 5:
            errors.append(data[begin:end])
    if errors:
        error = _batch_error(errors)
    return Result(batch_id, generation, hops, lengths, error)


def _batch_error(parts: list[bytes]) -> Error:
    """Of an error in several parts, the last of each field counts."""
    code, text = 0, {2: "", 3: "", 4: ""}
    for data in parts:
        for number, first, last in read_fields(data):
            if number == 1 and last < 0:
                code = first & 0xFFFFFFFF  # an int32
            elif number in text and last >= 0:
                text[number] = data[first:last].decode(errors="replace")
    fields = ((text[3], text[4]),) if text[3] else ()
    return Error(_code(code), text[4], text[2], fields)


def _code(number: int) -> grpc.StatusCode:
    return _CODES.get(number, grpc.StatusCode.UNKNOWN)


def error_of(failure: grpc.RpcError) -> Error:
    """The Error of a failed call, with what its details say (google.rpc.Status)."""
    reason = ""
    retry_after: float | None = None
    fields: list[tuple[str, str]] = []
    trailers: Any = failure.trailing_metadata()
    details: bytes = next((value for key, value in trailers or ()
                           if key == "grpc-status-details-bin"), b"")
    for any_begin, any_end in _children(details, 0, len(details), 3):
        name, value = "", (0, 0)
        for number, begin, end in read_fields(details, any_begin, any_end):
            if number == 1 and end >= 0:
                name = details[begin:end].decode(errors="replace")
            elif number == 2 and end >= 0:
                value = begin, end
        if name.endswith("/google.rpc.ErrorInfo"):
            reason = _text(details, *value, 1)
        elif name.endswith("/google.rpc.BadRequest"):
            fields += [(_text(details, *each, 1), _text(details, *each, 2))
                       for each in _children(details, *value, 1)]
        elif name.endswith("/google.rpc.RetryInfo"):
            retry_after = 0.0
            for delay in _children(details, *value, 1):
                for number, amount, end in read_fields(details, *delay):
                    if end < 0:
                        retry_after += amount * (1 if number == 1 else 1e-9)
    return Error(failure.code(), failure.details() or "", reason, fields,
                 retry_after)


def _children(data: bytes, begin: int, end: int, wanted: int
              ) -> list[tuple[int, int]]:
    return [(first, last) for number, first, last
            in read_fields(data, begin, end) if number == wanted and last >= 0]


def _text(data: bytes, begin: int, end: int, wanted: int) -> str:
    return "".join(data[first:last].decode(errors="replace")
                   for first, last in _children(data, begin, end, wanted)[:1])


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

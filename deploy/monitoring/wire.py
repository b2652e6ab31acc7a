# SPDX-License-Identifier: Apache-2.0

"""As much of the protobuf encoding as the tests here need, so that they need
no generated code: Debian's grpcio carries bytes as they are."""


def varint(number: int) -> bytes:
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)


def uint(field: int, number: int) -> bytes:
    return varint(field << 3) + varint(number)


def message(field: int, payload: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(payload)) + payload


def groups_request(first_id: int, count: int) -> bytes:
    """An UpdateNextHopsRequest: `count` groups, no two with the same members,
    which wants to know no more than that it is accepted."""
    ack_accepted = 1
    return (
        b"".join(
            message(
                4,
                uint(1, first_id + i)
                + message(2, uint(1, 1 + 2 * i))
                + message(2, uint(1, 2 + 2 * i)),
            )
            for i in range(count)
        )
        + uint(6, ack_accepted)
    )


def slow_batch(count: int) -> bytes:
    """A BatchLookupRequest that wants the prefix lengths of so many addresses
    in 2001:db8::/32."""
    prefix = bytes.fromhex("20010db8") + bytes(8)
    addresses = b"".join(prefix + i.to_bytes(4, "big") for i in range(count))
    return message(2, addresses) + uint(7, 1)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Lookups in a table inside this process, which follows a server.

    local_table.py LIBRARY SERVER ADDRESS...

LIBRARY is libplanb_local.so. Prints the next hop of each IPv6 address, and the
generation of the answers. With numpy, pass arrays of uint8 with 16 columns:
`array.ctypes.data` is what the calls want.
"""

import ctypes
import ipaddress
import sys


class LocalTable:
    """A replica of a server's table."""

    def __init__(self, library, server, table=None, timeout=10.0):
        self._c = ctypes.CDLL(library)
        self._c.planb_local_open.restype = ctypes.c_void_p
        self._c.planb_local_generation.restype = ctypes.c_uint64
        error = ctypes.create_string_buffer(256)
        self._table = ctypes.c_void_p(self._c.planb_local_open(
            server.encode(), table and table.encode(),
            ctypes.c_int64(int(timeout * 1000)), ctypes.c_int64(0), error,
            ctypes.c_size_t(len(error))))
        if not self._table:
            raise RuntimeError(error.value.decode())

    def lookup(self, packed):
        """Next hops of packed IPv6 addresses (16 bytes each), and the generation."""
        count = len(packed) // 16
        hops = (ctypes.c_uint32 * count)()
        generation = ctypes.c_uint64()
        code = self._c.planb_local_lookup_v6(
            self._table, packed, ctypes.c_size_t(count), hops,
            ctypes.byref(generation))
        if code:
            raise RuntimeError(f"the lookup failed with code {code}")
        return list(hops), generation.value

    def wait(self, generation, timeout=10.0):
        """True once lookups are answered from that generation or a later one."""
        return self._c.planb_local_wait(
            self._table, ctypes.c_uint64(generation),
            ctypes.c_int64(int(timeout * 1000))) == 0

    def close(self):
        self._c.planb_local_close(self._table)
        self._table = None


def main():
    library, server, *addresses = sys.argv[1:]
    table = LocalTable(library, server)
    packed = b"".join(ipaddress.IPv6Address(a).packed for a in addresses)
    hops, generation = table.lookup(packed)
    for address, hop in zip(addresses, hops):
        print(address, hop)
    print("generation", generation)
    table.close()


if __name__ == "__main__":
    main()

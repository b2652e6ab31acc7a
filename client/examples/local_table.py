#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Lookups in a table inside this process, which follows a server, in numpy arrays.

    local_table.py [--table=NAME] [--tls_ca=FILE] [--tls_cert=FILE --tls_key=FILE]
                   LIBRARY SERVER ADDRESS...

LIBRARY is libplanb_local.so. Prints the next hop of each IPv6 address, and the
generation of the answers.
"""

import argparse
import ctypes
import ipaddress

import numpy as np


class Options(ctypes.Structure):
    """planb_local_options."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("server", ctypes.c_char_p),
        ("table", ctypes.c_char_p),
        ("timeout_ms", ctypes.c_int64),
        ("max_staleness_ms", ctypes.c_int64),
        ("tls_ca", ctypes.c_char_p),
        ("tls_cert", ctypes.c_char_p),
        ("tls_key", ctypes.c_char_p),
        ("tls_server_name", ctypes.c_char_p),
    ]


class LocalTable:
    """A replica of a server's table.

    `tls` has the options tls_ca, tls_cert, tls_key and tls_server_name. With one of
    them the connection has TLS.
    """

    def __init__(self, library, server, table=None, timeout=10.0, **tls):
        self._c = ctypes.CDLL(library)
        self._c.planb_local_generation.restype = ctypes.c_uint64
        self._table = ctypes.c_void_p()
        options = Options(
            size=ctypes.sizeof(Options), server=server.encode(),
            table=table and table.encode(), timeout_ms=int(timeout * 1000),
            **{name: value and value.encode() for name, value in tls.items()})
        error = ctypes.create_string_buffer(256)
        code = self._c.planb_local_follow(
            ctypes.byref(options), ctypes.byref(self._table), error,
            ctypes.c_size_t(len(error)))
        if code:
            raise RuntimeError(f"code {code}: {error.value.decode()}")

    def lookup(self, addresses, out=None):
        """The next hops (uint32) of packed addresses, and their generation.

        `addresses` are rows of uint8: 16 columns for IPv6, 4 for IPv4. The library
        reads them in place, and writes into `out` if that is given: neither is
        copied, so both have to be contiguous.
        """
        rows, columns = addresses.shape
        if addresses.dtype != np.uint8 or columns not in (16, 4):
            raise ValueError("addresses are rows of 16 or 4 uint8")
        if out is None:
            out = np.empty(rows, np.uint32)
        elif out.dtype != np.uint32 or out.shape != (rows,):
            raise ValueError("out is a uint32 for each address")
        if not (addresses.flags.c_contiguous and out.flags.carray):
            raise ValueError("the arrays are not contiguous, or out is read-only")
        call = (self._c.planb_local_lookup_v6 if columns == 16
                else self._c.planb_local_lookup_v4)
        generation = ctypes.c_uint64()
        # ctypes lets other threads run during the call.
        code = call(
            self._table, ctypes.c_void_p(addresses.ctypes.data),
            ctypes.c_size_t(rows), ctypes.c_void_p(out.ctypes.data),
            ctypes.byref(generation))
        if code:
            raise RuntimeError(f"the lookup failed with code {code}")
        return out, generation.value

    def wait(self, generation, timeout=10.0):
        """True once lookups are answered from that generation or a later one."""
        return self._c.planb_local_wait(
            self._table, ctypes.c_uint64(generation),
            ctypes.c_int64(int(timeout * 1000))) == 0

    def close(self):
        self._c.planb_local_close(self._table)
        self._table = None


def main():
    parser = argparse.ArgumentParser()
    for name in ("table", "tls_ca", "tls_cert", "tls_key", "tls_server_name"):
        parser.add_argument("--" + name)
    parser.add_argument("library")
    parser.add_argument("server")
    parser.add_argument("address", nargs="+")
    options = vars(parser.parse_args())
    addresses = options.pop("address")
    table = LocalTable(**options)
    packed = b"".join(ipaddress.IPv6Address(a).packed for a in addresses)
    hops, generation = table.lookup(
        np.frombuffer(packed, np.uint8).reshape(-1, 16))
    for address, hop in zip(addresses, hops):
        print(address, hop)
    print("generation", generation)
    table.close()


if __name__ == "__main__":
    main()

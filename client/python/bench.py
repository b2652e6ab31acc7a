# SPDX-License-Identifier: Apache-2.0

"""Measures lookups a second of one process, at several sizes of batches.

    bench.py TARGET [--seconds=3] [--in_flight=4] [--aio] [BATCH...]

The addresses are a million random ones in 2000::/3, as planbctl bench has.
"""

import argparse
import asyncio
import time

import numpy as np

import planb_lookup


def batches_of(batch, options):
    """Arrays to send, until the time is over."""
    rows = np.random.default_rng(1).integers(256, size=(1 << 20, 16), dtype=np.uint8)
    rows[:, 0] = rows[:, 0] & 0x1F | 0x20
    begin = time.monotonic()
    while time.monotonic() < begin + options.seconds:
        for first in range(0, len(rows), batch):
            yield rows[first:first + batch]


def run(batch, options):
    with planb_lookup.Client(options.target) as client:
        with client.stream(in_flight=options.in_flight) as stream:
            batches = batches_of(batch, options)
            stream.lookup(next(batches))  # connects
            begin, answered = time.monotonic(), 0
            for result in stream.map(batches):
                answered += len(result.next_hops)
    return answered / (time.monotonic() - begin)


async def run_async(batch, options):
    async with planb_lookup.AsyncClient(options.target) as client:
        async with client.stream(in_flight=options.in_flight) as stream:
            batches = batches_of(batch, options)
            await stream.lookup(next(batches))
            begin, answered = time.monotonic(), 0
            async for result in stream.map(batches):
                answered += len(result.next_hops)
    return answered / (time.monotonic() - begin)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("batches", nargs="*", type=int,
                        default=[4096, 16384, 65536])
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--in_flight", type=int, default=4)
    parser.add_argument("--aio", action="store_true")
    options = parser.parse_args()
    for batch in options.batches:
        rate = (asyncio.run(run_async(batch, options)) if options.aio
                else run(batch, options))
        print(f"{batch:6} addresses a batch: {rate / 1e6:6.1f} M addresses/s",
              flush=True)


if __name__ == "__main__":
    main()

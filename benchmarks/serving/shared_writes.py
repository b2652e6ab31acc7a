#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0

"""Updates per second that servers acknowledge on a shared store, beside each other.

    benchmarks/serving/shared_writes.py [--repeats=N] [--seconds=S] SERVER [SERVER...]

Each SERVER is a planb_server binary, such as one of an older commit. All share one etcd
of this machine, each under a key of its own, and take turns. A caller sends one update
after another: routes one by one, batches of 1,000 routes, and withdrawals of an absent
prefix, which store nothing but have to know that the server's head is the newest.
Prints the median updates per second, their range, and the ratio to the first server.
"""

import argparse
import contextlib
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import grpc

PREFIXES = 100_000
ROOT = pathlib.Path(__file__).resolve().parents[2]


def free_port():
    with contextlib.closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def messages(folder):
    """The contract's Python module, generated into `folder`."""
    proto = ROOT / "proto"
    subprocess.run(["protoc", f"-I{proto}", f"--python_out={folder}",
                    *map(str, proto.glob("planb/v1/*.proto"))], check=True)
    sys.path.insert(0, folder)
    from planb.v1 import route_table_pb2  # pylint: disable=import-error
    return route_table_pb2


class Writer:
    """A server and a caller of its UpdateRoutes."""

    def __init__(self, pb2, binary, etcd, folder, number):
        self.pb2 = pb2
        address = f"unix:{folder}/{number}.sock"
        self.process = subprocess.Popen(
            [binary, f"--listen={address.replace('unix:', 'unix://')}",
             "--metrics_address=", f"--store=etcd://{etcd}/bench{number}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        channel = grpc.insecure_channel(address)
        grpc.channel_ready_future(channel).result(timeout=30)
        self.call = channel.unary_unary(
            "/planb.v1.RouteTable/UpdateRoutes",
            request_serializer=pb2.UpdateRoutesRequest.SerializeToString,
            response_deserializer=pb2.UpdateRoutesResponse.FromString)
        self.next = 0

    def request(self, routes):
        request = self.pb2.UpdateRoutesRequest()
        if not routes:
            request.updates.add(op=self.pb2.RouteUpdate.OP_DELETE).prefix.text = "::/0"
        for _ in range(routes):
            self.next += 1
            update = request.updates.add(op=self.pb2.RouteUpdate.OP_UPSERT,
                                         next_hop_id=1 + self.next // PREFIXES)
            update.prefix.address = (0x2001 << 112 | self.next % PREFIXES << 64).to_bytes(
                16, "big")
            update.prefix.length = 64
        return request

    def per_second(self, routes, seconds):
        began = time.monotonic()
        calls = 0
        while time.monotonic() < began + seconds:
            self.call(self.request(routes), timeout=30)
            calls += 1
        return calls / (time.monotonic() - began)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("servers", nargs="+", metavar="SERVER")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2)
    arguments = parser.parse_args()
    with contextlib.ExitStack() as ends:
        folder = ends.enter_context(tempfile.TemporaryDirectory(prefix="planb_shared."))
        pb2 = messages(folder)
        client, peer = free_port(), free_port()
        etcd = subprocess.Popen(
            ["etcd", "--name=default", f"--data-dir={folder}/etcd",
             f"--listen-client-urls=http://127.0.0.1:{client}",
             f"--advertise-client-urls=http://127.0.0.1:{client}",
             f"--listen-peer-urls=http://127.0.0.1:{peer}",
             f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
             f"--initial-cluster=default=http://127.0.0.1:{peer}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ends.callback(etcd.kill)
        writers = []
        for number, binary in enumerate(arguments.servers):
            writers.append(Writer(pb2, binary, f"127.0.0.1:{client}", folder, number))
            ends.callback(writers[-1].process.kill)
        for name, routes in (("one route", 1), ("1,000 routes", 1000),
                             ("no change", 0)):
            rates = [[] for _ in writers]
            for _ in range(arguments.repeats):
                for writer, of_writer in zip(writers, rates):
                    of_writer.append(writer.per_second(routes, arguments.seconds))
            first = statistics.median(rates[0])
            for binary, of_writer in zip(arguments.servers, rates):
                median = statistics.median(of_writer)
                print(f"{name:>12}  {median:8.1f}/s  ({min(of_writer):.1f} to "
                      f"{max(of_writer):.1f})  {median / first:.2f}  {binary}", flush=True)


if __name__ == "__main__":
    main()

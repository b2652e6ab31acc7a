# SPDX-License-Identifier: Apache-2.0

"""The blocking client."""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import grpc
import numpy as np

from planb_lookup import _calls, _codec
from planb_lookup._directory import NextHopDirectory
from planb_lookup._pipeline import (
    Pipeline, Streams, closed_error, keep, keep_at_exit, keep_if_lost, own,
    require_threads)
from planb_lookup.v1 import route_table_pb2, types_pb2

_T = TypeVar("_T")

CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", 16 << 20),
    ("grpc.max_send_message_length", 16 << 20),
    # As in the C++ library: a restarted server is found again soon.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
    # Of no pause between attempts, but the time that each of them gets at least:
    # TLS takes several round trips. One that is refused is repeated before.
    ("grpc.min_reconnect_backoff_ms", 5000),
    # Pings find out that a server is silent for good, also if nothing is sent. It
    # closes connections with pings more often than every 10 s
    # (--min_ping_interval). A ping that is late by the timeout ends the connection:
    # two never come closer than the difference.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
)

_SCHEMES = ("unix:", "unix-abstract:", "vsock:", "dns:", "ipv4:", "ipv6:", "xds:")


def check_target(target: str) -> None:
    """Refuses ports that gRPC takes modulo 65536, and names that it never reaches."""
    host, _, port = target.rpartition(":")
    bare = ":" in host and not host.startswith("[")
    if not target.startswith(_SCHEMES) and (
            not host or bare or not (port.isascii() and port.isdigit())
            or not 0 < int(port) < 1 << 16):
        raise ValueError(f"target: {target!r} is neither HOST:PORT, with a port of "
                         "1 to 65535, nor unix:///PATH")


class Client(Streams["Stream"]):
    """One connection to a server. Thread-safe. The first call makes it; after that
    a fork of the process cannot use this library.

    `target` is "unix:///run/planb/planb.sock", "host:port" or "[::1]:50051".
    Without `credentials` (grpc.ssl_channel_credentials) it is plaintext. `table`
    is the table of calls that name none, `timeout` bounds calls, in seconds.
    """

    def __init__(self, target: str, *, table: str = "", timeout: float = 30.0,
                 credentials: grpc.ChannelCredentials | None = None,
                 channel_options: Sequence[tuple[str, Any]] = ()) -> None:
        check_target(target)
        options = [*CHANNEL_OPTIONS, *channel_options]

        # Without serializers calls take and return bytes, unknown to the stubs.
        def connect() -> Any:
            return (grpc.insecure_channel(target, options) if credentials is None
                    else grpc.secure_channel(target, credentials, options))
        super().__init__(Stream, connect, table, timeout)
        keep_at_exit(self)

    def close(self) -> None:
        if self._end():
            self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def lookup(self, addresses: _codec.Addresses, *,
               flow_hashes: _codec.Hops | None = None, table: str | None = None,
               min_generation: int = 0, timeout: float | None = None,
               batch_size: int = 16384, require_complete: bool = False
               ) -> _codec.Hops:
        """The ids of next hops, 0 for "no route", in the order of `addresses`.

        Makes a stream for this call. A large array is sent in batches, and each is
        answered from one generation. A program that looks up often keeps a
        Stream. With `require_complete` it waits until the table is complete.
        """
        with self._lookup_stream(table, min_generation, timeout, batch_size,
                                 require_complete) as stream:
            return stream.lookup(addresses, flow_hashes=flow_hashes)

    def resolve(self, addresses: _codec.Addresses, *,
                flow_hashes: Sequence[int] | None = None,
                table: str | None = None, min_generation: int = 0,
                timeout: float | None = None, require_complete: bool = False
                ) -> list[_calls.Answer]:
        """The next hops with their attributes, and the prefixes that matched.

        For few addresses: each takes microseconds. With `require_complete` a table
        that is not complete is an error that is retryable.
        """
        answers: list[_calls.Answer] = []
        for piece, hashes in _calls.resolved_pieces(addresses, flow_hashes):
            call = _calls.resolve(self._name(table), piece, hashes,
                                  min_generation, require_complete)
            found = self._call(call, timeout)
            answers += found
        return answers

    def follow_next_hops(self, *, table: str | None = None,
                         timeout: float | None = None,
                         max_objects: int = 2_000_000) -> NextHopDirectory:
        """What the ids of a table mean, kept up to date. Close it before this.

        Returns when the objects are there. A table of more objects and groups than
        `max_objects` is refused.
        """
        return NextHopDirectory(
            self._begin(), self._name(table),
            self._timeout if timeout is None else timeout, max_objects)

    def announce(self, routes: _calls.Routes, *, table: str | None = None,
                 timeout: float | None = None, ack: _calls.Ack = "visible",
                 expected_generation: int | None = None,
                 validate_only: bool = False, request_id: str = "",
                 require_next_hops: bool = False, writer_epoch: int = 0,
                 complete: bool | None = None
                 ) -> route_table_pb2.UpdateRoutesResponse:
        """Inserts routes or changes their next hops: all or none.

        A NextHop instead of an id is written in the same generation. The fields of
        UpdateRoutesRequest describe the options.
        """
        return self._call(_calls.announce(
            self._name(table), routes, ack=ack,
            expected_generation=expected_generation, validate_only=validate_only,
            request_id=request_id, require_next_hops=require_next_hops,
            writer_epoch=writer_epoch, complete=complete), timeout)

    def withdraw(self, prefixes: Iterable[str | _calls.IpNetwork], *,
                 table: str | None = None, timeout: float | None = None,
                 ack: _calls.Ack = "visible",
                 expected_generation: int | None = None,
                 validate_only: bool = False, request_id: str = "",
                 writer_epoch: int = 0) -> route_table_pb2.UpdateRoutesResponse:
        """Withdraws routes: all or none. A prefix without a route is no error."""
        return self._call(_calls.withdraw(
            self._name(table), prefixes, ack=ack,
            expected_generation=expected_generation, validate_only=validate_only,
            request_id=request_id, writer_epoch=writer_epoch), timeout)

    def status(self, table: str | None = None, *, timeout: float | None = None
               ) -> types_pb2.Table:
        """The state of a table."""
        return self._call(_calls.status(self._name(table)), timeout)

    def _call(self, call: _calls.Call[_T], timeout: float | None) -> _T:
        channel = self._begin()
        try:
            reply = channel.unary_unary(call.method)(
                call.request, timeout=self._timeout if timeout is None else timeout)
        except grpc.RpcError as failure:
            raise _codec.error_of(failure) from None
        return call.convert(reply)


class Stream:
    """Batches on one stream, several in flight. Made by Client.stream.

    For one thread at a time. Opens another stream when the server goes away, and
    sends all unanswered batches again.
    """

    def __init__(self, method: Any, pipeline: Pipeline) -> None:
        self._method = method  # a multi-callable of gRPC, of bytes
        self._pipeline = pipeline
        self._call: Any = None
        # The messages that gRPC has not taken; None ends the requests.
        self._requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        keep_at_exit(self)

    def close(self) -> None:
        """Ends the stream. Batches in flight get no result.

        Another thread that waits for one gets an Error.
        """
        self._pipeline.drop()
        self._hang_up()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self._hang_up()

    @property
    def reconnects(self) -> int:
        """How often the stream was lost. Generations may go back only then."""
        return self._pipeline.reconnects

    def send(self, rows: _codec.Rows, flow_hashes: _codec.Hops | None = None
             ) -> int:
        """Sends one batch and returns its id: 1, 2, ...

        The array may be changed afterwards. Waits while `in_flight` batches are
        unanswered.
        """
        rows = _codec.checked_rows(rows)
        hashes = _codec.checked_hashes(flow_hashes, len(rows))
        while self._pipeline.full:
            self._take()
        message = self._pipeline.add(rows, hashes)
        if self._call is not None:
            self._requests.put(message)
        else:
            self._dial()
        return self._pipeline.unanswered[-1][0]

    def receive(self) -> _codec.Result:
        """The next result, in the order of the batches. Waits for it.

        A batch that failed has its `error`, and the stream continues. Raises Error
        if the stream ended.
        """
        return own(self._receive())

    def map(self, batches: Iterable[_codec.Rows]) -> Iterator[_codec.Result]:
        """The results of `batches`, which are sent ahead of the answers."""
        self._pipeline.require_idle()
        for rows in batches:
            self.send(rows)
            while self._pipeline.results or self._pipeline.full:
                yield self.receive()
        while self._pipeline.unanswered or self._pipeline.results:
            yield self.receive()

    def lookup(self, addresses: _codec.Addresses, *,
               flow_hashes: _codec.Hops | None = None,
               out: _codec.Hops | None = None) -> _codec.Hops:
        """The next hops of all `addresses`, in `out` if that is given.

        Raises the Error of the first batch that failed.
        """
        self._pipeline.require_idle()
        out = _codec.checked_out(out, len(addresses))
        hashes = _codec.checked_hashes(flow_hashes, len(out))
        if isinstance(addresses, np.ndarray):
            self._lookup_rows(_codec.checked_rows(addresses), hashes, out)
            return out
        v6, v4, is_v6 = _codec.pack(addresses)
        for rows, mask in ((v6, is_v6), (v4, ~is_v6)):
            if len(rows):
                part = np.empty(len(rows), np.uint32)
                self._lookup_rows(
                    rows, None if hashes is None else hashes[mask], part)
                out[mask] = part
        return out

    def _lookup_rows(self, rows: _codec.Rows, hashes: _codec.Hops | None,
                     out: _codec.Hops) -> None:
        places: deque[slice] = deque()
        try:
            for piece in self._pipeline.pieces(len(rows)):
                if self._pipeline.full:
                    self._store(out, places.popleft())
                self.send(rows[piece], None if hashes is None else hashes[piece])
                places.append(piece)
            while places:
                self._store(out, places.popleft())
        except BaseException:
            self.close()  # What is in flight has no reader any more.
            raise

    def _store(self, out: _codec.Hops, place: slice) -> None:
        result = self._receive()
        if result.error is not None:
            raise result.error
        out[place] = result.next_hops

    def _receive(self) -> _codec.Result:
        if not self._pipeline.results:
            if not self._pipeline.unanswered:
                raise RuntimeError("no batch is in flight")
            self._take()
        return self._pipeline.results.popleft()

    def _take(self) -> None:
        """Waits for a reply, on as many calls as it takes."""
        require_threads()
        while True:
            if self._call is None:
                self._dial()
            call = self._call
            try:
                reply = next(call)
                if not self._pipeline.unanswered:
                    raise closed_error()
                self._pipeline.take(reply)
                return
            except StopIteration:
                why = _codec.Error(grpc.StatusCode.INTERNAL,
                                   "the server ended the stream")
            except grpc.RpcError as failure:
                why = _codec.error_of(failure)
            except _codec.Error as error:
                why = error
            except BaseException:
                # Of a signal, perhaps with the lock of the call: it is not touched
                # again, and ends when the server has read all requests.
                keep(call)
                self._requests.put(None)
                self._call = None
                raise
            self._hang_up()
            if not self._pipeline.unanswered:
                raise closed_error()
            time.sleep(self._pipeline.lost(why))

    def _dial(self) -> None:
        self._requests = queue.SimpleQueue()
        for _, _, message in self._pipeline.unanswered:
            self._requests.put(message)
        self._call = self._method(iter(self._requests.get, None),
                                  timeout=self._pipeline.remaining())

    def _hang_up(self) -> None:
        call, self._call = self._call, None
        if call is not None and not keep_if_lost(call):
            self._requests.put(None)  # gRPC's thread ends.
            call.cancel()

# SPDX-License-Identifier: Apache-2.0

"""The client for asyncio: that of _client.py, method by method."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, TypeVar

import grpc
import numpy as np

from planb_lookup import _calls, _codec
from planb_lookup._client import CHANNEL_OPTIONS, check_target
from planb_lookup._pipeline import (
    Pipeline, Streams, closed_error, keep_if_lost, own, require_threads)
from planb_lookup.v1 import route_table_pb2, types_pb2

_T = TypeVar("_T")
_EOF: Any = getattr(grpc.aio, "EOF")  # missing in the stubs of some versions


def _task_is_cancelled() -> bool:
    """False if a close() ended the call instead. Python 3.10 cannot tell."""
    cancelling = getattr(asyncio.current_task(), "cancelling", None)
    return cancelling is None or cancelling() > 0


class AsyncClient(Streams["AsyncStream"]):
    """Client for asyncio. For the event loop of its first call."""

    def __init__(self, target: str, *, table: str = "", timeout: float = 30.0,
                 credentials: grpc.ChannelCredentials | None = None,
                 channel_options: Sequence[tuple[str, Any]] = ()) -> None:
        check_target(target)
        options = [*CHANNEL_OPTIONS, *channel_options]

        # Without serializers calls take and return bytes, unknown to the stubs.
        def connect() -> Any:
            return (grpc.aio.insecure_channel(target, options) if credentials is None
                    else grpc.aio.secure_channel(target, credentials, options))
        super().__init__(AsyncStream, connect, table, timeout)

    async def close(self) -> None:
        if self._end():
            await self._channel.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def lookup(self, addresses: _codec.Addresses, *,
                     flow_hashes: _codec.Hops | None = None,
                     table: str | None = None, min_generation: int = 0,
                     timeout: float | None = None, batch_size: int = 16384,
                     require_complete: bool = False) -> _codec.Hops:
        """As Client.lookup."""
        async with self._lookup_stream(table, min_generation, timeout, batch_size,
                                       require_complete) as stream:
            return await stream.lookup(addresses, flow_hashes=flow_hashes)

    async def resolve(self, addresses: _codec.Addresses, *,
                      flow_hashes: Sequence[int] | None = None,
                      table: str | None = None, min_generation: int = 0,
                      timeout: float | None = None, require_complete: bool = False
                      ) -> list[_calls.Answer]:
        """As Client.resolve."""
        answers: list[_calls.Answer] = []
        for piece, hashes in _calls.resolved_pieces(addresses, flow_hashes):
            call = _calls.resolve(self._name(table), piece, hashes,
                                  min_generation, require_complete)
            found = await self._call(call, timeout)
            answers += found
        return answers

    async def announce(self, routes: _calls.Routes, *, table: str | None = None,
                       timeout: float | None = None, ack: _calls.Ack = "visible",
                       expected_generation: int | None = None,
                       validate_only: bool = False, request_id: str = "",
                       require_next_hops: bool = False, writer_epoch: int = 0,
                       complete: bool | None = None
                       ) -> route_table_pb2.UpdateRoutesResponse:
        """As Client.announce."""
        return await self._call(_calls.announce(
            self._name(table), routes, ack=ack,
            expected_generation=expected_generation, validate_only=validate_only,
            request_id=request_id, require_next_hops=require_next_hops,
            writer_epoch=writer_epoch, complete=complete), timeout)

    async def withdraw(self, prefixes: Iterable[str | _calls.IpNetwork], *,
                       table: str | None = None, timeout: float | None = None,
                       ack: _calls.Ack = "visible",
                       expected_generation: int | None = None,
                       validate_only: bool = False, request_id: str = "",
                       writer_epoch: int = 0
                       ) -> route_table_pb2.UpdateRoutesResponse:
        """As Client.withdraw."""
        return await self._call(_calls.withdraw(
            self._name(table), prefixes, ack=ack,
            expected_generation=expected_generation, validate_only=validate_only,
            request_id=request_id, writer_epoch=writer_epoch), timeout)

    async def status(self, table: str | None = None, *,
                     timeout: float | None = None) -> types_pb2.Table:
        """As Client.status."""
        return await self._call(_calls.status(self._name(table)), timeout)

    async def _call(self, call: _calls.Call[_T], timeout: float | None) -> _T:
        channel = self._begin()
        try:
            reply = await channel.unary_unary(call.method)(
                call.request, timeout=self._timeout if timeout is None else timeout)
        except grpc.aio.AioRpcError as failure:
            raise _codec.error_of(failure) from None
        except asyncio.CancelledError:
            if _task_is_cancelled():
                raise
            raise closed_error() from None
        return call.convert(reply)


class AsyncStream:
    """Stream for asyncio. Made by AsyncClient.stream. For one task at a time.

    A cancelled receive() loses no batch: the next one sends it again.
    """

    def __init__(self, method: Any, pipeline: Pipeline) -> None:
        self._method = method  # a multi-callable of gRPC, of bytes
        self._pipeline = pipeline
        self._call: Any = None
        # The messages that gRPC has not taken; None ends the requests.
        self._requests: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def close(self) -> None:
        """Ends the stream. Batches in flight get no result."""
        self._pipeline.drop()
        self._hang_up()

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __del__(self) -> None:
        try:
            self._hang_up()
        except RuntimeError:  # the loop is closed, and all its calls with it
            pass

    @property
    def reconnects(self) -> int:
        """As Stream.reconnects."""
        return self._pipeline.reconnects

    async def send(self, rows: _codec.Rows,
                   flow_hashes: _codec.Hops | None = None) -> int:
        """As Stream.send."""
        rows = _codec.checked_rows(rows)
        hashes = _codec.checked_hashes(flow_hashes, len(rows))
        while self._pipeline.full:
            await self._take()
        message = self._pipeline.add(rows, hashes)
        if self._call is not None:
            self._requests.put_nowait(message)
        else:
            self._dial()
        return self._pipeline.unanswered[-1][0]

    async def receive(self) -> _codec.Result:
        """As Stream.receive."""
        return own(await self._receive())

    async def map(self, batches: Iterable[_codec.Rows]
                  ) -> AsyncIterator[_codec.Result]:
        """As Stream.map."""
        self._pipeline.require_idle()
        for rows in batches:
            await self.send(rows)
            while self._pipeline.results or self._pipeline.full:
                yield await self.receive()
        while self._pipeline.unanswered or self._pipeline.results:
            yield await self.receive()

    async def lookup(self, addresses: _codec.Addresses, *,
                     flow_hashes: _codec.Hops | None = None,
                     out: _codec.Hops | None = None) -> _codec.Hops:
        """As Stream.lookup."""
        self._pipeline.require_idle()
        out = _codec.checked_out(out, len(addresses))
        hashes = _codec.checked_hashes(flow_hashes, len(out))
        if isinstance(addresses, np.ndarray):
            await self._lookup_rows(_codec.checked_rows(addresses), hashes, out)
            return out
        v6, v4, is_v6 = _codec.pack(addresses)
        for rows, mask in ((v6, is_v6), (v4, ~is_v6)):
            if len(rows):
                part = np.empty(len(rows), np.uint32)
                await self._lookup_rows(
                    rows, None if hashes is None else hashes[mask], part)
                out[mask] = part
        return out

    async def _lookup_rows(self, rows: _codec.Rows, hashes: _codec.Hops | None,
                           out: _codec.Hops) -> None:
        places: deque[slice] = deque()
        try:
            for piece in self._pipeline.pieces(len(rows)):
                if self._pipeline.full:
                    await self._store(out, places.popleft())
                await self.send(rows[piece],
                                None if hashes is None else hashes[piece])
                places.append(piece)
            while places:
                await self._store(out, places.popleft())
        except BaseException:
            await self.close()  # What is in flight has no reader any more.
            raise

    async def _store(self, out: _codec.Hops, place: slice) -> None:
        result = await self._receive()
        if result.error is not None:
            raise result.error
        out[place] = result.next_hops

    async def _receive(self) -> _codec.Result:
        if not self._pipeline.results:
            if not self._pipeline.unanswered:
                raise RuntimeError("no batch is in flight")
            await self._take()
        return self._pipeline.results.popleft()

    async def _take(self) -> None:
        """Waits for a reply, on as many calls as it takes."""
        require_threads()
        while True:
            if self._call is None:
                self._dial()
            try:
                reply = await self._call.read()
                if reply is not _EOF:
                    self._pipeline.take(reply)
                    return
                why = _codec.Error(grpc.StatusCode.INTERNAL,
                                   "the server ended the stream")
            except grpc.aio.AioRpcError as failure:
                why = _codec.error_of(failure)
            except _codec.Error as error:
                why = error
            except asyncio.CancelledError:
                self._hang_up()
                if _task_is_cancelled():
                    raise
                raise closed_error() from None
            self._hang_up()
            await asyncio.sleep(self._pipeline.lost(why))

    def _dial(self) -> None:
        self._requests = asyncio.Queue()
        for _, _, message in self._pipeline.unanswered:
            self._requests.put_nowait(message)
        self._call = self._method(_until_none(self._requests),
                                  timeout=self._pipeline.remaining())

    def _hang_up(self) -> None:
        call, self._call = self._call, None
        if call is not None and not keep_if_lost(call):
            self._requests.put_nowait(None)
            call.cancel()


async def _until_none(requests: asyncio.Queue[bytes | None]
                      ) -> AsyncIterator[bytes]:
    while (message := await requests.get()) is not None:
        yield message

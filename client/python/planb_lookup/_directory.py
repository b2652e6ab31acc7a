# SPDX-License-Identifier: Apache-2.0

"""What the ids of next hops mean, without a call for each."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from planb_lookup import _calls, _codec
from planb_lookup._pipeline import Backoff, require_threads, threads_lost
from planb_lookup.v1 import route_table_pb2, types_pb2

_CALL_TIME = 30.0
# Between attempts, whatever the server asks: a lock cannot wait for any time.
_LONGEST_REST = 86_400.0
# Besides those that are retryable, they may pass without a change at the server.
_PASSES = (grpc.StatusCode.OUT_OF_RANGE, grpc.StatusCode.RESOURCE_EXHAUSTED,
           grpc.StatusCode.DEADLINE_EXCEEDED)


@dataclasses.dataclass(frozen=True)
class NextHopGroup:
    """Next hops that share traffic: their ids with weights."""

    id: int
    members: tuple[tuple[int, int], ...]
    label: str = ""


@dataclasses.dataclass(frozen=True)
class NextHops:
    """The objects and groups of a table at one generation. Nothing changes them."""

    generation: int
    next_hops: Mapping[int, _calls.NextHop]
    groups: Mapping[int, NextHopGroup]


class NextHopDirectory:
    """Follows the next hops and groups of a table: see Client.follow_next_hops.

    A thread follows (GetTable, ListNextHops, WatchRoutes). While the server is away
    the last objects stay, and `error` says so; then they are what the server says:
    none, if it lost its table. Thread-safe; `now` never waits, so asyncio may read.
    """

    def __init__(self, channel: Any, table: str, timeout: float,
                 max_objects: int) -> None:
        self._channel = channel
        self._table = table
        self._max_objects = max_objects
        # `with` the condition could keep the lock after a signal's exception.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._now: NextHops | None = None
        self._error: _codec.Error | None = _codec.Error(
            grpc.StatusCode.UNAVAILABLE, "the server was not heard yet")
        self._closing = False
        self._calls: list[Any] = []  # that close() ends
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        try:
            with self._lock:
                self._changed.wait_for(
                    lambda: self._now is not None or not self._passes(), timeout)
                if self._now is None:
                    assert self._error is not None
                    if not self._passes():
                        raise self._error
                    raise _codec.Error(
                        grpc.StatusCode.DEADLINE_EXCEEDED,
                        f"the next hops were not there in time: {self._error}")
        except BaseException:
            self.close()
            raise

    @property
    def now(self) -> NextHops:
        """The newest objects, as one generation has them."""
        assert self._now is not None
        return self._now

    @property
    def error(self) -> _codec.Error | None:
        """None while the table is followed; else why `now` may be stale."""
        if threads_lost():
            return _codec.Error(grpc.StatusCode.UNAVAILABLE,
                                "the table is followed by the process that forked")
        return self._error

    def wait(self, generation: int, timeout: float | None = None) -> bool:
        """True once `now` is of that generation or a later one. False after `timeout`
        seconds, and when the directory is closed."""
        require_threads()
        with self._lock:
            self._changed.wait_for(
                lambda: self.now.generation >= generation or self._closing, timeout)
            return self.now.generation >= generation

    def close(self) -> None:
        if threads_lost():
            return
        with self._lock:
            self._closing = True
            self._hang_up()
            self._changed.notify_all()
        self._thread.join()

    def __enter__(self) -> NextHopDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _passes(self) -> bool:
        return (self._error is None or self._error.retryable
                or self._error.code in _PASSES)

    def _run(self) -> None:
        backoff = Backoff()
        while not self._closing:
            began = time.monotonic()
            try:
                self._follow()
            except grpc.RpcError as failure:
                error = _codec.error_of(failure)
            except _codec.Error as why:
                error = why
            except (ValueError, DecodeError) as fault:
                # The channel is closed, or a message is malformed.
                error = _codec.Error(grpc.StatusCode.CANCELLED, str(fault))
            # A watch that fails soon after its start, each time, is not opened at
            # once again.
            if time.monotonic() - began > Backoff.LONGEST:
                backoff.reset()
            with self._lock:
                self._error = error
                self._changed.notify_all()
                self._hang_up()
                self._changed.wait_for(lambda: self._closing,
                                       min(backoff.after(error), _LONGEST_REST))

    def _hang_up(self) -> None:
        """Ends all calls. The lock is held."""
        for call in self._calls:
            call.cancel()
        self._calls.clear()

    def _open(self, method: str, request: Any, timeout: float | None) -> Any:
        """The replies of a call, which close() ends."""
        with self._lock:
            if self._closing:
                raise _codec.Error(grpc.StatusCode.CANCELLED, "closed")
            call = self._channel.unary_stream(f"/planb.v1.RouteTable/{method}")(
                request.SerializeToString(), timeout=timeout)
            self._calls.append(call)
            return call

    def _follow(self) -> None:
        # One reply is a stream too, which close() can end.
        start = types_pb2.Table.FromString(next(self._open(
            "GetTable", route_table_pb2.GetTableRequest(table=self._table),
            _CALL_TIME), b"")).visible_generation
        watch = self._open("WatchRoutes", route_table_pb2.WatchRoutesRequest(
            table=self._table, start_generation=start), None)
        # The watch is open before the list is made, so that a server that restarts
        # in between, perhaps with another table, ends it.
        message = next(watch, None)
        now = self._list(start)
        self._publish(now)
        part: list[route_table_pb2.WatchRoutesResponse] = []
        while message is not None:
            change = route_table_pb2.WatchRoutesResponse.FromString(message)
            if change.reset:
                raise _codec.Error(grpc.StatusCode.INTERNAL,
                                   "a whole table came that was not asked for")
            if change.generation > now.generation:
                del change.updates[:]
                part.append(change)
                if change.generation_complete:
                    now = _changed(now, part)
                    part = []
                    self._publish(now)
            message = next(watch, None)
        raise _codec.Error(grpc.StatusCode.UNAVAILABLE, "the server ended the watch")

    def _list(self, least: int) -> NextHops:
        generation = 0
        next_hops: dict[int, _calls.NextHop] = {}
        groups: dict[int, NextHopGroup] = {}
        for message in self._open("ListNextHops", route_table_pb2.ListNextHopsRequest(
                table=self._table), _CALL_TIME):
            chunk = route_table_pb2.ListNextHopsResponse.FromString(message)
            generation = chunk.generation
            _set(next_hops, groups, chunk.next_hops, chunk.groups)
            self._check(len(next_hops) + len(groups))
        if generation < least:
            raise _codec.Error(
                grpc.StatusCode.UNAVAILABLE,
                f"the server that lists is at generation {generation}, before {least} "
                "of the one that is watched")
        return NextHops(generation, next_hops, groups)

    def _check(self, objects: int) -> None:
        if objects > self._max_objects:
            raise _codec.Error(
                grpc.StatusCode.FAILED_PRECONDITION, "the table has more than "
                f"{self._max_objects} next hops and groups")

    def _publish(self, now: NextHops) -> None:
        self._check(len(now.next_hops) + len(now.groups))
        with self._lock:
            self._now = now
            self._error = None
            self._changed.notify_all()


def _set(next_hops: dict[int, _calls.NextHop], groups: dict[int, NextHopGroup],
         new_next_hops: Iterable[types_pb2.NextHop],
         new_groups: Iterable[types_pb2.NextHopGroup]) -> None:
    for next_hop in new_next_hops:
        next_hops[next_hop.id] = _calls.next_hop_of(next_hop)
    for group in new_groups:
        groups[group.id] = NextHopGroup(
            group.id, tuple((each.next_hop_id, each.weight) for each in group.members),
            group.label)


def _changed(now: NextHops, parts: list[route_table_pb2.WatchRoutesResponse]
             ) -> NextHops:
    """The objects after the changes of a generation."""
    generation = parts[-1].generation
    if not any(part.next_hops or part.groups or part.deleted_next_hop_ids
               or part.deleted_group_ids for part in parts):
        return dataclasses.replace(now, generation=generation)
    next_hops, groups = dict(now.next_hops), dict(now.groups)
    for part in parts:
        for next_hop in part.deleted_next_hop_ids:
            next_hops.pop(next_hop, None)
        for group in part.deleted_group_ids:
            groups.pop(group, None)
        _set(next_hops, groups, part.next_hops, part.groups)
    return NextHops(generation, next_hops, groups)

# SPDX-License-Identifier: Apache-2.0

"""What a stream of batches has in flight, without any input or output.

Stream and AsyncStream share it. A batch is kept until it is answered: after the
connection is lost, all unanswered batches are sent again. Lookups change nothing,
so sending twice is harmless.
"""

from __future__ import annotations

import atexit
import collections
import ctypes
import dataclasses
import os
import random
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import grpc
import numpy as np

from planb_lookup import _calls, _codec
from planb_lookup.v1 import route_lookup_pb2

_S = TypeVar("_S")


# A client has made a channel. gRPC's threads outlast it, and take locks as they end.
_used = False
# gRPC's threads are those of the process that this one was forked from: calls would
# never end, whatever their deadline.
_threads_lost = False
# Clients and streams, which hold channels and calls of gRPC.
_holders: weakref.WeakSet[Any] = weakref.WeakSet()
_holders_lock = threading.Lock()
_exiting = False


def _after_fork_in_child() -> None:
    global _threads_lost, _holders_lock
    _holders_lock = threading.Lock()  # a thread that is gone may have had it
    # Then it is gRPC's to say what works: that of Debian 12 hangs now and then.
    supported = os.environ.get("GRPC_ENABLE_FORK_SUPPORT", "").lower()
    if _used and supported not in ("1", "true", "yes"):
        _threads_lost = True


os.register_at_fork(after_in_child=_after_fork_in_child)


def threads_lost() -> bool:
    return _threads_lost


def closed_error() -> _codec.Error:
    """Of a call that close() ended."""
    return _codec.Error(grpc.StatusCode.CANCELLED, "the client or the stream is closed")


def keep(thing: Any) -> None:
    """`thing` is never deleted, nor what it refers to."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def keep_if_lost(call: Any) -> bool:
    """True in such a fork. `call` then stays for ever: to cancel or to delete it, gRPC may
    wait for a lock that one of those threads has."""
    if _threads_lost:
        keep(call)
    return _threads_lost


def keep_at_exit(holder: Any) -> None:
    """An exit stops gRPC's threads wherever they are, perhaps with the lock of a call.
    Then it deletes all objects, and the deletion of that call would wait for ever."""
    with _holders_lock:
        if _exiting:  # a function that runs at the exit has made it
            keep(holder)
        else:
            _holders.add(holder)


@atexit.register
def _keep_all() -> None:
    global _exiting
    with _holders_lock:
        _exiting = True
        for holder in list(_holders):
            keep(holder)


def require_threads() -> None:
    if _threads_lost:
        raise RuntimeError(
            "this process was forked from one that has made calls, and gRPC does not "
            "work in it: fork before the first call")


class Backoff:
    """The waits between attempts: each twice as long, and what the server asks."""

    FIRST, LONGEST = 0.01, 2.0

    def __init__(self) -> None:
        self._wait = self.FIRST

    def reset(self) -> None:
        self._wait = self.FIRST

    def after(self, why: _codec.Error) -> float:
        """Seconds to wait after an attempt that failed."""
        wait = max(self._wait * random.uniform(0.5, 1), why.retry_after or 0.0)
        self._wait = min(2 * self._wait, self.LONGEST)
        return wait


@dataclasses.dataclass
class Options:
    """How a stream works; `timeout` and `give_up_after` are in seconds."""

    # Batches sent and not answered; at least 1.
    in_flight: int = 4
    # Addresses in each batch of an array that is split.
    batch_size: int = 16384
    # Of the whole stream; None: without a bound.
    timeout: float | None = None
    # The stream ends after the server was away for so long; 0: at once.
    give_up_after: float = 10.0

    def __post_init__(self) -> None:
        if self.in_flight < 1 or self.batch_size < 1:
            raise ValueError("in_flight and batch_size are at least 1")


class Pipeline:
    """Not thread-safe."""

    def __init__(self, options: Options, encoded_options: bytes) -> None:
        self.options = options
        # The messages of unanswered batches: id, addresses, bytes.
        self.unanswered: collections.deque[tuple[int, int, bytes]] = (
            collections.deque())
        # Answered, and not handed out.
        self.results: collections.deque[_codec.Result] = collections.deque()
        self.reconnects = 0
        self._encoded_options = encoded_options
        self._last_id = 0
        self._deadline = (None if options.timeout is None
                          else time.monotonic() + options.timeout)
        self._backoff = Backoff()
        self._away_since: float | None = None

    @property
    def full(self) -> bool:
        return len(self.unanswered) >= self.options.in_flight

    def remaining(self) -> float | None:
        """The timeout of a call that is started now."""
        if self._deadline is None:
            return None
        return max(0.0, self._deadline - time.monotonic())

    def add(self, rows: _codec.Rows, flow_hashes: _codec.Hops | None) -> bytes:
        """The message of another batch, which is now in flight."""
        require_threads()
        self._last_id += 1
        message = _codec.encode_batch(self._last_id, rows, flow_hashes,
                                      self._encoded_options)
        self.unanswered.append((self._last_id, len(rows), message))
        return message

    def take(self, reply: bytes) -> None:
        """Accepts a reply as the next result.

        Raises Error if it is none: the server is draining, the table is not complete,
        or the server broke the contract.
        """
        result = _codec.decode_batch(reply)
        if result.error is not None and result.error.reason in (
                "DRAINING", "TABLE_NOT_COMPLETE"):
            raise result.error
        batch_id, addresses, _ = self.unanswered[0]
        if result.id != batch_id or (
                result.error is None and len(result.next_hops) != addresses):
            raise _codec.Error(
                grpc.StatusCode.INTERNAL,
                f"{len(result.next_hops)} next hops of batch {result.id} came for "
                f"{addresses} addresses of batch {batch_id}")
        lengths = result.prefix_lengths
        if lengths is not None and len(lengths) != addresses:
            raise _codec.Error(grpc.StatusCode.INTERNAL,
                               f"{len(lengths)} prefix lengths came for {addresses} "
                               f"addresses of batch {batch_id}")
        self.unanswered.popleft()
        self.results.append(result)
        self._backoff.reset()
        self._away_since = None

    def lost(self, why: _codec.Error) -> float:
        """The call has ended: seconds to wait before the next one.

        Raises `why` if another call does not help.
        """
        now = time.monotonic()
        if self._away_since is None:
            self._away_since = now
        wait = self._backoff.after(why)
        if (not why.retryable
                or now + wait > self._away_since + self.options.give_up_after
                or (self._deadline is not None and now + wait >= self._deadline)):
            raise why
        self.reconnects += 1
        return wait

    def pieces(self, count: int) -> Iterator[slice]:
        """What splits an array of `count` addresses into batches."""
        for begin in range(0, count, self.options.batch_size):
            yield slice(begin, min(count, begin + self.options.batch_size))

    def require_idle(self) -> None:
        if self.unanswered or self.results:
            raise RuntimeError("batches of this stream wait for receive()")

    def drop(self) -> None:
        """Forgets all batches: the caller does not want their results."""
        self.unanswered.clear()
        self.results.clear()


def own(result: _codec.Result) -> _codec.Result:
    """The same result with next hops of its own, aligned and writable."""
    return dataclasses.replace(result, next_hops=result.next_hops.astype(np.uint32))


def batch_options(table: str, min_generation: int, max_wait: float,
                  want_prefix_lengths: bool, require_complete: bool) -> bytes:
    """What all batches of a stream have in common, encoded."""
    if max_wait < 0:
        raise ValueError(f"max_wait: {max_wait} is less than no time")
    min_generation = _codec.integer(min_generation, "min_generation")
    if not 0 <= min_generation < 1 << 64:
        raise ValueError(f"min_generation: {min_generation} is no generation")
    return route_lookup_pb2.BatchLookupRequest(
        table=table, min_generation=min_generation,
        max_wait_ms=round(min(max_wait * 1000, 0xFFFFFFFF)),
        want_prefix_lengths=want_prefix_lengths,
        require_complete=require_complete).SerializeToString()


class Streams(Generic[_S]):
    """What Client and AsyncClient have in common: how they make streams."""

    def __init__(self, kind: Callable[[Any, Pipeline], _S], connect: Callable[[], Any],
                 table: str, timeout: float) -> None:
        self._kind = kind
        # The first call makes the channel: gRPC starts threads for it.
        self._connect = connect
        self._channel: Any = None
        self._closed = False
        self._lock = threading.Lock()
        self._table = table
        self._timeout = timeout

    def stream(self, *, in_flight: int = 4, batch_size: int = 16384,
               table: str | None = None, min_generation: int = 0,
               max_wait: float = 0.0, want_prefix_lengths: bool = False,
               timeout: float | None = None, give_up_after: float = 10.0,
               require_complete: bool = False) -> _S:
        """A stream of batches. `timeout` bounds its whole life.

        With `require_complete` batches wait, for `give_up_after` at most, until the
        table is complete.
        """
        return self._kind(self._begin().stream_stream(_calls.BATCH_LOOKUP), Pipeline(
            Options(in_flight, batch_size, timeout, give_up_after),
            batch_options(self._name(table), min_generation, max_wait,
                          want_prefix_lengths, require_complete)))

    def _lookup_stream(self, table: str | None, min_generation: int,
                       timeout: float | None, batch_size: int,
                       require_complete: bool) -> _S:
        timeout = self._timeout if timeout is None else timeout
        return self.stream(batch_size=batch_size, table=table, timeout=timeout,
                           min_generation=min_generation,
                           max_wait=max(timeout, 0.0),
                           require_complete=require_complete)

    def _begin(self) -> Any:
        """Before each call. Returns the channel."""
        global _used
        require_threads()
        _used = True  # before the lock: a fork may have it held by a thread it lacks
        with self._lock:
            if self._closed:
                raise ValueError("the client is closed")
            if self._channel is None:
                self._channel = self._connect()
            return self._channel

    def _end(self) -> bool:
        """Whether there is a channel to close."""
        if _threads_lost:
            return False
        with self._lock:
            self._closed = True
            return self._channel is not None

    def _name(self, table: str | None) -> str:
        return self._table if table is None else table

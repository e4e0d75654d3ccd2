"""The HTTP connection of uvicorn, with limits that it does not have.

Without them, a client that sends its headers slowly, or does not read its answer, holds a
connection for ever, and endless headers fill the memory.
"""

from __future__ import annotations

import asyncio
import resource
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_SECONDS = 20  # from the connection, or the first byte, to the end of the headers
WRITE_SECONDS = 60  # for a client that does not read
MAX_HEAD = 64 * 1024  # bytes of request line and headers
MAX_PIPELINED = 16  # requests of one connection that wait for their turn
REFUSED_ROOM = 100  # connections above the limit that are answered with 503
OTHER_FILES = 200  # of database, models, uploads and libraries
_HEAD_TOO_LARGE = "request line and headers are larger than 64 KiB"


class _HeadTooLargeError(Exception):
    """Raised inside the parser, which then answers with `send_400_response`."""


class BoundedHttpProtocol(HttpToolsProtocol):
    """A connection whose headers are bounded in time and size, and whose answers in time."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.limit_concurrency is not None:
            self.limit_concurrency += 1  # uvicorn refuses at this number, not above it
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._n_head_bytes = 0
        self._is_in_head = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.limit_concurrency and len(self.connections) > self.limit_concurrency + REFUSED_ROOM:
            transport.abort()  # more would use up the file descriptors
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        self._stop_write_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return  # bytes after an error; the parser may be in any state
        if self._is_in_head:
            self._n_head_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._is_in_head and self._n_head_bytes > MAX_HEAD:
            self.send_400_response(_HEAD_TOO_LARGE)
        elif self._is_in_head or self._is_idle:
            self._start_head_timer()  # also after bytes that begin no request, such as empty lines

    @property
    def _is_idle(self) -> bool:
        return self.cycle is None or (self.cycle.response_complete and not self.pipeline)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head, self._n_head_bytes = True, 0

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > MAX_HEAD:
            raise _HeadTooLargeError

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._stop_head_timer()
        n_bytes = sum(len(name) + len(value) for name, value in self.headers)
        if n_bytes + len(self.url) > MAX_HEAD or len(self.pipeline) >= MAX_PIPELINED:
            raise _HeadTooLargeError
        super().on_headers_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop_write_timer()
        self._write_timer = self.loop.call_later(WRITE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_write_timer()

    def _start_head_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self._close_slow)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _close_slow(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self.transport.close()


def reserve_descriptors(n_connections: int) -> int:
    """Raise the limit of open files for some connections; return how many it allows."""
    n_files = n_connections + REFUSED_ROOM + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < n_files:
        soft = n_files if hard == resource.RLIM_INFINITY else min(n_files, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return max(10, min(n_connections, soft - REFUSED_ROOM - OTHER_FILES))
    return n_connections

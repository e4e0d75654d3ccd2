"""Connections with limits: slow heads, endless heads, clients that do not read."""

from __future__ import annotations

import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
import uvicorn

from ontodex.serve import api
from ontodex.serve.http import protocol
from ontodex.serve.http.protocol import (
    MAX_HEAD,
    MAX_PIPELINED,
    BoundedHttpProtocol,
    reserve_descriptors,
)
from patience import PATIENCE

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
LAST = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
LARGE = 50_000_000


async def app(scope, receive, send):
    large = scope["path"] == "/large"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(500 if large else 1):
        piece = b"x" * (LARGE // 500) if large else b"hello"
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture
def serve() -> Iterator[Callable[..., uvicorn.Server]]:
    """Start a server in a thread; it ends with the test."""
    with ExitStack() as stack:

        def start(most: int | None = None, config: uvicorn.Config | None = None) -> uvicorn.Server:
            config = config or uvicorn.Config(
                app,
                port=0,
                lifespan="off",
                log_config=None,
                http=BoundedHttpProtocol,
                ws="none",
                limit_concurrency=most,
            )
            server = uvicorn.Server(config)
            server.capture_signals = lambda: threading.Lock()  # signals belong to the main thread
            thread = threading.Thread(target=server.run)
            thread.start()
            stack.callback(thread.join)
            stack.callback(setattr, server, "should_exit", True)
            while not server.started:
                time.sleep(0.01)
            return server

        yield start


@pytest.fixture
def port(serve) -> int:
    """The port of a server with the usual limits of time, which no test here reaches."""
    return port_of(serve())


@pytest.fixture
def hasty(serve, monkeypatch) -> uvicorn.Server:
    """A server whose limits of time are short, for clients that it must cut off."""
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 1.0)
    monkeypatch.setattr(protocol, "WRITE_SECONDS", 1.0)
    return serve()


def port_of(server: uvicorn.Server) -> int:
    return int(server.servers[0].sockets[0].getsockname()[1])


def talk(port: int, *pieces: bytes, pause: float = 0.0) -> bytes:
    """Send pieces and return everything until the server closes the connection."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(pause)
            while more := connection.recv(65536):
                received += more
        except ConnectionError:
            pass
    return received


@pytest.fixture
def serve_whole(serve, start) -> Callable[[], int]:
    """Start the whole service on a socket with the settings of `ontodex serve`; return its port."""

    def start_service() -> int:
        client = start(port=0, host="127.0.0.1")
        config = api.configure_server(client.app._service)
        config.lifespan = "off"  # the client of the fixture has opened the service already
        return port_of(serve(config=config))

    return start_service


HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_an_idle_connection_is_closed_after_its_limit(serve_whole, monkeypatch):
    monkeypatch.setattr(api, "IDLE_SECONDS", 0.3)
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 10 * PATIENCE)  # so it is not this limit
    answer = talk(serve_whole(), HEALTH)  # returns when the service closes the connection
    assert answer.count(b"HTTP/1.1 200") == 1


def test_an_idle_connection_within_its_limit_is_answered_again(serve_whole, monkeypatch):
    monkeypatch.setattr(api, "IDLE_SECONDS", 10 * PATIENCE)
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 1.0)  # of a request, not of the pause before it
    address = ("127.0.0.1", serve_whole())
    with socket.create_connection(address, timeout=PATIENCE) as connection:
        assert read_health(connection).startswith(b"HTTP/1.1 200")
        time.sleep(1.2)
        assert read_health(connection).startswith(b"HTTP/1.1 200")


def read_health(connection: socket.socket) -> bytes:
    """Ask for /healthz on a connection that stays open."""
    connection.sendall(HEALTH)
    received = b""
    while not received.endswith(b"}"):
        received += connection.recv(65536) or b"}"
    return received


@pytest.mark.parametrize("start", [b"", b"\r\n", b"GET ", b"GET / HTTP/1.1\r\nX: ", GET + b"\r\n"])
def test_a_connection_without_a_whole_head_is_closed(hasty, start):
    assert talk(port_of(hasty), start).count(b"HTTP/1.1") == start.count(GET)


def test_bytes_one_by_one_do_not_prolong_the_time(hasty):
    """The client would go on for longer than anybody waits."""
    address = ("127.0.0.1", port_of(hasty))
    with socket.create_connection(address, timeout=PATIENCE) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n")
        with pytest.raises(ConnectionError):
            for _ in range(PATIENCE * 20):
                connection.sendall(b"X: y\r\n")
                time.sleep(0.05)


def test_a_head_in_pieces_and_a_second_request_are_answered(port):
    assert talk(port, GET[:10], GET[10:], LAST, pause=0.1).count(b"hello") == 2


@pytest.mark.parametrize(
    "piece", [b"X: y\r\n" * 1000, b"y" * 10_000, b"X: " + b"y" * 300_000 + b"\r\n\r\n"]
)
def test_a_head_above_the_limit_is_refused(port, piece):
    head = b"GET / HTTP/1.1\r\nHost: a\r\nX: "
    answer = talk(port, head, *[piece] * 60)
    assert answer[:12] in (b"HTTP/1.1 400", b"")  # "": reset before it could be read


def test_a_head_at_the_limit_is_answered(port):
    head = LAST.removesuffix(b"\r\n") + b"X: " + b"y" * (MAX_HEAD - 200) + b"\r\n\r\n"
    assert talk(port, head).startswith(b"HTTP/1.1 200")


def test_a_client_that_does_not_read_is_cut_off(hasty):
    address = ("127.0.0.1", port_of(hasty))
    with socket.create_connection(address, timeout=PATIENCE) as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        assert connection.recv(1, socket.MSG_PEEK)  # the answer has begun
        for _ in range(PATIENCE * 20):
            if not hasty.server_state.connections:
                break
            time.sleep(0.05)
        received = 0
        with pytest.raises(ConnectionError):
            while more := connection.recv(2**20):
                received += len(more)
            raise ConnectionError  # closed without an error
    assert received < LARGE


def test_a_slow_reader_gets_everything(port):
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        received = 0
        while more := connection.recv(2**20):
            received += len(more)
            time.sleep(0.001)
    assert received > LARGE


def test_some_requests_may_be_pipelined_but_not_any_number(port):
    """The first one is answered while the others wait."""
    assert talk(port, GET * MAX_PIPELINED + LAST).count(b"hello") == 1 + MAX_PIPELINED
    assert b"HTTP/1.1 400" in talk(port, GET * (MAX_PIPELINED + 1) + LAST)
    assert talk(port, GET * 5000 + LAST).count(b"hello") < 100


def test_connections_up_to_the_limit_are_answered_and_one_more_is_503(serve):
    port = port_of(serve(3))
    with ExitStack() as stack:
        for status in (b"200", b"200", b"200", b"503"):
            address = ("127.0.0.1", port)
            connection = socket.create_connection(address, timeout=PATIENCE)
            stack.enter_context(connection).sendall(GET)
            assert connection.recv(65536).startswith(b"HTTP/1.1 " + status)


def test_the_limit_of_open_files_bounds_the_connections(monkeypatch):
    chosen = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 1024))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: chosen.append(limits))
    assert reserve_descriptors(2000) == 1024 - 300
    assert chosen == [(1024, 1024)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: (10_000, 10_000))
    assert reserve_descriptors(2000) == 2000
    assert len(chosen) == 1

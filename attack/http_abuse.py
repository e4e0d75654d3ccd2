"""Raw-socket HTTP abuse against a real server process.

Promises: the server answers `/healthz` afterwards, its log has no traceback, its memory is bounded,
and a request whose end is ambiguous is refused.
"""

from __future__ import annotations

import contextlib
import random
import resource
import socket
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from attack.campaign import Finding, Result
from attack.service import ServerProcess, start_server, train_small_run

MAX_GROWTH = 200 * 2**20  # bytes that the server may need more than at its start
ANSWER_SECONDS = 10.0
SLOW_SECONDS = 45.0  # in which the server must have closed a connection with half a head
N_SLOW = 200
AT_ONCE = 100  # mutated requests
MUTATED_SECONDS = 0.3  # in which their answers come
N_CONNECTIONS = 3000
HOST = b"Host: 127.0.0.1\r\n"
JSON_HEAD = HOST + b"Content-Type: application/json\r\n"
BODY = b'{"documents": [{"text": "trout"}]}'
LAST = HOST + b"Connection: close\r\n\r\n"
CLOSE = b"GET /healthz HTTP/1.1\r\n" + LAST
GOOD = b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n"

REQUESTS = (
    GOOD,
    b"GET /documents?limit=5 HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /ontology/search?q=fi%C3%9F HTTP/1.1\r\n" + HOST + b"\r\n",
    b"HEAD / HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n",
    b"POST /suggest HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s" % (JSON_HEAD, len(BODY), BODY),
    b"POST /suggest HTTP/1.1\r\n%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"
    % (JSON_HEAD, len(BODY), BODY),
    b"PUT /documents/1/state HTTP/1.1\r\n%sContent-Length: 17\r\n\r\n" % JSON_HEAD
    + b'{"state": "done"}',
    b"POST /documents/upload HTTP/1.1\r\n%sContent-Type: multipart/form-data; boundary=x\r\n"
    b'Content-Length: 77\r\n\r\n--x\r\nContent-Disposition: form-data; name="files"; '
    b'filename="a.txt"\r\n\r\nhi\r\n--x--' % HOST,
)
HOSTILE_PIECES = (
    b"\0", b"\r", b"\n", b"\r\n", b"\r\n\r\n", b"%", b"%00", b"%zz", b"%c0%af", b"\xff", b"\x80",
    b" ", b"\t", b":", b"chunked", b"Transfer-Encoding: chunked\r\n", b"Content-Length: 5\r\n",
    b"Content-Length: -1\r\n", b"Content-Length: 99999999999999999999\r\n", b"Host: a, b\r\n",
    b"Upgrade: websocket\r\nConnection: Upgrade\r\n", b"Upgrade: h2c\r\nConnection: Upgrade\r\n",
    b"Expect: 100-continue\r\n", b"X: " + b"a" * 5000 + b"\r\n", b"HTTP/2.0", b"HTTP/0.9",
    b"Cookie: " + b"a=b;" * 2000 + b"\r\n", b"FFFFFFFFFFFFFFFF\r\n", b"-1\r\n", b"0\r\n",
    b"Authorization: Bearer \xe9\r\n", b"Range: bytes=0-,0-,0-\r\n", b"../" * 50, b"//", b"?" * 300,
)  # fmt: skip
# Requests whose end two servers could understand differently; each must be refused with 400.
AMBIGUOUS = {
    "length and chunks": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "list of lengths": b"Content-Length: 5, 6\r\n\r\nhello",
    "signed length": b"Content-Length: +5\r\n\r\nhello",
    "length in hex": b"Content-Length: 0x5\r\n\r\nhello",
    "unknown coding": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked is not last": b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "space before the colon": b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "folded header": b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "bare LF in the head": b"X: a\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunk size with a sign": b"Transfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n",
    "chunk size too large": b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\nhello\r\n",
    "chunk longer than its size": b"Transfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n0\r\n\r\n",
    "two hosts": b"Host: 127.0.0.1\r\nContent-Length: 0\r\n\r\n",
}
OLD_VERSIONS = (
    b"GET /\r\n",
    b"GET /healthz\r\n\r\n",
    b"GET / HTTP/0.9\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00",
    b"\r\n" * 500,
    b"CONNECT 127.0.0.1:80 HTTP/1.1\r\n" + LAST,
    b"OPTIONS * HTTP/1.1\r\n" + LAST,
    b"GET http://127.0.0.1/healthz HTTP/1.1\r\n" + LAST,
    b"TRACE / HTTP/1.1\r\n" + LAST,
    b"GET /healthz HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" + LAST,
)
PATHS = (
    "/%", "/%zz", "/%00", "/%ff%fe", "/%c0%ae%c0%ae/", "//", "/./", "/../../etc/passwd",
    "/page/..%2f..%2fapi.py", "/page/%2e%2e/api.py", "/page/..%5capi.py", "/documents/%31",
    "/documents/1%00", "/documents/-1", "/documents/" + "9" * 400, "/documents/" + "9" * 5000,
    "/runs/" + "a" * 5000, "/runs/%F0%9F%90%9F", "/ontology/concept?label=%",
    "/ontology/concept?label=%ED%A0%80", "/ontology/search?q=" + "%00" * 50,
    "/documents?after=9223372036854775808", "/documents?limit=1e9", "/export?format=%FF",
    "/?" + "a&" * 20000, "/documents?" + "&".join(f"batch={i}" for i in range(5000)), "*",
    "http://[", "/;a=b", "/#x",
)  # fmt: skip


@dataclass
class Answer:
    """The bytes of an answer, and whether the server closed the connection."""

    raw: bytes
    is_closed: bool

    @property
    def statuses(self) -> list[int]:
        """The statuses of all answers on the connection."""
        parts = self.raw.split(b"HTTP/1.1 ")[1:]
        return [int(part[:3]) for part in parts if part[:3].isdigit()]


def run(seconds: float, seed: int, out: Path) -> Result:
    """Abuse a server until the time is over; return the figures."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * N_CONNECTIONS if hard == resource.RLIM_INFINITY else min(2 * N_CONNECTIONS, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    with tempfile.TemporaryDirectory(prefix="ontodex-http-") as name:
        folder = Path(name)
        small = train_small_run(folder)
        with start_server(small, str(folder / "d.sqlite"), folder / "log") as server:
            return _Abuse(server, random.Random(seed), out).attack(seconds)


class _Abuse:
    def __init__(self, server: ServerProcess, rng: random.Random, out: Path) -> None:
        self.server, self.rng, self.out = server, rng, out
        self.result = Result()
        self.n_answers = 0  # to mutated requests

    def attack(self, seconds: float) -> Result:
        """Run every scenario once and mutated requests in the remaining time."""
        end = time.monotonic() + seconds
        self._send(b"POST /documents HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s"
                   % (JSON_HEAD, len(BODY), BODY))  # fmt: skip
        before = self.server.get_memory()
        slow = self._open_slow_connections()
        slow_since = time.monotonic()
        scenarios: list[Callable[[], None]] = [
            self._send_ambiguous,
            self._send_old_versions,
            self._send_paths,
            self._send_endless_head,
            self._send_endless_body,
            self._pipeline,
            self._open_many_connections,
            self._read_nothing,
        ]
        for scenario in scenarios:
            scenario()
            self._check_health(scenario.__name__)
        while time.monotonic() < end:
            self._send_mutated([self._mutate() for _ in range(AT_ONCE)])
            self._check_health("mutated requests")
        self._check_slow_connections(slow, slow_since)
        growth = self.server.get_memory() - before
        self._check(growth < MAX_GROWTH, "memory", f"the server needs {growth:,} bytes more", b"")
        errors = self.server.find_errors()
        self._check(
            not errors, "log", f"{len(errors)} errors in the log", "\n".join(errors).encode()
        )
        self.result.notes["answers to mutated requests"] = f"{self.n_answers:,}"
        self.result.notes["memory growth"] = f"{growth / 2**20:.0f} MiB"
        return self.result

    def _check(self, is_kept: bool, key: str, what: str, seed: bytes) -> None:
        if not is_kept:
            self.result.add(Finding(f"http: {key}", what, seed), self.out)

    def _connect(self) -> socket.socket:
        return socket.create_connection((self.server.host, self.server.port), ANSWER_SECONDS)

    def _send(self, raw: bytes, *, wait: float = ANSWER_SECONDS) -> Answer:
        """Send bytes and return what comes until the server closes, or is silent for long."""
        self.result.tried += 1
        received = bytearray()
        try:
            with self._connect() as connection:
                connection.settimeout(wait)
                connection.sendall(raw)
                while piece := connection.recv(65536):
                    received += piece
            return Answer(bytes(received), is_closed=True)
        except TimeoutError:
            return Answer(bytes(received), is_closed=False)
        except OSError:
            return Answer(bytes(received), is_closed=True)

    def _check_health(self, after: str) -> None:
        for _ in range(3):  # the connections of the scenario may still be counted
            answer = self._send(CLOSE)
            if answer.statuses == [200]:
                return
            time.sleep(1)
        what = f"/healthz does not answer 200 after {after}: {answer.raw[:200]!r}"
        self._check(False, f"health after {after}", what, answer.raw)

    def _send_ambiguous(self) -> None:
        smuggled = b"GET /status HTTP/1.1\r\n" + HOST + b"\r\n"
        for name, head in AMBIGUOUS.items():
            raw = b"POST /suggest HTTP/1.1\r\n" + JSON_HEAD + head + smuggled
            answer = self._send(raw, wait=2.0)
            is_refused = (
                bool(answer.statuses) and answer.statuses[0] in (400, 501) and answer.is_closed
            )
            what = f"{name}: answered {answer.statuses}, not by 400 and the end of the connection"
            self._check(is_refused and len(answer.statuses) == 1, f"ambiguous: {name}", what, raw)

    def _send_old_versions(self) -> None:
        for raw in OLD_VERSIONS:
            self._check_statuses(self._send(raw, wait=1.0), raw)

    def _send_paths(self) -> None:
        for path in PATHS:
            for method in ("GET", "DELETE", "PATCH"):
                raw = f"{method} {path} HTTP/1.1\r\n".encode() + LAST
                answer = self._send(raw)
                self._check_statuses(answer, raw)
                self._check(b"root:" not in answer.raw, "file leaked", f"{path} leaks a file", raw)

    def _check_statuses(self, answer: Answer, raw: bytes) -> None:
        """Check that the server did not fail; 501 and 503 are answers by design."""
        wrong = [status for status in answer.statuses if status >= 500 and status not in (501, 503)]
        self._check(not wrong, f"status {wrong[:1]}", f"answered {wrong} to {raw[:200]!r}", raw)

    def _send_endless_head(self) -> None:
        for piece in (b"X-A: b\r\n" * 1000, b"a" * 65536):
            with self._connect() as connection, contextlib.suppress(OSError):
                self.result.tried += 1
                connection.sendall(b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: ")
                for n_sent in range(2000):
                    connection.sendall(piece)
                    if n_sent == 1999:
                        what = "an endless head was read to its 16th megabyte or more"
                        self._check(False, "endless head", what, piece)

    def _send_endless_body(self) -> None:
        piece = b" " * 65536
        for head, chunk in (
            (b"Content-Length: 900000000\r\n\r\n", piece),
            (b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + piece + b"\r\n"),
            (b"Transfer-Encoding: chunked\r\n\r\n", b"1;" + b"x" * 60000 + b"\r\na\r\n"),
        ):
            for path in (b"/suggest", b"/documents/upload", b"/healthz", b"/nowhere"):
                with self._connect() as connection, contextlib.suppress(OSError):
                    self.result.tried += 1
                    connection.sendall(b"POST " + path + b" HTTP/1.1\r\n" + JSON_HEAD + head)
                    for _ in range(500):
                        connection.sendall(chunk)

    def _pipeline(self) -> None:
        for count in (10, 1000, 20_000):
            raw = GOOD * (count - 1) + CLOSE
            answer = self._send(raw)
            self.result.tried += count
            is_right = all(status in (200, 400) for status in answer.statuses)
            what = f"{count} pipelined requests were answered with {sorted(set(answer.statuses))}"
            self._check(is_right, "pipelining", what, GOOD)
            self._check(count > 10 or answer.statuses == [200] * 10, "few pipelined", what, raw)

    def _open_many_connections(self) -> None:
        opened: list[socket.socket] = []
        try:
            for _ in range(N_CONNECTIONS):
                self.result.tried += 1
                with contextlib.suppress(OSError):
                    opened.append(self._connect())
        finally:
            for connection in opened:
                connection.close()
        self.result.notes["connections at once"] = str(len(opened))
        time.sleep(1)

    def _read_nothing(self) -> None:
        """Ask for large answers and never read them."""
        request = b"GET /page/page.css HTTP/1.1\r\n" + HOST + b"\r\n"
        opened = []
        for _ in range(50):
            self.result.tried += 1
            with contextlib.suppress(OSError):
                connection = self._connect()
                opened.append(connection)
                connection.settimeout(0.2)
                connection.sendall(request * 200)
        for connection in opened:
            connection.close()

    def _open_slow_connections(self) -> list[socket.socket]:
        """Open connections that send half a head, an empty line, or nothing."""
        opened = []
        for at in range(N_SLOW):
            self.result.tried += 1
            connection = self._connect()
            connection.sendall((b"", b"\r\n", b"GET ", b"GET / HTTP/1.1\r\nX: ", GOOD[:-2])[at % 5])
            opened.append(connection)
        return opened

    def _check_slow_connections(self, opened: list[socket.socket], since: float) -> None:
        time.sleep(max(0.0, since + SLOW_SECONDS - time.monotonic()))
        n_open = 0
        for connection in opened:
            connection.settimeout(0.01)
            try:
                n_open += connection.recv(4096) != b""
            except TimeoutError:
                n_open += 1
            except OSError:
                pass
            connection.close()
        what = f"{n_open} of {len(opened)} connections with half a head stay open"
        self._check(n_open == 0, "slow heads", what, b"")

    def _send_mutated(self, requests: list[bytes]) -> None:
        """Send requests on connections of their own, and read the answers together."""
        opened = []
        for raw in requests:
            self.result.tried += 1
            with contextlib.suppress(OSError):
                connection = self._connect()
                connection.sendall(raw)
                opened.append((connection, raw))
        time.sleep(MUTATED_SECONDS)  # many of them are not complete, and get no answer
        for connection, raw in opened:
            answer = Answer(_read_waiting(connection), is_closed=True)
            self.n_answers += len(answer.statuses)
            self._check_statuses(answer, raw)

    def _mutate(self) -> bytes:
        """Return one or more requests with one to four changes."""
        raw = bytearray(self.rng.choice(REQUESTS) * self.rng.choice((1, 1, 1, 2, 5)))
        for _ in range(self.rng.randint(1, 4)):
            at = self.rng.randrange(len(raw) + 1)
            match self.rng.randrange(5):
                case 0:
                    raw[at:at] = self.rng.choice(HOSTILE_PIECES)
                case 1:
                    del raw[at : at + self.rng.randint(1, 8)]
                case 2:
                    raw[at : at + 1] = bytes([self.rng.randrange(256)])
                case 3:
                    raw[at:] = raw[: self.rng.randint(0, 100)]
                case _:
                    end = self.rng.choice((b"\n", b"\r", b"\r\n\r\n"))
                    raw = bytearray(raw.replace(b"\r\n", end, 1))
        return bytes(raw)


def _read_waiting(connection: socket.socket) -> bytes:
    """Return the bytes that have come, and close the connection."""
    received = bytearray()
    with connection, contextlib.suppress(OSError):
        connection.setblocking(False)
        while piece := connection.recv(65536):
            received += piece
    return bytes(received)

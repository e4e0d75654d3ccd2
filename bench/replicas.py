"""Replicas under load: one is killed, all take a new version of the run, one is restarted.

    python -m bench.replicas RUN --docs test.jsonl [--clients 256] [--seconds 60]

HAProxy and PostgreSQL (Debian: apt-get install haproxy postgresql) and the replicas listen on
loopback and share this machine with the clients. RUN must be of a system that can be updated, such
as knn; a copy of it is served. A client asks for suggestions and decides in turn, and pauses after
each answer. It repeats a decision without an answer under the same request_id, as the guide says.

A request is an error if it got no answer, or one of 5xx. At the end each decision that got 201 must
be in the database, once.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import urlopen

import numpy as np

from attack.postgres import start_postgres
from ontodex.corpora.open import read_docs
from ontodex.runs.update import update
from ontodex.serve.database.database import Database
from ontodex.types import Corpus, Doc

N_DOCS = 200
RESTART_SECONDS = 5  # until a killed replica is started again, as a cluster would
MAX_WAIT = 40  # seconds for an answer; the service gives up after 30
BALANCER = """
defaults
  mode http
  timeout connect 2s
  timeout client 60s
  timeout server 60s
  option redispatch
  retries 3
  option httpchk GET /readyz
  http-check send hdr Host localhost
frontend all
  bind 127.0.0.1:{port}
  maxconn 2000
  default_backend replicas
backend replicas
  balance leastconn
  default-server inter 500ms fall 2 rise 1 check
{servers}
"""


@dataclass
class Answers:
    """The answers of one kind of request."""

    statuses: Counter[int] = field(default_factory=Counter)  # 0: no answer
    milliseconds: list[float] = field(default_factory=list)  # of those that were no error

    def add(self, status: int, seconds: float) -> None:
        self.statuses[status] += 1
        if 0 < status < 500:
            self.milliseconds.append(1000 * seconds)

    def count_errors(self) -> int:
        return sum(count for status, count in self.statuses.items() if not 0 < status < 500)

    def render(self, name: str) -> str:
        n, errors = self.statuses.total(), self.count_errors()
        p50, p99 = np.quantile(self.milliseconds, [0.5, 0.99])
        statuses = ", ".join(f"{status}: {n:,}" for status, n in sorted(self.statuses.items()))
        return (
            f"{name:<10} {n:8,} {100 * errors / n:8.3f} % {self.statuses[429]:8,} "
            f"{p50:8.0f} {p99:8.0f}   {statuses}"
        )


@dataclass
class Load:
    """All clients, and what they got."""

    port: int
    bodies: list[bytes]
    n_documents: int
    labels: list[str]
    pause: float
    is_over: bool = False
    suggestions: Answers = field(default_factory=Answers)
    decisions: Answers = field(default_factory=Answers)
    acknowledged: list[str] = field(default_factory=list)  # request ids

    async def run_client(self, name: int) -> None:
        """Ask and decide in turn until the end; the last decision is repeated until it is made."""
        connection = Connection(self.port)
        await asyncio.sleep(self.pause * (name % 100) / 100)
        for number in itertools.count():
            if self.is_over:
                break
            body = self.bodies[(name * 31 + number) % len(self.bodies)]
            await connection.post("/suggest", body, self.suggestions)
            await asyncio.sleep(self.pause)
            await self._decide(connection, f"{name}-{number}", name + number)
            await asyncio.sleep(self.pause)
        connection.close()

    async def _decide(self, connection: Connection, request_id: str, turn: int) -> None:
        wanted = {
            "document": 1 + turn % self.n_documents,
            "label": self.labels[turn % len(self.labels)],
            "verdict": ("accept", "reject")[turn % 2],
            "request_id": request_id,
        }
        body = json.dumps({"decisions": [wanted]}).encode()
        while await connection.post("/decisions", body, self.decisions) != 201:
            await asyncio.sleep(self.pause)
        self.acknowledged.append(request_id)


class Connection:
    """A connection that stays open; it is opened again after an error."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: bytes, answers: Answers) -> int:
        """Send a request, record its answer, and return the status; 0 if there is none."""
        started = time.perf_counter()
        try:
            async with asyncio.timeout(MAX_WAIT):
                status = await self._post(path, body)
        except (OSError, EOFError, TimeoutError, IndexError, ValueError):
            status = 0
            self.close()
        answers.add(status, time.perf_counter() - started)
        return status

    async def _post(self, path: str, body: bytes) -> int:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = answer.split(b"content-length:")[1].split(b"\r\n")[0]
        await reader.readexactly(int(length))
        if b"connection: close" in answer:
            self.close()
        return int(answer.split()[1])

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None


class Replicas:
    """Processes of the service on fixed ports, and the balancer in front of them."""

    def __init__(self, run: Path, database: str, folder: Path, n: int) -> None:
        self._run, self._database, self._folder = run, database, folder
        self.ports = [find_free_port() for _ in range(n)]
        self.processes = [self._start(at) for at in range(n)]

    def _start(self, at: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "ontodex", "serve", str(self._run), "--watch", "1"]
        address = ["--port", str(self.ports[at]), "--database", self._database]
        with (self._folder / f"log-{at}").open("ab") as log:
            return subprocess.Popen([*command, *address], stdout=log, stderr=log)

    def wait_until_ready(self, at: int) -> None:
        address = f"http://127.0.0.1:{self.ports[at]}/readyz"
        while True:
            with contextlib.suppress(OSError), urlopen(address, timeout=30):
                return
            time.sleep(0.2)

    def kill(self, at: int) -> None:
        self.processes[at].kill()
        self.processes[at].wait()

    def drain(self, at: int) -> None:
        """End a replica as a rolling update does; it answers what it has accepted."""
        self.processes[at].terminate()
        self.processes[at].wait()

    def start_again(self, at: int) -> None:
        self.processes[at] = self._start(at)

    def count_tracebacks(self) -> int:
        logs = (self._folder / f"log-{at}" for at in range(len(self.ports)))
        return sum(log.read_text(errors="replace").count("Traceback") for log in logs)

    def close(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()


def find_free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextlib.contextmanager
def balance(ports: list[int], folder: Path) -> Iterator[int]:
    """Start HAProxy before the replicas and give its port."""
    port = find_free_port()
    servers = "\n".join(f"  server r{one} 127.0.0.1:{one}" for one in ports)
    config = folder / "haproxy.cfg"
    config.write_text(BALANCER.format(port=port, servers=servers).lstrip())
    with (folder / "log-balancer").open("wb") as log:
        process = subprocess.Popen(["haproxy", "-q", "-f", str(config)], stdout=log, stderr=log)
    try:
        yield port
    finally:
        process.terminate()
        process.wait()


async def play(
    load: Load, replicas: Replicas, docs: list[Doc], run: Path, options: Options
) -> None:
    """Let the clients work, and disturb the replicas meanwhile."""
    clients = [asyncio.create_task(load.run_client(name)) for name in range(options.clients)]
    quarter, started = options.seconds / 4, time.perf_counter()

    def say(what: str) -> None:
        errors = load.suggestions.count_errors() + load.decisions.count_errors()
        sys.stdout.write(f"{time.perf_counter() - started:6.1f} s  {errors:3} errors  {what}\n")
        sys.stdout.flush()

    await asyncio.sleep(quarter)
    say("kill -9 of replica 1")
    replicas.kill(0)
    await asyncio.sleep(RESTART_SECONDS)
    replicas.start_again(0)
    await asyncio.to_thread(replicas.wait_until_ready, 0)
    say("replica 1 is ready again")
    await asyncio.sleep(max(0.0, 2 * quarter - (time.perf_counter() - started)))
    await asyncio.to_thread(update, run, Corpus.of(docs))
    say("the run has a new version, which the replicas take while they answer")
    await asyncio.sleep(max(0.0, 3 * quarter - (time.perf_counter() - started)))
    say("SIGTERM to replica 2")
    await asyncio.to_thread(replicas.drain, 1)
    replicas.start_again(1)
    await asyncio.to_thread(replicas.wait_until_ready, 1)
    say("replica 2 is ready again")
    await asyncio.sleep(max(0.0, options.seconds - (time.perf_counter() - started)))
    load.is_over = True
    await asyncio.gather(*clients)
    say("end")


@dataclass(frozen=True)
class Options:
    """Duration and sizes of a measurement."""

    clients: int
    seconds: float
    replicas: int
    pause: float


def measure(run: Path, docs: list[Doc], options: Options, folder: Path, url: str) -> None:
    database = Database.open(url)
    try:
        replicas = Replicas(run, url, folder, options.replicas)
        with contextlib.closing(replicas), balance(replicas.ports, folder) as port:
            for at in range(options.replicas):
                replicas.wait_until_ready(at)
            numbers = add_documents(replicas.ports[0], docs)
            bodies = [
                json.dumps({"documents": [{"fields": dict(doc.fields)}]}).encode() for doc in docs
            ]
            labels = sorted({label for doc in docs for label in doc.labels})
            load = Load(port, bodies, numbers, labels, options.pause)
            asyncio.run(play(load, replicas, docs, run, options))
            report(load, database, replicas)
    finally:
        database.close()


def add_documents(port: int, docs: list[Doc]) -> int:
    """Add the documents to the queue; return their number."""
    body = json.dumps({"documents": [{"fields": dict(doc.fields)} for doc in docs]}).encode()
    status = asyncio.run(Connection(port).post("/documents", body, Answers()))
    assert status == 201, status
    return len(docs)


def report(load: Load, database: Database, replicas: Replicas) -> None:
    """Print the figures, and whether each acknowledged decision is in the database once."""
    sys.stdout.write("\nrequest           n     errors      429   p50 ms   p99 ms   statuses\n")
    for name, answers in (("suggest", load.suggestions), ("decide", load.decisions)):
        sys.stdout.write(answers.render(name) + "\n")
    stored: Counter[str] = Counter()
    after = 0
    while rows := database.list_decisions(after=after, limit=1000):
        stored.update(row["request_id"] for row in rows)
        after = rows[-1]["id"]
    lost = [one for one in load.acknowledged if one not in stored]
    twice = sum(count > 1 for count in stored.values())
    sys.stdout.write(
        f"\nacknowledged {len(load.acknowledged):,} decisions; lost {len(lost)}, written twice "
        f"{twice}; tracebacks in the logs {replicas.count_tracebacks()}\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--docs", type=Path, required=True)
    parser.add_argument("--clients", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--pause", type=float, default=1.0, help="seconds after each answer")
    given = parser.parse_args()
    if shutil.which("haproxy") is None:
        raise SystemExit("bench/replicas.py: haproxy is not installed (apt-get install haproxy)")
    docs = list(itertools.islice(read_docs(given.docs), N_DOCS))
    options = Options(given.clients, given.seconds, given.replicas, given.pause)
    with tempfile.TemporaryDirectory() as name, start_postgres() as url:
        if url is None:
            raise SystemExit("bench/replicas.py: PostgreSQL is not installed")
        run = Path(shutil.copytree(given.run, Path(name) / given.run.name))
        measure(run, docs, options, Path(name), url)


if __name__ == "__main__":
    main()

"""Two clients of the service with one interface: in this process by ASGI, and by HTTP."""

from __future__ import annotations

import asyncio
import http.client
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from attack.service import start_server
from ontodex.runs.run import load
from ontodex.serve.api import build_routes
from ontodex.serve.database.database import Database
from ontodex.serve.http.api_keys import ApiKeys
from ontodex.serve.http.metrics import ServiceMetrics
from ontodex.serve.http.middleware import RequestGuard
from ontodex.serve.prediction.batcher import Batcher
from ontodex.serve.prediction.ranker import LocalRanker
from ontodex.serve.prediction.run_metadata import RunMetadata
from ontodex.serve.prediction.run_view import RunView
from ontodex.serve.service import ServeConfig, Service

HOST = "127.0.0.1"


@dataclass(frozen=True)
class ApiRequest:
    """One request; a body that is not JSON has another content type."""

    method: str
    path: str
    body: bytes = b""
    key: str = ""
    content_type: str = "application/json"

    @property
    def headers(self) -> dict[str, str]:
        headers = {"host": HOST}
        if self.body:
            headers |= {"content-type": self.content_type, "content-length": str(len(self.body))}
        return headers | ({"authorization": f"Bearer {self.key}"} if self.key else {})


@dataclass
class ApiAnswer:
    """Status and body of an answer."""

    status: int
    body: bytes


class Client(Protocol):
    """A running service: requests, and a restart on the same database."""

    def send(self, requests: list[ApiRequest]) -> list[ApiAnswer]:
        """Answer requests, all at the same time."""

    def restart(self, *, gently: bool) -> None:
        """End the service, with or without time to finish, and start it again."""

    def close(self) -> None: ...


@dataclass
class AsgiClient:
    """The service in this process: fast, but it cannot be killed."""

    run: Path
    database: str
    keys: Path
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    def __post_init__(self) -> None:
        self._model = LocalRanker(load(self.run))
        self._view = RunView("small", RunMetadata.open(self.run))
        self._stack = AsyncExitStack()
        self._open()

    def _open(self) -> None:
        config = ServeConfig(database=self.database, keys=self.keys)
        metrics = ServiceMetrics()
        batcher = Batcher(
            {"small": self._model},
            capacity=config.queue,
            batch=config.batch,
            timeout=config.timeout,
            observe=metrics.record_batch,
        )
        database = Database.open(config.database)
        runs = {"small": self._view}
        service = Service(config, runs, database, ApiKeys(self.keys), metrics, batcher)
        routes = build_routes(service)
        self._app = RequestGuard(routes, service)
        self.loop.run_until_complete(
            self._stack.enter_async_context(routes.router.lifespan_context(routes))
        )

    def send(self, requests: list[ApiRequest]) -> list[ApiAnswer]:
        return self.loop.run_until_complete(self._send_all(requests))

    async def _send_all(self, requests: list[ApiRequest]) -> list[ApiAnswer]:
        return list(await asyncio.gather(*map(self._send, requests)))

    async def _send(self, request: ApiRequest) -> ApiAnswer:
        path, _, query = request.path.partition("?")
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "http",
            "path": path,
            "raw_path": quote(path).encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(k.encode(), v.encode("latin-1")) for k, v in request.headers.items()],
            "client": (HOST, 1),
            "server": (HOST, 80),
            "state": {},
        }
        pieces = [{"type": "http.request", "body": request.body, "more_body": False}]
        answer = ApiAnswer(0, b"")
        received = bytearray()

        async def receive() -> Any:
            if pieces:
                return pieces.pop()
            await asyncio.Event().wait()  # the client stays until the answer is complete

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
            else:
                received.extend(message.get("body", b""))

        try:
            await self._app(scope, receive, send)
        except Exception as error:  # Starlette raises it again after it has answered with 500
            return ApiAnswer(500, repr(error).encode()[:2000])
        answer.body = bytes(received)
        return answer

    def restart(self, *, gently: bool) -> None:
        """Close and open the service; there is no other way than gently in one process."""
        self.loop.run_until_complete(self._stack.aclose())
        self._open()

    def close(self) -> None:
        self.loop.run_until_complete(self._stack.aclose())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()


@dataclass
class ProcessClient:
    """The service in a process of its own: slow, but it can be killed."""

    run: Path
    database: str
    keys: Path
    log: Path

    def __post_init__(self) -> None:
        self._stack = ExitStack()
        self._open()

    def _open(self) -> None:
        arguments = ("--keys", str(self.keys))
        self.server = self._stack.enter_context(
            start_server(self.run, self.database, self.log, arguments)
        )
        self._connection = http.client.HTTPConnection(self.server.host, self.server.port, 60)

    def send(self, requests: list[ApiRequest]) -> list[ApiAnswer]:
        return [self._send(request) for request in requests]

    def _send(self, request: ApiRequest) -> ApiAnswer:
        target = quote(request.path, safe="/?&=%")
        try:
            self._connection.request(request.method, target, request.body or None, request.headers)
            found = self._connection.getresponse()
            answer = ApiAnswer(found.status, found.read())
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            return ApiAnswer(0, repr(error).encode())
        if found.will_close:
            self._connection.close()
        return answer

    def restart(self, *, gently: bool) -> None:
        self._connection.close()
        if gently:
            self.server.process.terminate()
            self.server.process.wait(90)
        self._stack.close()  # kill -9
        self._open()

    def close(self) -> None:
        self._connection.close()
        self._stack.close()

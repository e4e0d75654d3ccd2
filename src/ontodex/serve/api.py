"""The routes put together, and the process that serves them.

serve(folders, config)     loads, binds, answers; SIGTERM answers what was accepted and ends
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp
from uvicorn.server import HANDLED_SIGNALS

from ontodex import __version__
from ontodex.errors import ConfigError
from ontodex.serve import about, annif, concepts, documents, problems, suggest, verdicts
from ontodex.serve.answers import ProblemAnswer
from ontodex.serve.guard import COOKIE, Guard
from ontodex.serve.logs import write_json_logs
from ontodex.serve.service import ServeConfig, Service, open_service

logger = logging.getLogger(__name__)

DRAIN_SECONDS = 60  # how long accepted requests may take after SIGTERM
IDLE_SECONDS = 65  # an idle connection is kept a little longer than most proxies keep theirs
CONNECTIONS = 2000
_SCHEMAS = "#/components/schemas/"
_PROBLEM = {
    "description": "problem",
    "content": {problems.MEDIA_TYPE: {"schema": {"$ref": f"{_SCHEMAS}{ProblemAnswer.__name__}"}}},
}


def application(service: Service) -> ASGIApp:
    """The service as an ASGI application."""
    return Guard(routes(service), service)


def routes(service: Service) -> FastAPI:
    """All routes, without what stands around them."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        searches = asyncio.create_task(_make_searches(service))
        yield
        await searches
        service.close()

    app = FastAPI(
        title="ontodex",
        version=__version__,
        description="Index documents with the concepts of an ontology.",
        docs_url=None,  # these pages would load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        responses={"4XX": _PROBLEM, "5XX": _PROBLEM},
    )
    app.state.service = service
    for part in (suggest, concepts, documents, verdicts, about, annif):
        app.include_router(part.router)
    problems.install(app)
    describe = app.openapi

    def described() -> dict[str, Any]:
        return _completed(describe())

    app.openapi = described  # type: ignore[method-assign]
    return app


async def _make_searches(service: Service) -> None:
    """One after the other: several at once would leave the event loop even less time."""
    for served in service.runs.values():
        await asyncio.to_thread(served.run.known.search)


def _completed(schema: dict[str, Any]) -> dict[str, Any]:
    """The description with the problem document and the two ways to show a key."""
    problem = ProblemAnswer.model_json_schema(ref_template=_SCHEMAS + "{model}")
    components = schema.setdefault("components", {})
    components.setdefault("schemas", {}).update(problem.pop("$defs"))
    components["schemas"][ProblemAnswer.__name__] = problem
    components["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer"},
        "cookie": {"type": "apiKey", "in": "cookie", "name": COOKIE},
    }
    schema["security"] = [{}, {"key": []}, {"cookie": []}]
    return schema


class _Server(uvicorn.Server):
    """Uvicorn, which tells the service as soon as it is asked to end."""

    def __init__(self, config: uvicorn.Config, service: Service, ready: Callable[[str], object]):
        super().__init__(config)
        self._service, self._ready = service, ready

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        self._ready(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """A graceful end is an end with code 0, not a death by the signal as uvicorn would."""
        before = {sig: signal.signal(sig, self.handle_exit) for sig in HANDLED_SIGNALS}
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._service.is_stopping = True
        super().handle_exit(sig, frame)


def serve(folders: Sequence[Path], config: ServeConfig, *, ready: Callable[[str], object]) -> None:
    """Serve runs until SIGTERM or SIGINT; `ready` is told the address."""
    service = open_service(folders, config)
    gc.collect()
    gc.freeze()  # what is loaded stays; looking through it for garbage holds up answers for 0.2 s
    write_json_logs()
    server = _Server(
        uvicorn.Config(
            application(service),
            host=config.host,
            port=config.port,
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,  # they would hide the proxy's address, by which it is believed
            limit_concurrency=CONNECTIONS,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=DRAIN_SECONDS,
        ),
        service,
        ready,
    )
    try:
        server.run()
    except SystemExit as error:
        raise ConfigError(
            f"{config.host}:{config.port} cannot be bound", hint="choose another --port or --host"
        ) from error

"""The application of all routes, and the server process.

`serve(folders, config)` loads the runs, binds the port and answers. After SIGTERM it answers the
accepted requests and ends.
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
from sqlalchemy.exc import SQLAlchemyError
from starlette.types import ASGIApp
from uvicorn.server import HANDLED_SIGNALS

from ontodex import __version__
from ontodex.errors import ConfigError
from ontodex.serve.http import problems
from ontodex.serve.http.json_log import write_json_logs
from ontodex.serve.http.middleware import COOKIE, RequestGuard
from ontodex.serve.http.protocol import BoundedHttpProtocol, reserve_descriptors
from ontodex.serve.prediction.reload import watch_folders
from ontodex.serve.responses import ProblemResponse
from ontodex.serve.routes import (
    annif,
    concepts,
    decisions,
    documents,
    export,
    health,
    page,
    projects,
    quarantine,
    reconcile,
    runs,
    session,
    suggest,
    uploads,
)
from ontodex.serve.service import ServeConfig, Service, open_service
from ontodex.serve.uploads import remove_abandoned_uploads

logger = logging.getLogger(__name__)

DRAIN_SECONDS = 60  # for accepted requests after SIGTERM
IDLE_SECONDS = 65  # idle connections stay open a little longer than those of most proxies
MAX_CONNECTIONS = 2000
ROUTERS = (
    suggest,
    concepts,
    uploads,
    documents,
    decisions,
    export,
    projects,
    quarantine,
    runs,
    session,
    health,
    page,
    annif,
    reconcile,
)
_SCHEMAS = "#/components/schemas/"
_PROBLEM = {
    "description": "problem",
    "content": {problems.MEDIA_TYPE: {"schema": {"$ref": f"{_SCHEMAS}{ProblemResponse.__name__}"}}},
}


def build_application(service: Service) -> ASGIApp:
    """Return the service as an ASGI application."""
    return RequestGuard(build_routes(service), service)


def build_routes(service: Service) -> FastAPI:
    """Return the application of all routes, without the middleware."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        searches = asyncio.create_task(_build_searches(service))
        check = asyncio.create_task(asyncio.to_thread(_check_documents, service))
        watch = asyncio.create_task(watch_folders(service)) if service.config.watch else None
        yield
        service.is_stopping = True
        for task in filter(None, (watch, *service.retirements)):
            task.cancel()
        await searches
        await check
        service.close()

    app = FastAPI(
        title="ontodex",
        version=__version__,
        description="Index documents with the concepts of an ontology.",
        docs_url=None,  # these pages would load scripts from other hosts
        redoc_url=None,
        lifespan=lifespan,
        responses={"4XX": _PROBLEM, "5XX": _PROBLEM},
    )
    app.state.service = service
    for module in ROUTERS:
        app.include_router(module.router)
    problems.install_handlers(app)
    describe = app.openapi

    def describe_completely() -> dict[str, Any]:
        return _complete_schema(describe())

    app.openapi = describe_completely  # type: ignore[method-assign]
    return app


async def _build_searches(service: Service) -> None:
    """Build the search indexes one after the other, to leave time to the event loop."""
    for run in service.runs.values():
        await asyncio.to_thread(run.metadata.index.get_search)


def _check_documents(service: Service) -> None:
    """Find damaged documents before a curator meets them."""
    try:
        service.database.queue.check_all(lambda: service.is_stopping)
    except SQLAlchemyError as error:
        logger.error("the documents could not be checked: %s", type(error).__name__)


def _complete_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Add the problem document and the two ways to send a key to the OpenAPI description."""
    problem = ProblemResponse.model_json_schema(ref_template=_SCHEMAS + "{model}")
    components = schema.setdefault("components", {})
    components.setdefault("schemas", {}).update(problem.pop("$defs"))
    components["schemas"][ProblemResponse.__name__] = problem
    components["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer"},
        "cookie": {"type": "apiKey", "in": "cookie", "name": COOKIE},
    }
    schema["security"] = [{}, {"key": []}, {"cookie": []}]
    return schema


class _Server(uvicorn.Server):
    """Uvicorn that marks the service as stopping as soon as a signal comes."""

    def __init__(self, config: uvicorn.Config, service: Service, ready: Callable[[str], object]):
        super().__init__(config)
        self._service, self._ready = service, ready

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        self._ready(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Let the process end with code 0; uvicorn would raise the signal again at the end."""
        before = {sig: signal.signal(sig, self.handle_exit) for sig in HANDLED_SIGNALS}
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._service.is_stopping = True
        super().handle_exit(sig, frame)


def configure_server(service: Service) -> uvicorn.Config:
    """Return the settings of uvicorn for a service, with the limits of its connections."""
    return uvicorn.Config(
        build_application(service),
        host=service.config.host,
        port=service.config.port,
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,  # would hide the proxy's address, which user_header depends on
        limit_concurrency=reserve_descriptors(MAX_CONNECTIONS),
        http=BoundedHttpProtocol,
        ws="none",
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )


def serve(folders: Sequence[Path], config: ServeConfig, *, ready: Callable[[str], object]) -> None:
    """Serve runs until SIGTERM or SIGINT. `ready(address)` is called when the port is bound."""
    remove_abandoned_uploads()
    service = open_service(folders, config)
    gc.collect()
    gc.freeze()  # without it, each full garbage collection of the loaded data blocks for 0.2 s
    write_json_logs()
    server = _Server(configure_server(service), service, ready)
    try:
        server.run()
    except SystemExit as error:
        raise ConfigError(
            f"{config.host}:{config.port} cannot be bound", hint="choose another --port or --host"
        ) from error

"""What all routes share: the settings, the runs, the engine, the database, the figures."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request

from ontodex.errors import ConfigError
from ontodex.serve.database import Database
from ontodex.serve.engine import Engine
from ontodex.serve.figures import Figures
from ontodex.serve.keys import Keys
from ontodex.serve.problems import not_found
from ontodex.serve.served import Card, Known, Served, url_name
from ontodex.serve.worker import Remote, Worker

if TYPE_CHECKING:
    from ontodex.serve.guard import Who


READERS = 2  # uploaded files that are read at the same time, each in a process of its own


@dataclass(frozen=True)
class ServeConfig:
    """How the service is reached and how much it takes."""

    host: str = "127.0.0.1"
    port: int = 8000
    database: str = "decisions.sqlite"  # a file, or a URL
    keys: Path | None = None
    user_header: str = ""  # set by a reverse proxy that has asked who it is
    proxies: tuple[str, ...] = ("127.0.0.1", "::1")  # from which the header is believed
    names: tuple[str, ...] = ()  # hosts besides localhost and addresses
    max_body: int = 2_000_000  # bytes
    max_upload: int = 20_000_000  # bytes
    queue: int = 256  # documents that may wait
    batch: int = 64  # documents ranked together
    timeout: float = 30.0  # seconds for an answer
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.keys is None and not is_loopback(self.host):
            raise ConfigError(
                f"--host {self.host} can be reached from other machines, so it needs keys",
                hint="ontodex keys add keys.tsv NAME, then serve with --keys keys.tsv",
            )
        if not 0 <= self.port < 65536:
            raise ConfigError(f"--port must be in 0..65535, not {self.port}")
        for option, value in (("queue", self.queue), ("batch", self.batch)):
            if value < 1:
                raise ConfigError(f"--{option} must be at least 1, not {value}")
        if min(self.max_body, self.max_upload) < 1 or self.timeout <= 0:
            raise ConfigError("--max-body, --max-upload and --timeout must be above 0")


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass
class Service:
    """One process's service. The first run is the one that is meant where none is named."""

    config: ServeConfig
    runs: Mapping[str, Served]
    database: Database
    keys: Keys | None
    figures: Figures
    engine: Engine
    worker: Worker | None = None  # None where the models are in this process
    is_stopping: bool = False
    reading: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(READERS))

    def run(self, name: str | None) -> Served:
        if name is None:
            return next(iter(self.runs.values()))
        if name not in self.runs:
            raise not_found("run", name)
        return self.runs[name]

    def close(self) -> None:
        """Answer what was accepted, then let go of the database."""
        self.is_stopping = True
        self.engine.stop()
        if self.worker is not None:
            self.worker.close()
        self.database.close()

    @property
    def is_ready(self) -> bool:
        """Whether requests should come here."""
        has_models = self.worker is None or self.worker.is_alive
        return has_models and not self.is_stopping and self.database.is_alive()


def open_service(folders: Sequence[Path], config: ServeConfig) -> Service:
    """Load the runs and open the database; whatever is wrong is said before a port is bound."""
    keys = None if config.keys is None else Keys(config.keys)
    database = Database.open(config.database)
    runs: dict[str, Served] = {}
    shared: dict[str, Known] = {}
    for folder in folders:
        name = url_name(folder)
        if name in runs:
            raise ConfigError(
                f"{folder} and {runs[name].run.folder} would both be called {name!r}",
                hint="rename one of the folders",
            )
        runs[name] = Served(name, Card.open(folder, shared))
    figures = Figures()
    worker = Worker({name: one.run.folder for name, one in runs.items()}, device=config.device)
    engine = Engine(
        {name: Remote(worker, name) for name in runs},
        capacity=config.queue,
        batch=config.batch,
        timeout=config.timeout,
        observe=figures.batch,
    )
    return Service(config, runs, database, keys, figures, engine, worker)


async def service_of(request: Request) -> Service:  # async: FastAPI gives others a thread each
    service: Service = request.app.state.service
    return service


def who_of(request: Request) -> Who:
    who: Who = request.state.who
    return who


TheService = Annotated[Service, Depends(service_of)]

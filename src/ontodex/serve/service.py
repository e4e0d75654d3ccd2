"""Settings of the service, and the objects that all routes share."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request

from ontodex.errors import ConfigError
from ontodex.io.counts import format_count
from ontodex.runs.run import load
from ontodex.serve.database.connection import describe_location
from ontodex.serve.database.database import Database
from ontodex.serve.http.api_keys import ApiKeys
from ontodex.serve.http.metrics import ServiceMetrics
from ontodex.serve.http.problems import Problem, make_not_found
from ontodex.serve.http.traces import Traces, open_traces
from ontodex.serve.http.trusted_proxy import read_network
from ontodex.serve.learn import describe_abilities
from ontodex.serve.prediction.batcher import Batcher
from ontodex.serve.prediction.model_process import ModelProcess, RemoteRanker
from ontodex.serve.prediction.ranker import LocalRanker, Ranker
from ontodex.serve.prediction.run_metadata import OntologyIndex, RunMetadata
from ontodex.serve.prediction.run_view import RunView, make_url_name

if TYPE_CHECKING:
    from ontodex.serve.http.middleware import User


logger = logging.getLogger(__name__)

PARALLEL_EXTRACTIONS = 2  # uploaded files read at the same time, each in its own process


@dataclass(frozen=True)
class ServeConfig:
    """Settings of `ontodex serve`: address, keys, database and limits."""

    host: str = "127.0.0.1"
    port: int = 8000
    database: str = "decisions.sqlite"  # a file, or a URL
    keys: Path | None = None
    user_header: str = ""  # set by a reverse proxy that has authenticated the user
    proxies: tuple[str, ...] = ("127.0.0.1", "::1")  # addresses or networks of that proxy
    proxy_secret: Path | None = None  # file with the secret that the proxy sends
    allowed_hosts: tuple[str, ...] = ()  # host names besides localhost and IP addresses
    allowed_origins: tuple[str, ...] = ()  # sites that may use /reconcile in a browser
    max_body: int = 2_000_000  # bytes
    max_upload: int = 20_000_000  # bytes
    queue: int = 256  # documents that may wait
    batch: int = 64  # documents ranked together
    timeout: float = 30.0  # seconds for an answer
    watch: float = 5.0  # seconds between two looks at the run folders; 0 = never
    device: str = "cpu"
    traces: str = ""  # address of an OpenTelemetry collector

    def __post_init__(self) -> None:
        for proxy in self.proxies:
            read_network(proxy)
        if self.proxy_secret is not None and not self.user_header:
            raise ConfigError("--proxy-secret needs --user-header, the header with the user's name")
        if self.keys is None and self.proxy_secret is None and not is_loopback(self.host):
            raise ConfigError(
                f"--host {self.host} can be reached from other machines, so it needs keys",
                hint="ontodex keys add keys.tsv NAME, then serve with --keys keys.tsv; or let a "
                "proxy name the users, with --user-header and --proxy-secret",
            )
        for origin in self.allowed_origins:
            if not re.fullmatch(r"https?://[^/\s;,'\"]+", origin):
                raise ConfigError(
                    f"--allowed-origin must be like http://127.0.0.1:3333, not {origin!r}"
                )
        if not 0 <= self.port < 65536:
            raise ConfigError(f"--port must be in 0..65535, not {self.port}")
        for option, value in (("queue", self.queue), ("batch", self.batch)):
            if value < 1:
                raise ConfigError(f"--{option} must be at least 1, not {value}")
        if min(self.max_body, self.max_upload) < 1 or self.timeout <= 0:
            raise ConfigError("--max-body, --max-upload and --timeout must be above 0")
        if self.watch < 0:
            raise ConfigError(f"--watch must not be negative, not {self.watch:g}")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass
class Service:
    """The state of one service process. The first run answers requests that name no run."""

    config: ServeConfig
    runs: Mapping[str, RunView]
    database: Database
    keys: ApiKeys | None
    metrics: ServiceMetrics
    batcher: Batcher
    model_process: ModelProcess | None = None  # None: the models are in this process
    traces: Traces = field(default_factory=Traces)
    # Processes with earlier versions, by the task that closes each.
    retirements: dict[asyncio.Task[None], ModelProcess | None] = field(default_factory=dict)
    reloading: asyncio.Lock = field(default_factory=asyncio.Lock)
    is_stopping: bool = False
    extraction_slots: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(PARALLEL_EXTRACTIONS)
    )

    def __post_init__(self) -> None:
        self.database.projects.adopt(
            {name: self.get_project(run) for name, run in self.runs.items()}
        )

    def get_project(self, run: RunView) -> int:
        """Return the project of a run's vocabulary."""
        return self.database.projects.open(run.vocabulary_key, run.vocabulary_name)

    def find_project(self, project: int | None) -> int:
        """Return the project of a request; without one, that of the first run."""
        return self.get_project(self.find_run(None)) if project is None else project

    def find_run_of(self, number: int, name: str | None) -> RunView:
        """Return the run of this name, or the first one with the document's vocabulary.

        Raise a 409 problem if the vocabulary of the run is not that of the document.
        """
        found = self.database.projects.find_vocabulary(number)
        if found is None:
            self.database.get_document(number)  # says why
        project, vocabulary = found or (None, None)
        own = [run for run in self.runs.values() if run.vocabulary_key == vocabulary]
        if name is None and own:
            return own[0]
        run = self.find_run(name)
        if run not in own:
            raise Problem(
                409,
                f"document {number} belongs to project {project}; the run {run.name!r} has another "
                "vocabulary",
                hint="GET /projects lists the projects with their runs",
            )
        return run

    def find_run(self, name: str | None) -> RunView:
        """Return the run of this name, or the first one; raise a 404 problem if there is none."""
        if name is None:
            return next(iter(self.runs.values()))
        if name not in self.runs:
            raise make_not_found("run", name)
        return self.runs[name]

    def close(self) -> None:
        """Answer the accepted requests, then close the database."""
        self.is_stopping = True
        self.batcher.stop()
        for process in (self.model_process, *self.retirements.values()):
            if process is not None:
                process.close()
        self.database.close()
        self.traces.close()

    @property
    def is_ready(self) -> bool:
        """True while new requests can be answered."""
        has_models = self.model_process is None or self.model_process.is_alive
        return has_models and not self.is_stopping and self.database.is_alive()


def open_service(folders: Sequence[Path], config: ServeConfig) -> Service:
    """Load the runs and open the database. Errors are raised before a port is bound."""
    keys = None if config.keys is None else ApiKeys(config.keys)
    traces = open_traces(config.traces)
    logger.info("documents and decisions are kept in %s", describe_location(config.database))
    database = Database.open(config.database)
    runs = open_runs(folders)
    for name, run in runs.items():
        metadata = run.metadata
        logger.info(
            "%s: %s", name, describe_abilities(metadata.decision, metadata.settings.model_class)
        )
    metrics = ServiceMetrics()
    rankers, model_process = open_rankers(runs, device=config.device)
    batcher = Batcher(
        rankers,
        capacity=config.queue,
        batch=config.batch,
        timeout=config.timeout,
        observe=metrics.record_batch,
        traces=traces,
    )
    return Service(config, runs, database, keys, metrics, batcher, model_process, traces)


def open_rankers(
    runs: Mapping[str, RunView], *, device: str, is_local: bool = False
) -> tuple[dict[str, Ranker], ModelProcess | None]:
    """Load the models of runs, in a process of their own or in this one."""
    folders = {run.ranker_key: run.metadata.folder for run in runs.values()}
    if is_local:
        local = {key: LocalRanker(load(path, device=device)) for key, path in folders.items()}
        return {**local}, None
    manifests = {run.ranker_key: run.state_key for run in runs.values()}
    process = ModelProcess(folders, device=device, manifests=manifests)
    return {key: RemoteRanker(process, key) for key in folders}, process


def open_runs(folders: Sequence[Path]) -> dict[str, RunView]:
    """Open the run folders by their names in URLs. Runs with equal ontologies share one index."""
    runs: dict[str, RunView] = {}
    indexes: dict[str, OntologyIndex] = {}
    for folder in folders:
        name = make_url_name(folder)
        if name in runs:
            raise ConfigError(
                f"{folder} and {runs[name].metadata.folder} would both be called {name!r}",
                hint="rename one of the folders",
            )
        logger.info("reading %s", folder)
        runs[name] = RunView(name, RunMetadata.open(folder, indexes))
        metadata = runs[name].metadata
        n_labels = format_count(len(metadata.labels), "label")
        n_concepts = format_count(len(metadata.index.ontology), "concept")
        logger.info("%s: %s, %s, %s", folder, metadata.settings.name, n_labels, n_concepts)
    return runs


# async, because FastAPI runs other dependencies in a thread each.
async def get_service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def get_user(request: Request) -> User:
    """Return the user that the middleware has authenticated."""
    user: User = request.state.user
    return user


ServiceDep = Annotated[Service, Depends(get_service)]

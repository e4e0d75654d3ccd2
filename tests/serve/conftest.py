"""A small trained run, and a service around it in this process."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from starlette.testclient import TestClient

from attack.postgres import start_postgres
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.runs.recipe import train
from ontodex.runs.run import load
from ontodex.serve.api import build_application
from ontodex.serve.database.database import Database
from ontodex.serve.http.api_keys import ApiKeys
from ontodex.serve.http.metrics import ServiceMetrics
from ontodex.serve.http.traces import Traces
from ontodex.serve.prediction.batcher import Batcher
from ontodex.serve.prediction.ranker import LocalRanker
from ontodex.serve.prediction.run_metadata import RunMetadata
from ontodex.serve.prediction.run_view import RunView
from ontodex.serve.service import ServeConfig, Service
from ontodex.types import Corpus, Doc
from patience import PATIENCE

ONTOLOGY = build_ontology(
    [
        Concept("nature", {"en": "Nature", "de": "Natur"}),
        Concept("animals", {"en": "Animals", "de": "Tiere"}, parents=["nature"]),
        Concept(
            "fish",
            {"en": "Fish", "de": "Fische"},
            synonyms={"en": ["Pisces"]},
            parents=["animals"],
            definition="Cold-blooded, in water.",
            notation="12",
        ),
        Concept("newt", {"en": "Newt"}, parents=["animals"]),
        Concept("oak", {"en": "Oak"}, parents=["nature"]),
        Concept("http://e.org/road", {"en": "Road safety"}),
    ]
)
SENTENCES = {
    "fish": "trout swim in the cold stream",
    "oak": "old oaks stand in the forest",
    "http://e.org/road": "cars brake at the crossing of a road",
}
DOCS = [
    Doc(f"{label}-{i}", {"title": f"{sentence} {i}"}, (), (label,))
    for i in range(12)
    for label, sentence in SENTENCES.items()
]


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("serve") / "small"
    tables = {"model": {"name": "knn"}, "decide": {"rule": "ofo"}}
    train(config=tables, out=out, train=Corpus.of(DOCS), dev=Corpus.of(DOCS), ontology=ONTOLOGY)
    return out


@pytest.fixture(scope="session")
def served(run_folder: Path) -> RunView:
    return RunView("small", RunMetadata.open(run_folder))


@dataclass
class Server:
    """A service in a process of its own."""

    process: subprocess.Popen[str]
    address: str
    log: Path

    def get(self, path: str) -> requests.Response:
        return requests.get(self.address + path, timeout=PATIENCE)

    def post(self, path: str, **more: Any) -> requests.Response:
        return requests.post(self.address + path, timeout=PATIENCE, **more)


Launch = Callable[..., Server]


@pytest.fixture
def launch(run_folder: Path, tmp_path: Path) -> Iterator[Launch]:
    """Start `ontodex serve` with these arguments; processes left at the end are killed."""
    numbers = itertools.count()
    with ExitStack() as stack:

        def start_process(
            *arguments: str, database: str | None = None, folder: Path = run_folder
        ) -> Server:
            log = tmp_path / f"log-{next(numbers)}"
            where = database or str(tmp_path / "decisions.sqlite")
            command = [sys.executable, "-m", "ontodex", "serve", str(folder), "--port", "0"]
            process = subprocess.Popen(
                [*command, "--database", where, *arguments],
                stdout=subprocess.PIPE,
                stderr=stack.enter_context(log.open("w")),
                text=True,
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            assert process.stdout is not None
            stack.enter_context(process.stdout)
            line = process.stdout.readline()
            assert line.startswith("serving on "), log.read_text()
            return Server(process, line.split()[-1], log)

        yield start_process


@pytest.fixture
def postgres() -> Iterator[str]:
    """The URL of an empty database in a PostgreSQL of our own, where its programs are installed."""
    with start_postgres() as url:
        if url is None:
            pytest.skip("no PostgreSQL here: apt-get install postgresql")
        yield url


Start = Callable[..., TestClient]


@pytest.fixture
def start(served: RunView, tmp_path: Path) -> Iterator[Start]:
    """A client of a service with these settings; `runs` in place of the one small run."""
    with ExitStack() as stack:

        def client(
            runs: dict[str, RunView] | None = None,
            address: str = "testclient",
            traces: Traces | None = None,
            **settings: Any,
        ) -> TestClient:
            settings.setdefault("database", str(tmp_path / "decisions.sqlite"))
            config = ServeConfig(**settings)
            runs = {"small": served} if runs is None else runs
            metrics = ServiceMetrics()
            batcher = Batcher(
                {name: LocalRanker(load(one.metadata.folder)) for name, one in runs.items()},
                capacity=config.queue,
                batch=config.batch,
                timeout=config.timeout,
                observe=metrics.record_batch,
                traces=traces,
            )
            keys = None if config.keys is None else ApiKeys(config.keys)
            database = Database.open(config.database)
            service = Service(
                config, runs, database, keys, metrics, batcher, traces=traces or Traces()
            )
            app = build_application(service)
            made = TestClient(app, base_url="http://localhost", client=(address, 50_000))
            return stack.enter_context(made)

        yield client


@pytest.fixture
def client(start: Start) -> TestClient:
    return start()

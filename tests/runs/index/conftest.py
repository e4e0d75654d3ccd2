"""A small run and a finished index, shared by the tests of `ontodex index`."""

from __future__ import annotations

from pathlib import Path

import pytest

from index_jobs import DOCS, write_input
from ontodex.corpora.datasets import get
from ontodex.corpora.open import open_corpus
from ontodex.io.files import hash_file
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.runs.index.block import Task
from ontodex.runs.index.job import index_documents
from ontodex.runs.recipe import train
from ontodex.runs.run import Run
from ontodex.types import Corpus

ONTOLOGY = build_ontology(
    [
        Concept("fish", {"en": "Fish", "de": "Fische"}),
        Concept("oak", {"en": "=Oak", "de": "Eiche"}),
        Concept("road", {"en": "Road; street", "de": "Straße"}),
    ]
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("index") / "run"
    corpus = Corpus.of(DOCS)
    tables = {"model": {"name": "linear"}}
    return train(config=tables, out=out, train=corpus, dev=corpus, ontology=ONTOLOGY)


@pytest.fixture
def task(run: Run) -> Task:
    return Task(run.folder, hash_file(run.folder / "manifest.json"), "cpu", None, None, None)


@pytest.fixture(scope="module")
def finished(run: Run, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(input, table) of a job that is done."""
    folder = tmp_path_factory.mktemp("finished")
    source = write_input(folder / "in.jsonl", DOCS)
    index_documents(run.folder, source, folder / "out.csv", limit=2)
    return source, folder / "out.csv"


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(run folder, input): label trees of the bundled sample, and its training documents."""
    folder = tmp_path_factory.mktemp("sample")
    get("sample", folder)
    dev = open_corpus(folder / "dev.jsonl")
    train(config={"model": {"name": "parabel"}}, out=folder / "run", train=dev, dev=dev)
    return folder / "run", folder / "train.jsonl"

"""A run of `popularity` that trains at once: its documents, ontology and settings."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ontodex.ontology.graph import Concept, build_ontology
from ontodex.runs.recipe import train
from ontodex.types import Corpus, Doc

DOCS = Corpus.of(
    [
        Doc(str(i), {"title": f"trout {i}"}, (), ("fish",) if i % 3 else ("fish", "oak"))
        for i in range(30)
    ]
)
ONTOLOGY = build_ontology(
    [
        Concept("animals", {"en": "Animals", "de": "Tiere"}),
        Concept("fish", {"en": "Fish", "de": "Fische"}, parents=["animals"]),
        Concept("oak", {"en": "Oak"}, synonyms={"en": ["quercus"]}),
        Concept("newt", {"en": "Newt"}, parents=["animals"]),
    ]
)
TABLES = {"model": {"name": "popularity"}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "floor"
    train(config=TABLES, out=out, train=DOCS, ontology=ONTOLOGY)
    return out


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))

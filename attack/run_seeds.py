"""The run folders that are damaged: those of version 0.1, and a new one of every registered system.

A new system needs nothing here: it is found in the registry and trained with the settings of
tests/small_settings.toml.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
import tomllib
from pathlib import Path
from typing import Any

from attack.service import LABELS, SENTENCES
from ontodex.models import MODELS, find_model
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.runs.migrate import migrate
from ontodex.runs.recipe import train
from ontodex.types import Corpus, Doc, Ontology

TESTS = Path(__file__).parent.parent / "tests"
OLD_RUNS = TESTS / "runs" / "0.1"
MEMBERS = ("knn", "linear")  # of the consensus
POINTER = {"merge": "pointer", "pointer": {"embedding": 16, "hidden": 16, "steps": 5}}
VARIANTS = {f"{name}-pointer": (name, POINTER) for name in ("levelwise", "attentive-levels")}
WINDOW = 32  # pieces that the small encoder reads together
EPOCHS = 2  # a damaged network need not be a good one


def find_seeds(folder: Path) -> dict[str, Path]:
    """Return all seeds by name; those of today's systems are trained in the folder."""
    old = {f"0.1/{path.name}": path for path in sorted(OLD_RUNS.iterdir()) if path.is_dir()}
    return {**old, **train_every_system(folder)}


def train_every_system(folder: Path) -> dict[str, Path]:
    """Train every registered system on a few documents; return the run folders by name."""
    small = tomllib.loads((TESTS / "small_settings.toml").read_text())
    encoder = {"encoder": str(_write_encoder(folder / "encoder")), "window": WINDOW}
    made = {name: _choose_known(name, encoder) for name in MODELS if _reads_with_encoder(name)}
    made["consensus"] = {"members": [str(folder / name) for name in MEMBERS]}
    plans = {name: (name, made.get(name, {})) for name in MODELS} | VARIANTS
    runs: dict[str, Path] = {}
    for run, (name, own) in plans.items():
        settings = _shorten({**small.get(name, {}), **own})
        train(
            config={"model": {"name": name, **settings}},
            out=folder / run,
            train=make_corpus(6),
            dev=make_corpus(2),
            ontology=make_ontology(),
        )
        runs[run] = folder / run
    eel = Concept("eel", {"en": "Eel"}, parents=["animals"])
    migrate(runs["linear"], make_ontology(eel), folder / "migrated")
    return {**runs, "migrated": folder / "migrated"}


def _reads_with_encoder(system: str) -> bool:
    settings = dataclasses.fields(find_model(system).Config)
    return any(one.name == "encoder" and one.metadata.get("path") for one in settings)


def _choose_known(system: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that a system has."""
    known = {one.name for one in dataclasses.fields(find_model(system).Config)}
    return {name: value for name, value in settings.items() if name in known}


def _shorten(settings: dict[str, Any]) -> dict[str, Any]:
    if "train" not in settings:
        return settings
    return {**settings, "train": {**settings["train"], "epochs": EPOCHS}}


def make_corpus(n: int) -> Corpus:
    """Return n documents of each label."""
    return Corpus.of(
        Doc(f"{label}-{i}", {"title": f"{sentence} {i}"}, (), (label,))
        for i in range(n)
        for label, sentence in zip(LABELS, SENTENCES, strict=True)
    )


def make_ontology(*more: Concept) -> Ontology:
    """Return an ontology with the labels on three levels, and one concept without documents."""
    return build_ontology(
        [
            Concept("nature", {"en": "Nature", "de": "Natur"}),
            Concept("animals", {"en": "Animals"}, parents=["nature"]),
            Concept("fish", {"en": "Fish"}, {"en": ("trout",)}, parents=["animals"]),
            Concept("newt", {"en": "Newt"}, parents=["animals"]),
            Concept("oak", {"en": "Oak"}, parents=["nature"]),
            Concept("http://e.org/road", {"en": "Road safety"}),
            *more,
        ]
    )


def _write_encoder(folder: Path) -> Path:
    """Write a pretrained encoder with random weights."""
    sys.path.insert(0, str(TESTS / "shared"))
    module: Any = importlib.import_module("tiny_encoder")
    sys.path.pop(0)
    path: Path = module.write_tiny_encoder(folder, SENTENCES)
    return path

"""The members of a consensus: trained systems with their own label spaces, and their folders.

A run folder holds copies of its members, with the files that loading needs and no others.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ontodex.config import Table, dump
from ontodex.errors import RunError
from ontodex.io.files import write_text
from ontodex.io.old_systems import name_system
from ontodex.models import find_model
from ontodex.models.interface import Model
from ontodex.ontology.open import read_ontology
from ontodex.runs.folder import load_config, load_labels, save_labels
from ontodex.types import LabelSpace, Ontology

# The files of a member's run folder that loading needs; the others are about its training.
MEMBER_FILES = ("config.toml", "labels.tsv", "ontology.json", "model")


class Member(Protocol):
    """A trained system in its run folder, with its own label space."""

    @property
    def folder(self) -> Path: ...
    @property
    def labels(self) -> LabelSpace: ...
    @property
    def model(self) -> Model: ...


@dataclass(frozen=True, eq=False)
class StoredMember:
    """A member read from a folder."""

    folder: Path
    labels: LabelSpace
    model: Model


@dataclass(frozen=True, eq=False)
class FittedMember:
    """A member that was trained in this process and has no run folder of its own."""

    labels: LabelSpace
    model: Model
    name: str  # of its system
    settings: Table  # those that differ from the defaults

    @property
    def folder(self) -> Path:
        return Path(self.name)

    def write(self, folder: Path) -> None:
        """Write what `read_member` reads. The ontology is that of the consensus."""
        (folder / "model").mkdir(parents=True, exist_ok=True)
        table = {"name": self.name, **self.settings}  # only its name is read again
        write_text(folder / "config.toml", dump({"model": table}))
        save_labels(self.labels, folder / "labels.tsv")
        self.model.save(folder / "model")


def find_system(folder: Path) -> type[Model]:
    """Return the class of the system in a run folder or in a copy inside a consensus."""
    name = name_system(load_config(folder).get("model", {}))
    if not isinstance(name, str):
        raise RunError(f"{folder}/config.toml: [model] has no name")
    return find_model(name)


def read_member(folder: Path, *, device: str, ontology: Ontology | None = None) -> StoredMember:
    """Load the system of a run folder or of a copy inside a consensus.

    A folder without an ontology of its own takes the given one.
    """
    vocabulary = folder / "ontology.json"
    if vocabulary.exists():
        ontology = read_ontology(vocabulary, "json")
    labels = load_labels(folder / "labels.tsv", ontology)
    return StoredMember(
        folder, labels, find_system(folder).load(folder / "model", labels, device=device)
    )


def copy_member(folder: Path, target: Path) -> None:
    """Copy the files of a run folder that `read_member` needs."""
    target.mkdir(parents=True, exist_ok=True)
    for part in MEMBER_FILES:
        source = folder / part
        if source.is_dir():
            shutil.copytree(source, target / part, dirs_exist_ok=True)
        elif source.exists():
            shutil.copyfile(source, target / part)

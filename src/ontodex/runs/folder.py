"""The run folder: the result of a training, self-contained, in plain files.

    config.toml     every setting, resolved              labels.tsv     column -> concept, frequency
    model/          the system (safetensors, JSON, TSV)  ontology.json  if there is an ontology
    decision.json   how rankings become label sets       metrics.json, report.html, log.jsonl
    README.md       the model card, for people
    manifest.json   written last: format version and SHA-256 of every file that is loaded

A folder without a manifest is an unfinished training. Loading refuses every file that differs from
the manifest; nothing is ever unpickled.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ontodex.config import Table
from ontodex.config import read as read_config
from ontodex.corpora.field_mapping import NO_MAPPING, FieldMapping
from ontodex.errors import RunError
from ontodex.io.files import hash_file, write_text
from ontodex.io.json_schema import parse_record, read_table
from ontodex.types import LabelSpace, Ontology

FORMAT = 1
_HINT = "copy the run folder again, or train again"
OLDEST_FORMAT = 1
# Evaluations and logs are written after training; they may change without changing the model.
MANIFEST = "manifest.json"
UNTRUSTED = {MANIFEST, "metrics.json", "report.html", "log.jsonl", "README.md"}
MAX_NAME = 200  # characters of the path of a file inside the folder
SUFFIXES = {".safetensors", ".json", ".tsv", ".txt", ".toml", ".html", ".jsonl", ".npy", ".png"}


def save_labels(labels: LabelSpace, path: Path) -> None:
    """Write the columns in order: id, training frequency, name (for readers; it is not loaded)."""
    for label in labels.ids:
        if any(character in label for character in "\t\r\n"):
            raise RunError(
                f"label {label!r} has a tab or a line break, which labels.tsv cannot hold",
                hint="rename the label in the corpus",
            )
    rows = (
        f"{label}\t{frequency}\t{' '.join(labels.name(column).split())}\n"
        for column, (label, frequency) in enumerate(zip(labels.ids, labels.frequency, strict=True))
    )
    write_text(path, f"label\tfrequency in {labels.n_docs} documents\tname\n" + "".join(rows))


def load_labels(path: Path, ontology: Ontology | None = None) -> LabelSpace:
    """Read the labels that `save_labels` wrote."""
    try:
        text = path.read_bytes().decode("utf-8")
        header, *rows = text.removesuffix("\n").split("\n")
        n_docs = _parse_count(_HEADER.fullmatch(header).group(1), 2**53)  # type: ignore[union-attr]
        pairs = [row.split("\t", 2) for row in rows]
        frequency = np.array([_parse_count(pair[1], n_docs) for pair in pairs], dtype=np.int64)
    except (OSError, ValueError, IndexError, AttributeError) as error:
        raise RunError(
            f"{path}: not a list of labels as training writes it ({error!s:.200})"
        ) from error
    ids = tuple(pair[0] for pair in pairs)
    if not ids:
        raise RunError(f"{path}: has no label", hint=_HINT)
    if len(set(ids)) < len(ids) or "" in ids:
        raise RunError(f"{path}: a label is listed twice or has no id", hint=_HINT)
    return LabelSpace(ids, frequency, n_docs, ontology)


_HEADER = re.compile(r"label\tfrequency in (\d+) documents\tname")


def _parse_count(text: str, most: int) -> int:
    """Return a frequency from 0 to `most`."""
    if not text.isdecimal() or len(text) > 16 or int(text) > most:
        raise ValueError(f"{text[:40]!r} is no number of documents from 0 to {most:,}")
    return int(text)


def write_manifest(folder: Path, about: Mapping[str, Any]) -> None:
    """Write the manifest, which makes the folder a finished run."""
    files = {
        str(path.relative_to(folder)): hash_file(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in UNTRUSTED and not path.name.startswith(".")
    }
    manifest = {"format": FORMAT, **about, "files": files}
    write_text(folder / MANIFEST, json.dumps(manifest, indent=1) + "\n")


@dataclass(frozen=True)
class _Documents:
    """The documents of a part of the corpus."""

    documents: int
    key: str
    path: str = ""  # where the whole corpus was; "" if it was given as documents


@dataclass(frozen=True)
class _Updates:
    """The documents that `update` added; older runs know only the last key."""

    documents: int = 0
    keys: tuple[str, ...] = ()
    last: str = ""


@dataclass(frozen=True)
class _Manifest:
    """The fields of manifest.json that are used after loading; others are for readers."""

    format: int
    files: dict[str, str]
    model: str = ""
    train: _Documents | None = None
    labels: int = 0
    train_seconds: float = 0.0
    ontodex: str = ""
    dev: _Documents | None = None
    hardware: str = ""
    learned: dict[str, int] = field(default_factory=dict)  # decisions that `learn` has used
    updates: _Updates = _Updates()
    fields: FieldMapping = NO_MAPPING  # columns of the training documents
    languages: tuple[str, ...] = ()  # of the training documents
    refit: bool = False  # whether it learned from the dev documents too


# A run that is loaded has these too; a folder that is only verified may lack them.
_OF_TRAINING = ("model", "train", "labels", "train_seconds")
_FACTS = {one.name for one in dataclasses.fields(_Manifest)}


def is_finished(folder: Path) -> bool:
    return (folder / MANIFEST).exists()


def verify_folder(folder: Path) -> dict[str, Any]:
    """Return the manifest of a run; refuse the run if any file differs from what was written."""
    if not folder.is_dir():
        what = "is a file, not a run folder" if folder.exists() else "there is no such run folder"
        raise RunError(f"{folder}: {what}", hint="train one: ontodex train")
    if not is_finished(folder) and not (folder / "config.toml").exists():
        raise RunError(
            f"{folder}: not a run folder: it has neither manifest.json nor config.toml",
            hint="give the folder that was --out of ontodex train",
        )
    if not is_finished(folder):
        raise RunError(
            f"{folder}: no manifest.json, so this is not a finished run",
            hint="start the same `ontodex train ... --out` again: it continues where it stopped",
        )
    refuse_special_files(folder)
    manifest, files = _read_manifest(folder)
    for name, expected in files.items():
        _verify_file(folder, name, expected)
    for path in folder.rglob("*"):
        trusted = str(path.relative_to(folder)) in files or path.name in UNTRUSTED
        if path.is_file() and not trusted and path.parent != folder:
            raise RunError(f"{path}: not in the manifest of this run", hint="remove it")
    return manifest


def list_files(folder: Path) -> list[str]:
    """Return the names of all files of a run, from its manifest; some may be missing."""
    return [*_read_manifest(folder)[1], *sorted(UNTRUSTED)]


def _read_manifest(folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the manifest of a run, and the digest of each of its files."""
    manifest = read_table(folder / MANIFEST)
    facts = {name: value for name, value in manifest.items() if name in _FACTS}
    known = parse_record(_Manifest, facts, f"{folder / MANIFEST}: damaged")
    if not OLDEST_FORMAT <= known.format <= FORMAT:
        raise RunError(
            f"{folder}: written in run format {known.format}; this version reads "
            f"{OLDEST_FORMAT} to {FORMAT}",
            hint="use the ontodex version that wrote it, or train again",
        )
    for name in known.files:
        is_outside = "\0" in name or ".." in Path(name).parts or Path(name).is_absolute()
        if is_outside or Path(name).suffix not in SUFFIXES:
            raise RunError(f"{folder}/{MANIFEST} names {name!r}, which no run contains")
        if len(name) > MAX_NAME:
            raise RunError(f"{folder}/{MANIFEST} names {name[:MAX_NAME]!r}..., which is too long")
    return manifest, known.files


def refuse_special_files(folder: Path) -> None:
    """Refuse links, pipes and devices before any file is read: reading one may never end."""
    for path in folder.rglob("*"):
        if path.is_symlink():
            raise RunError(
                f"{path}: links inside a run folder are refused", hint="copy the file itself"
            )
        if not (path.is_file() or path.is_dir()):
            raise RunError(f"{path}: is not a regular file", hint="remove it")


def check_training_facts(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse a manifest that does not say how the run was trained."""
    for name in _OF_TRAINING:
        if manifest.get(name) is None:
            raise RunError(f"{folder / MANIFEST}: damaged: {name!r} is missing", hint=_HINT)


def _verify_file(folder: Path, name: str, expected: str) -> None:
    path = folder / name
    if not path.is_file():
        raise RunError(
            f"{str(path)[:500]}: missing from the run folder", hint="copy the whole folder again"
        )
    seen = hash_file(path)
    if seen != expected:
        raise RunError(
            f"{path}: changed since it was written (SHA-256 {seen[:12]}..., "
            f"manifest says {expected[:12]}...)",
            hint="copy the run folder again, or train again",
        )


def load_config(folder: Path) -> Table:
    return read_config(folder / "config.toml")

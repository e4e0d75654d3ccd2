"""Train the system of a run again, on its training corpus and on more documents."""

from __future__ import annotations

import logging
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ontodex.corpora.field_mapping import NO_MAPPING
from ontodex.corpora.label_names import match_labels
from ontodex.corpora.open import open_mapped
from ontodex.errors import RunError
from ontodex.io.counts import format_count
from ontodex.io.temporary import temporary_folder
from ontodex.runs.documents import choose_mapping
from ontodex.runs.folder import load_config, write_manifest
from ontodex.runs.migration import MIGRATION, map_labels, read_migration
from ontodex.runs.recipe import train as train_system
from ontodex.runs.run import Run, load
from ontodex.runs.vocabulary import keep_vocabulary_key
from ontodex.types import Corpus, Ontology

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sources:
    """The corpora of a training, and their paths as the manifest records them."""

    train: Corpus
    dev: Corpus | None
    train_path: str
    dev_path: str


def open_sources(run: Run, train: str | Path | None = None) -> Sources:
    """Open the corpora that the run was trained on; `train` names another training corpus."""
    train_path = str(train or _get_path(run, "train"))
    dev_path = _get_path(run, "dev")
    if not train_path:
        raise RunError(
            f"{run.folder}: does not record the path of its training corpus",
            hint="name it: --train CORPUS",
        )
    if not Path(train_path).exists():
        raise RunError(
            f"{train_path}: the run was trained on this corpus, and it is gone",
            hint="name the training corpus: --train CORPUS",
        )
    if dev_path and not Path(dev_path).exists():
        logger.warning("%s is gone: a tenth of the training documents is dev instead", dev_path)
        dev_path = ""
    dev = _open(run, dev_path) if dev_path else None
    return Sources(_open(run, train_path), dev, train_path, dev_path)


def _open(run: Run, path: str) -> Corpus:
    """Open documents with the columns of the training documents and the labels of the run."""
    corpus = open_mapped(path, choose_mapping(path, NO_MAPPING, run.about))
    if successors := read_migration(run.folder):
        corpus = map_labels(corpus, successors)
    return match_labels(corpus, run.labels.ontology, path, run.labels)


def _get_path(run: Run, part: str) -> str:
    return str(run.about.get(part, {}).get("path", ""))


def retrain_run(
    run: Run, out: Path, sources: Sources, more: Corpus, *, device: str = "auto"
) -> Run:
    """Train the run's system with its settings on its corpus and `more`; write the folder `out`.

    A document of `more` replaces the one of the same id in the training corpus.
    """
    new = {id_ for id_ in more.ids if id_}
    kept = sources.train.select(np.array([id_ not in new for id_ in sources.train.ids], bool))
    if replaced := len(sources.train) - len(kept):
        logger.info("%s replaced by decided ones", format_count(replaced, "training document"))
    documents = kept.join(more) if len(more) else kept
    trained = _train_again(run.folder, out, documents, sources.dev, run.labels.ontology, device)
    about = {key: value for key, value in trained.about.items() if key not in ("format", "files")}
    about["train"] = {**about["train"], "path": sources.train_path}
    about |= keep_vocabulary_key(run.about, run.labels)
    if "fields" in run.about:
        about["fields"] = run.about["fields"]
    if sources.dev_path:
        about["dev"] = {**about["dev"], "path": sources.dev_path}
    if (run.folder / MIGRATION).exists():  # the training corpus still has the old labels
        shutil.copyfile(run.folder / MIGRATION, out / MIGRATION)
    write_manifest(out, about)
    return load(out, device=device)


def _train_again(
    folder: Path,
    out: Path,
    train: Corpus,
    dev: Corpus | None,
    ontology: Ontology | None,
    device: str,
) -> Run:
    """Train the system of a run folder, or of a member of a consensus, with its settings."""
    tables = load_config(folder)
    if tables["model"]["name"] == "migrated":  # back to the system that was migrated
        member = folder / "model" / "member"
        return _train_again(member, out, train, dev, ontology, device)
    if tables["model"]["name"] != "consensus":
        return train_system(
            train=train, dev=dev, ontology=ontology, out=out, device=device, config=tables
        )
    members = sorted((folder / "model" / "members").iterdir(), key=lambda path: int(path.name))
    with temporary_folder(out.with_name(f"{out.name}.members")) as place:
        trained = [place / member.name for member in members]
        for member, target in zip(members, trained, strict=True):
            _train_again(member, target, train, dev, ontology, device)
        tables["model"]["members"] = [str(path) for path in trained]
        return train_system(
            train=train, dev=dev, ontology=ontology, out=out, device=device, config=tables
        )

"""Add documents to a run whose system takes them without training."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import numpy as np

from ontodex.corpora.field_mapping import NO_MAPPING, FieldMapping
from ontodex.corpora.open import Documents
from ontodex.errors import RunError
from ontodex.io.counts import format_count
from ontodex.models.interface import Updates
from ontodex.runs.documents import open_documents
from ontodex.runs.folder import save_labels, write_manifest
from ontodex.runs.model_card import save_model_card
from ontodex.runs.recipe import refuse_unlabelled, warn_unknown_labels
from ontodex.runs.run import Run, load, locate_run
from ontodex.runs.versions import replace_run
from ontodex.runs.vocabulary import keep_vocabulary_key
from ontodex.types import Corpus, LabelSpace

logger = logging.getLogger(__name__)


def update(
    run: Run | str | Path,
    corpus: Documents,
    *,
    device: str = "cpu",
    mapping: FieldMapping = NO_MAPPING,
) -> Run:
    """Add documents to a run without training; labels it did not know get new columns.

    The new run is written beside the old one and replaces it in one step: at any moment the folder
    holds the old run or the new one. The old one is kept as an earlier version. Metrics of the old
    run are not copied.

    >>> ontodex.update("runs/knn", "new.jsonl").n_updated
    2
    """
    folder = locate_run(run)
    with replace_run(folder) as new:
        old = load(folder, device=device)
        add_documents(old, open_documents(corpus, old.labels, old.about, mapping), new)
    return load(folder, device=device)


def add_documents(old: Run, corpus: Corpus, out: Path) -> None:
    """Add documents to a loaded run and write it to the folder `out`."""
    folder = old.folder
    if not isinstance(old.model, Updates):
        raise RunError(
            f"the system {old.settings.name!r} cannot take documents without training",
            hint="train from scratch on all documents, or use a system that can: knn, graphknn",
        )
    if has_documents(old, corpus):
        raise RunError(
            f"{folder}: has taken these documents already", hint="give only documents that are new"
        )
    documents = _drop_unlabelled(corpus)
    labels = old.labels.extend(documents)
    given = sorted({label for own in documents.labels() for label in own})
    warn_unknown_labels(given, labels.ontology, "new")
    old.model.update(documents, labels)
    added = {"documents": old.n_updated + len(documents), "keys": [*_updates(old), corpus.key]}
    _save(old, labels, added, out)


def has_documents(run: Run, corpus: Corpus) -> bool:
    """Return whether the run has these documents from its training or from an update."""
    return corpus.key in (run.about["train"]["key"], *_updates(run))


def _updates(run: Run) -> list[str]:
    """Return the keys of the corpora that were added; older runs know only the last."""
    updates = run.about.get("updates", {})
    return list(updates.get("keys") or filter(None, [updates.get("last")]))


def _drop_unlabelled(corpus: Corpus) -> Corpus:
    refuse_unlabelled(corpus, "new")
    labelled = corpus.select(np.array([bool(own) for own in corpus.labels()]))
    if dropped := len(corpus) - len(labelled):
        logger.warning(
            "left out, because they have no label: %s of %s",
            f"{dropped:,}",
            format_count(len(corpus), "new document"),
        )
    return labelled


def _save(run: Run, labels: LabelSpace, added: dict[str, object], out: Path) -> None:
    for name in ("config.toml", "ontology.json", "log.jsonl"):
        if (run.folder / name).exists():
            shutil.copyfile(run.folder / name, out / name)
    save_labels(labels, out / "labels.tsv")
    (out / "model").mkdir()
    run.model.save(out / "model")
    run.decision.for_labels(labels).save(out / "decision.json")
    about = {key: value for key, value in run.about.items() if key not in ("format", "files")}
    about |= {"labels": labels.n_seen, "updates": added}
    about |= keep_vocabulary_key(run.about, run.labels)
    save_model_card(out, about)
    write_manifest(out, about)

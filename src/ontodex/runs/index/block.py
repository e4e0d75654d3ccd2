"""Compute one block of `ontodex index`: documents in, their rows of the table out.

Wherever a worker runs (a process on this machine, a task on a cluster), the same `Task` and the
same documents give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from ontodex.errors import RunError
from ontodex.io.files import hash_file
from ontodex.models.interface import Decides
from ontodex.runs.run import Run, load
from ontodex.types import Corpus, Doc, Ranking

SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "labels": pa.list_(pa.string()),
        "names": pa.list_(pa.string()),
        "notations": pa.list_(pa.string()),  # one for each label, or none if no label has one
        "probabilities": pa.list_(pa.float32()),
    }
)


@dataclass(frozen=True)
class Task:
    """The settings with which every block of a job is computed."""

    run: Path
    manifest: str  # SHA-256 of the run's manifest.json, which holds those of all its files
    device: str
    limit: int | None
    threshold: float | None
    language: str | None

    def load_run(self) -> Run:
        """Return the run; a worker loads it once."""
        return _load_run(self.run, self.manifest, self.device)


def compute_block(task: Task, docs: Sequence[Doc], n_features: int = 0) -> bytes:
    """Return the rows of these documents, as an Arrow file.

    `n_features` is the number of features of documents without text.
    """
    run = task.load_run()
    # In memory, without a folder: features that a system prepares for a block are not kept.
    corpus = Corpus.of(docs, n_features=n_features)
    batch = _rows(corpus.ids, choose_labels(run, corpus, task), run, run.find_tag(task.language))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, SCHEMA) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


@lru_cache(maxsize=1)
def _load_run(folder: Path, manifest: str, device: str) -> Run:
    if not (folder / "manifest.json").is_file() or hash_file(folder / "manifest.json") != manifest:
        raise RunError(
            f"{folder}: not the run with which this job was begun",
            hint="every worker needs that run folder under the same path, unchanged",
        )
    return load(folder, device=device)


def choose_labels(run: Run, corpus: Corpus, task: Task) -> Ranking:
    """Return the labels of each document: the label set of the run or, with a threshold, the labels
    that reach it. A system that decides by itself predicts its label set first."""
    if task.threshold is None or isinstance(run.model, Decides):
        found = run.decide(corpus)
    else:
        found = run.rank(corpus) if task.limit is None else run.rank(corpus, task.limit)
    if task.threshold is not None:
        found = found.keep(found.probabilities >= task.threshold)
    return found if task.limit is None else found.cut(task.limit)


def _rows(ids: Sequence[str], found: Ranking, run: Run, language: str | None) -> pa.RecordBatch:
    ontology = run.labels.ontology
    known = {} if ontology is None else ontology.notations
    rows = [[column for column in row if column >= 0] for row in found.columns.tolist()]
    labels = [[run.labels.ids[column] for column in row] for row in rows]
    notations = [[known.get(label, "") for label in row] for row in labels]
    filled = found.columns >= 0
    offsets = np.concatenate([[0], np.cumsum(filled.sum(axis=1))]).astype(np.int32)
    columns = {
        "id": ids,
        "labels": labels,
        "names": [[run.labels.name(column, language) for column in row] for row in rows],
        "notations": [row if any(row) else [] for row in notations],
        "probabilities": pa.ListArray.from_arrays(offsets, found.probabilities[filled]),
    }
    return pa.RecordBatch.from_pydict(columns, schema=SCHEMA)

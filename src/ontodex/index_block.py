"""What one worker does for `ontodex index`: documents in, their rows of the table out.

Wherever a worker runs (a process beside the command, a task on a cluster), it gets the same `Task`
and the same documents and gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from ontodex.errors import RunError
from ontodex.files import digest
from ontodex.models.base import Decides
from ontodex.run import Run, load
from ontodex.types import Corpus, Doc, Ranking

SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "labels": pa.list_(pa.string()),
        "names": pa.list_(pa.string()),
        "probabilities": pa.list_(pa.float32()),
    }
)


@dataclass(frozen=True)
class Task:
    """How every block of a job is answered."""

    run: Path
    manifest: str  # SHA-256 of the run's manifest.json, which holds those of all its files
    device: str
    limit: int | None
    threshold: float | None
    language: str | None
    n_features: int  # of documents without text


def answer(task: Task, docs: Sequence[Doc]) -> bytes:
    """The rows of these documents, as an Arrow file."""
    run = _loaded(task.run, task.manifest, task.device)
    # In memory, without a folder: nothing that a system prepares for a block is worth keeping.
    corpus = Corpus.of(docs, n_features=task.n_features)
    batch = _rows(corpus.ids, chosen(run, corpus, task), run, task.language)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, SCHEMA) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


@lru_cache(maxsize=1)
def _loaded(folder: Path, manifest: str, device: str) -> Run:
    if not (folder / "manifest.json").is_file() or digest(folder / "manifest.json") != manifest:
        raise RunError(
            f"{folder}: not the run with which this job was begun",
            hint="every worker needs that run folder under the same path, unchanged",
        )
    return load(folder, device=device)


def chosen(run: Run, corpus: Corpus, task: Task) -> Ranking:
    """The labels of each document: those the run decides for or, with a threshold, those that reach
    it. A system that decides by itself chooses its own set first."""
    if task.threshold is None or isinstance(run.model, Decides):
        found = run.decide(corpus)
    else:
        found = run.rank(corpus) if task.limit is None else run.rank(corpus, task.limit)
    if task.threshold is not None:
        found = found.keep(found.probabilities >= task.threshold)
    return found if task.limit is None else found.cut(task.limit)


def _rows(ids: Sequence[str], found: Ranking, run: Run, language: str | None) -> pa.RecordBatch:
    filled = found.columns >= 0
    offsets = pa.array(np.concatenate([[0], np.cumsum(filled.sum(axis=1))]), pa.int32())
    columns = found.columns[filled].tolist()
    values = (
        pa.array([run.labels.ids[column] for column in columns], pa.string()),
        pa.array([run.labels.name(column, language) for column in columns], pa.string()),
        pa.array(found.probabilities[filled], pa.float32()),
    )
    lists = (pa.ListArray.from_arrays(offsets, value) for value in values)
    return pa.RecordBatch.from_arrays([pa.array(ids, pa.string()), *lists], schema=SCHEMA)

"""Index many documents: a table of documents in, a table of their concepts out.

    IN ─ admitted documents ─ blocks ─ workers, one part a block ─ parts in order ─ OUT

A killed job continues where it stopped (`resume`).
"""

from __future__ import annotations

import shutil
from pathlib import Path

from ontodex import __version__
from ontodex.corpora.field_mapping import NO_MAPPING, FieldMapping
from ontodex.errors import ConfigError
from ontodex.io.device import choose_device
from ontodex.io.files import hash_file, hold_lock, open_atomic
from ontodex.io.progress import Bar
from ontodex.runs.documents import choose_mapping
from ontodex.runs.folder import verify_folder
from ontodex.runs.index import ray_engine
from ontodex.runs.index.admission import admit_documents, digest_source
from ontodex.runs.index.block import Task
from ontodex.runs.index.resume import (
    IndexResult,
    JobFiles,
    JobPlan,
    JobRecord,
    finish,
    read_record,
    remove_unknown_parts,
    write_record,
)
from ontodex.runs.index.table import table_format, write_table
from ontodex.runs.index.workers import Block, compute_in_processes
from ontodex.runs.languages import get_languages, warn_foreign
from ontodex.types import Corpus

MAX_WORKERS = 256  # processes on this machine
BLOCK = 1_000  # documents; what a kill can cost each worker


def index_documents(
    run: str | Path,
    source: str | Path,
    out: str | Path,
    *,
    limit: int | None = None,
    threshold: float | None = None,
    language: str | None = None,
    block: int = BLOCK,
    workers: int | None = None,
    ray: str | None = None,
    device: str = "cpu",
    mapping: FieldMapping = NO_MAPPING,
) -> IndexResult:
    """Index the documents of `source` and write their labels, names and probabilities to `out`.

    The label sets are those of the run, or with `threshold` the labels that reach it, at most
    `limit`. `workers` processes share the blocks of `block` documents, by default one a processor.
    With `ray`, a cluster computes them: "local" for one on this machine, otherwise its address.
    `mapping` names columns of a table; by default they are those of the training documents.
    """
    for name, value in (("limit", limit), ("block", block), ("workers", workers)):
        if value is not None and value < 1:
            raise ConfigError(f"{name} must be at least 1, not {value}")
    if ray is None and workers is not None and workers > MAX_WORKERS:
        raise ConfigError(f"workers must be at most {MAX_WORKERS}, not {workers:,}")
    if ray is not None:
        ray_engine.import_ray(ray)  # if it is missing, say so before anything is read
    run, source, files = Path(run).resolve(), Path(source), JobFiles(Path(out))
    table_format(files.out)
    about = verify_folder(run)
    mapping, languages = choose_mapping(source, mapping, about), get_languages(about)
    device = choose_device(device)
    manifest, key = hash_file(run / "manifest.json"), digest_source(source, mapping)
    plan = JobPlan(__version__, manifest, key, limit, threshold, language, block, device)
    with hold_lock(files.parts / "lock", files.out):
        files.remove_partial_writes()
        record = read_record(files, plan)
        if record is not None and record.result is not None and files.out.exists():
            result = record.result
        else:
            if record is None:
                remove_unknown_parts(files.parts)
            corpus, blocks, n_rejected = admit_documents(source, files.parts, block, mapping)
            write_record(files, JobRecord(plan, None))
            warn_foreign(corpus, languages)
            task = Task(run, manifest, device, limit, threshold, language, corpus.n_features)
            _compute_parts(task, corpus, blocks, files, workers=workers, ray=ray)
            write_table([files.part(b.number) for b in blocks], files.out)
            result = IndexResult(len(corpus), n_rejected)
            finish(files, JobRecord(plan, result))
        shutil.rmtree(files.parts)
    return result


def _compute_parts(
    task: Task,
    corpus: Corpus,
    blocks: list[Block],
    files: JobFiles,
    *,
    workers: int | None,
    ray: str | None,
) -> None:
    """Compute and write the parts that are missing."""
    missing = [block for block in blocks if not files.part(block.number).exists()]
    if not missing:
        return
    if ray is not None:
        parts = ray_engine.compute_on_cluster(task, corpus, missing, address=ray, workers=workers)
    else:
        parts = compute_in_processes(
            task, corpus, missing, workers=workers or _count_workers(task.device)
        )
    bar = Bar("indexing, in blocks", len(blocks), done=len(blocks) - len(missing))
    try:
        for number, part in parts:
            with open_atomic(files.part(number)) as file:
                file.write(part)
            bar.advance()
    finally:
        bar.close()


def _count_workers(device: str) -> int:
    """Return the default number of workers: one for a GPU, otherwise one a processor."""
    from ontodex.io.threads import count_cores

    return count_cores() if device == "cpu" else 1

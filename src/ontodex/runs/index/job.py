"""Index many documents: inputs in, a folder of parts or one table of their concepts out.

    inputs ─ workers that read them ─ blocks ─ one part an input ─ OUT, a folder
                                                                 └ merged into OUT, a table

A killed job continues where it stopped (`resume`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

from ontodex.corpora.field_mapping import NO_MAPPING, FieldMapping
from ontodex.corpora.open import read_docs
from ontodex.errors import ConfigError, DataError, RunError
from ontodex.io.captured_warnings import capture_warnings
from ontodex.io.counts import format_count
from ontodex.io.device import choose_device
from ontodex.io.files import hash_file, hold_lock, open_atomic
from ontodex.io.storage import fetch_file, is_remote, join, list_files
from ontodex.io.temporary import remove_leftovers
from ontodex.runs.documents import choose_mapping
from ontodex.runs.folder import verify_folder
from ontodex.runs.index import ray_engine
from ontodex.runs.index.admission import Admission
from ontodex.runs.index.block import Task
from ontodex.runs.index.inputs import Input, find_inputs
from ontodex.runs.index.merge import merge_parts, no_ids_error
from ontodex.runs.index.parts import Compute, make_parts
from ontodex.runs.index.resume import JobPlan, PartRecord, PartsFolder, read_json, write_json
from ontodex.runs.index.shard import ShardTask
from ontodex.runs.index.table import PART_FORMATS, table_format
from ontodex.runs.index.workers import index_in_processes
from ontodex.runs.languages import get_languages, warn_foreign
from ontodex.types import Corpus

MAX_WORKERS = 256  # processes on this machine
BLOCK = 1_000  # documents; what a kill can cost each worker
ENGINES = ("local", "ray")

Sources = str | Path | Sequence[str | Path]


class IndexOptions(TypedDict, total=False):
    """The options of `index_documents`, by which `Run.index` passes them on."""

    limit: int | None
    threshold: float | None
    language: str | None
    block: int
    workers: int | None
    engine: str
    gpus_per_worker: float
    device: str
    mapping: FieldMapping
    to: str
    merge: str | Path | None
    since: datetime | None


@dataclass(frozen=True)
class IndexResult:
    """The numbers of documents that are in OUT, of rejected records, and of records left out of a
    table because a later input replaces or deletes them."""

    documents: int
    rejected: int
    outdated: int = 0


@dataclass(frozen=True)
class TableFiles:
    """The paths of a job that writes one table."""

    out: Path

    @property
    def job(self) -> Path:
        return self._beside(".job.json")

    @property
    def parts(self) -> Path:
        return self._beside(".parts")

    @property
    def rejects(self) -> Path:
        return self._beside(".rejects.jsonl")

    def _beside(self, ending: str) -> Path:
        return self.out.with_name(self.out.name + ending)


def index_documents(
    run: str | Path,
    sources: Sources,
    out: str | Path,
    *,
    limit: int | None = None,
    threshold: float | None = None,
    language: str | None = None,
    block: int = BLOCK,
    workers: int | None = None,
    engine: str = "local",
    gpus_per_worker: float = 0.0,
    device: str = "cpu",
    mapping: FieldMapping = NO_MAPPING,
    to: str = "parquet",
    merge: str | Path | None = None,
    since: datetime | None = None,
) -> IndexResult:
    """Index the documents of `sources` and write their labels, names and probabilities to `out`.

    `sources` are files, folders, patterns, `@list` files and URLs of these. `out` is a folder with
    one part for each input, in the format `to`, or a table. `merge` is a table with the current
    records of all parts in the folder. `since` leaves out inputs that were modified before.

    The label sets are those of the run, or with `threshold` the labels that reach it, at most
    `limit`. `workers` processes share the inputs, by default one a processor. With the engine
    "ray" they are on a cluster: that of RAY_ADDRESS, else one on this machine.
    `mapping` names columns of a table; by default they are those of the training documents.
    """
    _check_numbers(limit=limit, block=block, workers=workers)
    compute = _choose_engine(engine, workers, gpus_per_worker, device)
    is_table = _is_table(str(out))
    if to not in PART_FORMATS or (merge is not None and is_table):
        raise ConfigError("--to and --merge are for a folder of parts; parts are parquet or jsonl")
    if merge is not None:
        table_format(Path(merge))
    run = Path(run).resolve()
    about = verify_folder(run)
    given = [sources] if isinstance(sources, str | Path) else sources
    inputs = find_inputs([str(source) for source in given], since)
    if is_table and not inputs:
        raise DataError(f"no input was modified since {since}", hint="name an earlier date")
    device = "cuda" if gpus_per_worker else choose_device(device)
    manifest = hash_file(run / "manifest.json")
    plan = JobPlan(manifest, limit, threshold, language, block, device, mapping.to_dict(), to)
    task = Task(run, manifest, device, limit, threshold, language)
    location = str(TableFiles(Path(out)).parts) if is_table else str(out)
    shard = ShardTask(task, plan, PartsFolder(location), mapping)
    if inputs and not list_files(shard.folder.job):
        has_ids = _look_at(inputs[0], mapping, about)  # an error here leaves no file behind
        if is_table and len(inputs) > 1 and not has_ids:
            raise no_ids_error(inputs[0].location)
    if is_table:
        return _write_table(shard, inputs, TableFiles(Path(out)), compute)
    with _hold(location):
        records = make_parts(shard, inputs, compute)
        outdated = 0 if merge is None else merge_parts(shard.folder, to, str(merge))
    return _count(records, outdated)


def _check_numbers(**values: int | None) -> None:
    for name, value in values.items():
        if value is not None and value < 1:
            raise ConfigError(f"{name} must be at least 1, not {value}")


def _choose_engine(engine: str, workers: int | None, gpus: float, device: str) -> Compute:
    """Return the function that indexes inputs; what it needs and lacks is an error now."""
    if engine not in ENGINES:
        raise ConfigError(f"--engine is {' or '.join(ENGINES)}, not {engine!r}")
    if engine == "ray":
        ray_engine.import_ray()
        return partial(ray_engine.index_on_cluster, workers=workers, gpus=gpus)
    if gpus:
        raise ConfigError("--gpus-per-worker is for --engine ray", hint="here, say --device cuda")
    if workers is not None and workers > MAX_WORKERS:
        raise ConfigError(f"workers must be at most {MAX_WORKERS}, not {workers:,}")
    return partial(index_in_processes, workers=workers or _count_workers(choose_device(device)))


def _count_workers(device: str) -> int:
    """Return the default number of workers: one for a GPU, otherwise one a processor."""
    from ontodex.io.threads import count_cores

    return count_cores() if device == "cpu" else 1


def _is_table(out: str) -> bool:
    """Return whether OUT is one table, by its ending; other names are those of folders."""
    if out.endswith("/") or not Path(out).suffix or os.path.isdir(out):
        return False
    table_format(Path(out))
    if is_remote(out):
        raise ConfigError(
            f"{out}: one table can be written on this machine only",
            hint="name a folder as OUT, and the table with --merge",
        )
    return True


def _hold(location: str) -> AbstractContextManager[None]:
    """Return a lock on a folder of parts; an object store has none."""
    folder = Path(location)
    return nullcontext() if is_remote(location) else hold_lock(folder / "lock", folder)


def _look_at(input: Input, mapping: FieldMapping, about: dict[str, Any]) -> bool:
    """Read the first documents and return whether they have ids.

    An input that is none is an error at once, and one in another language a warning.
    """
    with fetch_file(input.location) as path, tempfile.TemporaryFile() as rejects:
        mapping = choose_mapping(path, mapping, about)
        with capture_warnings():  # a worker reads it again and repeats them
            reader = read_docs(path, mapping=mapping)
            docs = next(Admission(reader, rejects, input.name).read_blocks(BLOCK), [])
        warn_foreign(Corpus.of(docs, n_features=reader.n_features), get_languages(about))
        return reader.has_ids


def _write_table(
    shard: ShardTask, inputs: Sequence[Input], files: TableFiles, compute: Compute
) -> IndexResult:
    """Make the parts beside the table, and merge them."""
    job, plan = str(files.job), asdict(shard.plan)
    versions = [[input.name, input.size, input.version] for input in inputs]
    with hold_lock(files.parts / "lock", files.out):
        for path in (files.out, files.job, files.rejects):
            remove_leftovers(path)
        begun = read_json(job)
        if begun is None and files.out.exists():
            raise RunError(f"{files.out}: is there already", hint="choose another OUT")
        if begun is not None:
            is_done = begun["result"] is not None and files.out.exists()
            is_other = is_done and begun["inputs"] != versions
            others = ["another input"] if is_other else []
            shard.plan.require_same(begun["plan"], str(files.out), others)
            if is_done:
                return IndexResult(**begun["result"])
        write_json(job, {"plan": plan, "inputs": versions, "result": None})
        records = make_parts(shard, inputs, compute)
        names = {input.name for input in inputs}
        outdated = merge_parts(shard.folder, shard.plan.to, str(files.out), names)
        result = _count(records, outdated)
        result = IndexResult(result.documents - outdated, result.rejected, outdated)
        if result.rejected:
            _join_rejects(shard.folder, records, files.rejects)
        write_json(job, {"plan": plan, "inputs": versions, "result": asdict(result)})
        shutil.rmtree(files.parts)
    return result


def _join_rejects(folder: PartsFolder, records: Sequence[PartRecord], out: Path) -> None:
    with open_atomic(out) as sink:
        for record in records:
            if record.rejected:
                with Path(folder.rejects(record.input)).open("rb") as found:
                    shutil.copyfileobj(found, sink)


def describe_result(result: IndexResult, out: str, merge: str | None) -> str:
    """Return the result in a sentence."""
    text = f"{format_count(result.documents, 'document')} indexed in {out}"
    if result.rejected:
        files = TableFiles(Path(out)).rejects if _is_table(out) else join(out, "rejects")
        text += f"; {result.rejected:,} rejected, see {files}"
    if merge is not None:
        text += f"; current records in {merge}"
    if result.outdated:
        text += f"; {result.outdated:,} replaced or deleted by later inputs"
    return text


def _count(records: Sequence[PartRecord], outdated: int) -> IndexResult:
    documents = sum(record.documents for record in records)
    return IndexResult(documents, sum(record.rejected for record in records), outdated)

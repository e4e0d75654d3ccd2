"""A table of documents in, a table of their concepts out: `ontodex index RUN IN OUT`.

    IN ─ admitted documents ─ blocks ─ workers, a part a block ─ parts in order ─ OUT

    OUT.job.json        what the job is (run, input, settings) and, in the end, what came of it
    OUT.parts/          input/ the admitted documents, input.json where each block begins,
                        rejects.jsonl, 000017.arrow a finished block; gone when OUT is there
    OUT.rejects.jsonl   what was not admitted, and why

Each of these is written whole or not at all, and each step does only what is missing: after a kill
at any moment the same command goes on, and its bytes are those of a job that nobody stopped.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

from ontodex import __version__, index_ray
from ontodex.errors import ConfigError, DataError, RunError
from ontodex.files import atomic, digest, locked, remove_leftovers, write_text
from ontodex.index_block import Task
from ontodex.index_table import table_format, write_table
from ontodex.index_workers import Block, in_processes
from ontodex.progress import Bar, track
from ontodex.read import Reading, detect, find, read_docs
from ontodex.train import store
from ontodex.train.device import pick
from ontodex.types import Corpus, Doc

BLOCK = 1_000  # documents; what a kill can cost each worker
BLOCK_TEXT = 32 * 2**20  # characters: a block of very long documents has fewer of them


@dataclass(frozen=True)
class Indexed:
    """What came of a job."""

    documents: int
    rejected: int


@dataclass(frozen=True)
class Plan:
    """All that decides which bytes come out."""

    ontodex: str
    run: str
    input: str
    limit: int | None
    threshold: float | None
    language: str | None
    block: int
    device: str


@dataclass(frozen=True)
class Job:
    """What OUT.job.json holds: written when the input is admitted, and again in the end."""

    plan: Plan
    result: Indexed | None


@dataclass(frozen=True)
class Places:
    """Where the files of a job are."""

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

    def part(self, number: int) -> Path:
        return self.parts / f"{number:06}.arrow"

    def _beside(self, ending: str) -> Path:
        return self.out.with_name(self.out.name + ending)


def index(
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
) -> Indexed:
    """Index the documents of `source` and write their labels, names and probabilities to `out`.

    `workers` processes share the blocks: as many as there are processors, if not said. With `ray`,
    a cluster does: "local" for one on this machine, else its address.
    """
    for name, value in (("limit", limit), ("block", block), ("workers", workers)):
        if value is not None and value < 1:
            raise ConfigError(f"{name} must be at least 1, not {value}")
    if ray is not None:
        index_ray.imported(ray)  # if it is missing, say so before anything is read
    run, source, places = Path(run).resolve(), Path(source), Places(Path(out))
    table_format(places.out)
    store.verify(run)
    device = pick(device)
    manifest = digest(run / "manifest.json")
    plan = Plan(__version__, manifest, _key(source), limit, threshold, language, block, device)
    with locked(places.parts / "lock", places.out):
        for written in (places.out, places.job, places.rejects):
            remove_leftovers(written)
        job = _job(places, plan)
        if job is not None and job.result is not None and places.out.exists():
            result = job.result
        else:
            if job is None:
                _forget(places.parts)
            corpus, blocks, n_rejected = _input(source, places.parts, block)
            _write_job(places, Job(plan, None))
            task = Task(run, manifest, device, limit, threshold, language, corpus.n_features)
            _answer(task, corpus, blocks, places, workers=workers, ray=ray)
            write_table([places.part(b.number) for b in blocks], places.out)
            result = Indexed(len(corpus), n_rejected)
            _finish(places, Job(plan, result))
        shutil.rmtree(places.parts)
    return result


# ------------------------------------------------------------------------------------ whose is OUT


def _job(places: Places, plan: Plan) -> Job | None:
    """The job that OUT belongs to, None if it is nobody's; refused if it is another one's."""
    if not places.job.exists():
        if places.out.exists():
            raise RunError(f"{places.out}: is there already", hint="choose another OUT")
        return None
    try:
        found = json.loads(places.job.read_text(encoding="utf-8"))
        begun, result = Plan(**found["plan"]), found["result"]
        job = Job(begun, None if result is None else Indexed(**result))
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"{places.job}: damaged ({error})", hint=f"remove it and {places.parts}"
        ) from error
    if begun != plan:
        raise RunError(
            f"{places.out}: belongs to a job with {_differences(begun, plan)}",
            hint=f"choose another OUT, or remove {places.job} and what is beside it",
        )
    return job


def _forget(parts: Path) -> None:
    """Trust nothing that lies in the folder of a job of which nothing is known."""
    for path in (*parts.glob("input.json"), *parts.glob("*.arrow")):
        path.unlink()


def _differences(begun: Plan, plan: Plan) -> str:
    """How the two differ, in words."""
    words = []
    for name, old in asdict(begun).items():
        new = asdict(plan)[name]
        if old != new:
            words.append(
                f"another {name}" if name in ("run", "input") else f"{name} {old}, not {new}"
            )
    return " and ".join(words)


def _write_job(places: Places, job: Job) -> None:
    write_text(places.job, json.dumps(asdict(job), indent=1, ensure_ascii=False) + "\n")


def _finish(places: Places, job: Job) -> None:
    """Say that OUT is whole; after this, nothing of the job is done again."""
    if job.result is not None and job.result.rejected:
        with atomic(places.rejects) as file, (places.parts / "rejects.jsonl").open("rb") as found:
            shutil.copyfileobj(found, file)
    _write_job(places, job)


# ----------------------------------------------------------------------------------------- what in


def _key(source: Path) -> str:
    """A digest of all that is read."""
    format = detect(source)
    module = find(format)
    files = module.sources(source) if hasattr(module, "sources") else [source]
    # In a folder of documents the file names are their ids.
    names = [str(file.relative_to(source)) if source.is_dir() else "" for file in files]
    content = [format, names, [digest(file) for file in files]]
    return sha256(json.dumps(content).encode()).hexdigest()


def _input(source: Path, parts: Path, block: int) -> tuple[Corpus, list[Block], int]:
    """The admitted documents, their blocks, and how many were rejected."""
    about = parts / "input.json"
    if not about.exists():
        reading = read_docs(source)
        with atomic(parts / "rejects.jsonl") as file:
            gate = _Gate(reading, file, block)
            docs = track(gate.docs(), f"reading {source.name}")
            Corpus.write(docs, parts / "input", n_features=reading.n_features)
        # The last of the three: where it is, the other two are.
        write_text(about, json.dumps({"starts": gate.starts, "rejected": gate.n_rejected}) + "\n")
    found = json.loads(about.read_text(encoding="utf-8"))
    corpus = Corpus.open(parts / "input")
    edges = pairwise([*found["starts"], len(corpus)])
    blocks = [Block(number, start, end) for number, (start, end) in enumerate(edges)]
    return corpus, blocks, found["rejected"]


class _Gate:
    """Lets documents in, notes where blocks begin, and lists what stays out."""

    def __init__(self, reading: Reading, rejects: IO[bytes], block: int) -> None:
        self._reading, self._rejects, self._block = reading, rejects, block
        self.starts: list[int] = []
        self.n_rejected = 0

    def docs(self) -> Iterator[Doc]:
        """The documents that have content and an id of their own."""
        met: set[str] = set()
        n_docs = size = 0
        for doc in self._sound():
            if doc.id in met:
                self._reject(self._reading.line, "a document with this id came before", doc.id)
                continue
            met.add(doc.id)
            if doc.kind == "text" and not doc.text.strip():
                self._reject(self._reading.line, "no text", doc.id)
                continue
            if not self.starts or n_docs - self.starts[-1] == self._block or size > BLOCK_TEXT:
                self.starts.append(n_docs)
                size = 0
            n_docs, size = n_docs + 1, size + len(doc.text)
            yield doc

    def _sound(self) -> Iterator[Doc]:
        """The documents whose record can be read."""
        while True:
            try:
                yield next(self._reading)
            except StopIteration:
                return
            except DataError as error:
                # Of the file as a whole, after which no document comes; not of this record.
                if error.line is None or error.line != self._reading.line:
                    raise
                place = f"{error.path}:{error.line}: "
                self._reject(error.line, str(error).removeprefix(place), None)

    def _reject(self, line: int | None, reason: str, id_: str | None) -> None:
        record: dict[str, Any] = {"line": line, "id": id_, "reason": reason}
        self._rejects.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
        self.n_rejected += 1


# ------------------------------------------------------------------------------------ what is done


def _answer(
    task: Task,
    corpus: Corpus,
    blocks: list[Block],
    places: Places,
    *,
    workers: int | None,
    ray: str | None,
) -> None:
    """Write the parts that are missing."""
    missing = [block for block in blocks if not places.part(block.number).exists()]
    if not missing:
        return
    if ray is not None:
        parts = index_ray.on_cluster(task, corpus, missing, address=ray, workers=workers)
    else:
        parts = in_processes(task, corpus, missing, workers=workers or _processors(task.device))
    bar = Bar("indexing, in blocks", len(blocks), done=len(blocks) - len(missing))
    try:
        for number, part in parts:
            with atomic(places.part(number)) as file:
                file.write(part)
            bar.advance()
    finally:
        bar.close()


def _processors(device: str) -> int:
    """Workers when nobody says: one for a GPU, else one a processor."""
    from ontodex.models.sparse_rows import cores

    return cores() if device == "cpu" else 1

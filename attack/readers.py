"""Feed generated files to the readers of corpora and ontologies.

The campaign has two parts, each in a process of its own:

    fuzz        many small files, made by the grammars or by changes of files that reached new lines
                of the readers; an exception other than OntodexError, a crash or a time-out is found
    measure     large hostile files of each format; time and memory per byte are compared with a
                benign file of the same format and size

A document is detected, read and checked; an ontology is read and written as JSON.
"""

from __future__ import annotations

import gzip
import io
import json
import logging
import multiprocessing
import os
import pickle
import resource
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from attack.campaign import Finding, Result
from attack.coverage import READERS, Coverage, is_reading
from attack.grammar import (
    CORPORA,
    ONTOLOGIES,
    WRITTEN,
    Files,
    Source,
    generate_corpus,
    generate_ontology,
    make_benign,
)
from attack.mutations import inflate, mutate
from ontodex.corpora.check import check
from ontodex.corpora.open import open_corpus, read_docs
from ontodex.errors import OntodexError
from ontodex.features.token_config import TokenConfig
from ontodex.models.baselines.name_trie import ConceptNames, Spelling
from ontodex.ontology.graph import Concept, build_ontology, compute_ancestors
from ontodex.ontology.open import read_ontology
from ontodex.ontology.table import write_json
from ontodex.render.ontology_tree import format_ontology

CPU_SECONDS = 2.0  # for one small file; a benign one takes a millisecond
MEMORY = 4 * 2**30  # address space of a reader beyond that of the process itself
LONGEST_MESSAGE = 2_000  # characters of an error message
SIZE = 2**20  # of large files
MAX_TIME_RATIO, MAX_MEMORY_RATIO = 20, 10  # to the benign file, per byte
# Differences below these are not measured well; they count as if they were so large.
MIN_SECONDS, MIN_MEMORY = 0.02, 8 * 2**20

TARGETS = [("corpus", name) for name in (*CORPORA, *WRITTEN)] + [
    ("ontology", name) for name in ONTOLOGIES
]


def run(seconds: float, seed: int, out: Path) -> Result:
    """Fuzz for two thirds of the time, measure for one."""
    result = Result()
    _run_part(fuzz, 2 * seconds / 3, seed, out, result)
    _run_part(measure, seconds / 3, seed, out, result)
    return result


def _run_part(
    part: Callable[..., None], seconds: float, seed: int, out: Path, all_: Result
) -> None:
    """Run a part in a child process; start it again with another seed if the child dies."""
    stop = time.monotonic() + seconds
    root = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=root, prefix="attack-") as name:
        folder = Path(name)
        while (left := stop - time.monotonic()) > 0.5:
            arguments = (left, seed, folder, out)
            child = multiprocessing.get_context("spawn").Process(target=part, args=arguments)
            child.start()
            child.join(left + 120)
            if child.is_alive():
                child.kill()
                child.join()
            if (folder / "result").exists():
                _merge(all_, pickle.loads((folder / "result").read_bytes()))
                (folder / "result").unlink()
            if child.exitcode == 0:
                return
            current = folder / "current"
            data = current.read_bytes() if current.exists() else b""
            what = f"the process ended with status {child.exitcode} while it read this input"
            all_.add(Finding(f"readers: process died with {child.exitcode}", what, data), out)
            seed += 1_000


def _merge(all_: Result, part: Result) -> None:
    all_.tried += part.tried
    all_.findings += [f for f in part.findings if f.key not in {g.key for g in all_.findings}]
    all_.notes |= part.notes
    if part.worst_ratio is not None:
        all_.worst_ratio = max(all_.worst_ratio or 0.0, part.worst_ratio)


class _Timeout(BaseException):
    """Not an Exception, so that no reader can catch it."""


@contextmanager
def _limit_cpu(seconds: float) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise _Timeout

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def read_corpus(path: Path, format: str | None, thorough: bool | None = None) -> None:
    """Detect, read and check a corpus; what is reported must be text, and what is read stored.

    A thorough check has an ontology and looks for documents that are in another corpus too. Without
    a word, one file in four gets it.
    """
    if thorough is None:
        thorough = not path.stat().st_size % 4
    if format is None:
        if not thorough:
            report = check(path)
        else:
            concepts = [Concept("c1", {"en": "one"}), Concept("c2", parents=["c1"])]
            report = check(path, build_ontology(concepts), path)
        report.text().encode()
        json.dumps(report.to_dict()).encode()
        if not path.stat().st_size % 8:
            len(open_corpus(path))
    else:
        for doc in read_docs(path, format):
            doc.text.encode()
            json.dumps([doc.labels, doc.keywords, dict(doc.metadata)]).encode()


def read_vocabulary(path: Path, format: str | None, thorough: bool | None = None) -> None:
    """Read an ontology, write it as JSON and collect its names as `lexical` does.

    A thorough reading shows a concept and its ancestors. Without a word, one file in four gets it.
    """
    if thorough is None:
        thorough = not path.stat().st_size % 4
    ontology = read_ontology(path, format)
    write_json(ontology, io.BytesIO())
    readings = dict.fromkeys(ontology.names, TokenConfig())
    ConceptNames.of(ontology, {one: i for i, one in enumerate(ontology.ids)}, readings, Spelling())
    if thorough:
        compute_ancestors(ontology)
        "\n".join(format_ontology(ontology, ontology.ids[-1] if ontology.ids else None)).encode()
    "\n".join(ontology.problems).encode()


READ = {"corpus": read_corpus, "ontology": read_vocabulary}


def _write_files(files: Files, folder: Path) -> Path:
    """Write the files; return the path to read: the folder inside, or the first file."""
    for old in folder.iterdir():
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    first = folder / next(iter(files))
    return first.parent if first.parent != folder else first


def _try(kind: str, path: Path, format: str | None) -> tuple[str, str] | None:
    """Read an input; return (key, sentence) of what went wrong, or None."""
    start = time.process_time()
    problem = None
    try:
        with _limit_cpu(CPU_SECONDS):
            READ[kind](path, format)
    except OntodexError as error:
        text = str(error)
        try:
            text.encode()
        except UnicodeEncodeError:
            problem = ("message is not text", ascii(text)[:200])
        if len(text) > LONGEST_MESSAGE:
            problem = (f"long message of {_place(error)}", f"{len(text):,} characters: {text[:80]}")
    except _Timeout:
        problem = ("time-out", "")
    except (Exception, RecursionError) as error:
        problem = (f"{type(error).__name__} in {_place(error)}", str(error)[:200])
    used = time.process_time() - start
    if problem is None and used > CPU_SECONDS:
        problem = ("slow", f"{used:.1f} s")
    return problem


def _place(error: BaseException) -> str:
    """Return the function of ontodex in which an exception was raised."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/ontodex/" in f.filename]
    return f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "?"


def fuzz(seconds: float, seed: int, folder: Path, out: Path) -> None:
    """Read small files until the time is over; keep those that reach new lines."""
    _prepare()
    os.environ["ONTODEX_CACHE"] = str(folder / "cache")
    r, result, coverage = Source(seed), Result(), Coverage(READERS, is_reading)
    work = folder / "input"
    work.mkdir(exist_ok=True)
    pool = _fill_pool(r, folder)
    stop = time.monotonic() + seconds
    while time.monotonic() < stop:
        target = kind, name = r.choice(TARGETS)
        own = pool[target]
        if r.random() < 0.2 and name not in WRITTEN:
            files = _generate(target, r, folder)
        else:
            other = pool[r.choice(TARGETS)][0] if r.random() < 0.3 else r.choice(own)
            files = mutate(r.choice(own), r, next(iter(other.values())))
        format = name if r.random() < 0.5 else None
        path = _write_files(files, work)
        (folder / "current").write_bytes(pickle.dumps((kind, format, files)))
        before = len(coverage.seen)
        with coverage.trace():
            problem = _try(kind, path, format)
        if problem is not None and problem[0] in ("time-out", "slow"):
            problem = _try(kind, path, format)  # tracing takes time too
        if len(coverage.seen) > before:
            own.append(files)
        result.tried += 1
        if result.tried % 1_000 == 0:
            shutil.rmtree(folder / "cache", ignore_errors=True)
        if problem is not None:
            key = f"{kind}: {problem[0]}"
            what = f"{kind} as {name if format else 'detected'}: {problem[0]} {problem[1]}"
            result.add(Finding(key, what, pickle.dumps((kind, format, files)), ".pickle"), out)
    result.notes |= coverage.report()
    result.notes["files that reached new lines"] = f"{sum(map(len, pool.values())):,}"
    (folder / "result").write_bytes(pickle.dumps(result))


def _prepare() -> None:
    logging.disable(logging.CRITICAL)
    limit = _get_memory() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _get_memory() -> int:
    """Return the address space of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _fill_pool(r: Source, folder: Path) -> dict[tuple[str, str], list[Files]]:
    return {target: [_generate(target, r, folder) for _ in range(4)] for target in TARGETS}


def _generate(target: tuple[str, str], r: Source, folder: Path) -> Files:
    kind, name = target
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        make = generate_corpus if kind == "corpus" else generate_ontology
        return make(name, r, Path(scratch))


@dataclass(frozen=True)
class Cost:
    """CPU seconds and bytes of memory that one large file took."""

    seconds: float
    memory: int
    problem: str = ""


def measure(seconds: float, seed: int, folder: Path, out: Path) -> None:
    """Read large hostile files; compare each with a benign one of its format and size."""
    logging.disable(logging.CRITICAL)
    os.environ["ONTODEX_CACHE"] = str(folder / "cache")
    r, result = Source(seed), Result()
    work = folder / "input"
    work.mkdir(exist_ok=True)
    # By target and whether the reading is thorough: both files are read in the same way.
    benign: dict[tuple[str, str, bool], tuple[float, float]] = {}
    worst_time, worst_memory = (0.0, ""), (0.0, "")
    stop = time.monotonic() + seconds
    waiting: list[tuple[str, str]] = []
    while time.monotonic() < stop:
        waiting = waiting or r.sample(TARGETS, len(TARGETS))  # each in turn
        target = kind, name = waiting.pop()
        thorough = r.random() < 0.25
        reading = (*target, thorough)
        if reading not in benign:
            files = make_benign(kind, name, SIZE, folder)
            cost, size = _measure_cost(reading, files, work), _count_bytes(files)
            benign[reading] = (
                max(cost.seconds, MIN_SECONDS) / size,
                max(cost.memory, MIN_MEMORY) / size,
            )
        for about, files, size in _inflate_files(_generate(target, r, folder), r):
            if time.monotonic() > stop:
                break
            (folder / "current").write_bytes(pickle.dumps((kind, name, files)))
            cost = _measure_cost(reading, files, work)
            result.tried += 1
            times = cost.seconds / size / benign[reading][0]
            memory = cost.memory / size / benign[reading][1]
            worst_time = max(worst_time, (times, f"{kind} {name}: {about}"))
            worst_memory = max(worst_memory, (memory, f"{kind} {name}: {about}"))
            what = ""
            if cost.problem:
                what = cost.problem
            elif times > MAX_TIME_RATIO:
                what = "time over budget"
            elif memory > MAX_MEMORY_RATIO:
                what = "memory over budget"
            if what:
                text = f"{about}: {times:.1f} times the time, {memory:.1f} times the memory"
                key = f"{kind} {name}: {what}"
                seed_file = pickle.dumps((kind, name, files))
                result.add(Finding(key, f"{key}: {text}", seed_file, ".pickle"), out)
    result.worst_ratio = worst_time[0]
    result.notes["large files"] = f"{result.tried:,}"
    result.notes["worst time per byte"] = (
        f"{worst_time[0]:.1f} times the benign file ({worst_time[1]})"
    )
    result.notes["worst memory per byte"] = f"{worst_memory[0]:.1f} times ({worst_memory[1]})"
    (folder / "result").write_bytes(pickle.dumps(result))


def _inflate_files(files: Files, r: Source) -> Iterator[tuple[str, Files, int]]:
    """Yield (description, files, bytes without compression): one of the files is made large.

    One in four is compressed, as every reader of a single file takes it.
    """
    chosen = r.choice(list(files))
    for about, data in inflate(files[chosen], SIZE, r):
        large = {**files, chosen: data}
        size = _count_bytes(large)
        if r.random() < 0.25:
            large[chosen] = gzip.compress(data, 1)
            about += ", gzip"
        yield f"{chosen}: {about}", large, size


def _count_bytes(files: Files) -> int:
    return sum(map(len, files.values()))


def _measure_cost(reading: tuple[str, str, bool], files: Files, work: Path) -> Cost:
    """Read a file in a forked child, detected and in its own format; return the higher cost."""
    kind, name, thorough = reading
    path = _write_files(files, work)
    costs = [_fork(partial(READ[kind], path, format, thorough)) for format in (None, name)]
    problem = next((cost.problem for cost in costs if cost.problem), "")
    return Cost(max(c.seconds for c in costs), max(c.memory for c in costs), problem)


def _fork(call: Callable[[], None]) -> Cost:
    """Call in a forked child with bounded memory and CPU time."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.write(writer, pickle.dumps(_call(call)))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        data = answer.read()
    _, status = os.waitpid(child, 0)
    if data:
        cost: Cost = pickle.loads(data)
        return cost
    return Cost(60.0, 0, f"the process died with {status}")


def _call(call: Callable[[], None]) -> Cost:
    limit = _get_memory() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
    before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    start, problem = time.process_time(), ""
    try:
        call()
    except OntodexError as error:
        if len(str(error)) > LONGEST_MESSAGE:
            problem = f"long message of {_place(error)}"
    except Exception as error:
        problem = f"{type(error).__name__} in {_place(error)}"
    used = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Cost(used, max(0, peak - before), problem)


def repeat(seed_file: Path) -> None:
    """Read the input of a finding again: python -c "... repeat(Path('x.pickle'))"."""
    kind, format, files = pickle.loads(seed_file.read_bytes())
    with tempfile.TemporaryDirectory() as folder:
        READ[kind](_write_files(files, Path(folder)), format)

"""Attack run folders: change files, renew digests, then load, rank, decide and explain.

The seeds are the folders of tests/runs/0.1 and a new run of every registered system. A mutant has
one changed file, or several that agree with each other. It must be refused with an OntodexError
when it is loaded, or answer with probabilities in [0, 1]. Some of those that are accepted are also
evaluated, exported, updated, migrated, taught, indexed, published or served. Findings are every
other exception, an OntodexError of a ranking, a hang and too much memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import logging
import math
import multiprocessing
import os
import random
import resource
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from attack.campaign import Finding, Result
from attack.coverage import LOADERS, Coverage, is_loading
from attack.run_mutations import Files, mutate
from attack.run_operations import OPERATIONS, Workplace, try_operation
from attack.run_pairs import mutate_together
from attack.run_seeds import find_seeds
from ontodex.runs.folder import UNTRUSTED

TOGETHER = 0.35  # of the mutants have several changed files
OPERATED = 0.15  # of those that are accepted
SHARED_MEMORY = Path("/dev/shm")  # a tmpfs, where there is one
BATCH = 50  # mutants of one child process; a short campaign reaches every system
CPU_SECONDS = 10  # of one mutant; an undamaged run takes less than 0.1
MEMORY = 3 * 2**30  # bytes that a child may take beyond those of an undamaged run
TEXTS = (
    "Rats and mice in city sewers: how rodent control and repair cafés share a street.",
    "",
    "water " * 300,
)


def run(seconds: float, seed: int, out: Path) -> Result:
    """Try mutants of every system in turn; the time counts from the first mutant."""
    _import_libraries()
    result = Result()
    counts: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory(prefix="ontodex-seeds-") as folder:
        logging.disable(logging.CRITICAL)
        seeds = {name: read_files(path) for name, path in find_seeds(Path(folder)).items()}
        logging.disable(logging.NOTSET)
    systems = sorted(seeds)
    random.Random(seed).shuffle(systems)
    start = 0
    coverage = Coverage(LOADERS, is_loading)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for system in systems:
            if time.monotonic() < end:
                counted = counts.setdefault(system, Counter())
                target = Target(system, seeds[system], seed, coverage)
                _try_batch(target, start, (result, counted, out))
        start += BATCH
    result.notes |= coverage.report()
    for system, counted in counts.items():
        result.notes[system] = ", ".join(f"{count:,} {what}" for what, count in counted.items())
    return result


Report = tuple[Result, "Counter[str]", Path]


@dataclass(frozen=True)
class Target:
    """A run folder to damage, the seed of its mutants, and the lines of loaders they reached."""

    system: str
    files: Files
    seed: int
    coverage: Coverage

    def mutate(self, number: int) -> tuple[Files, str]:
        """Return the mutant of this number with renewed digests, and what was changed."""
        draw = random.Random(f"{self.seed}/{self.system}/{number}")
        change = mutate_together if draw.random() < TOGETHER else mutate
        changed, what = change(self.files, draw)
        return renew_digests(changed), what

    def choose_operation(self, number: int) -> Callable[[Workplace], None] | None:
        """Return what is done with this mutant after it was loaded and used; mostly nothing."""
        draw = random.Random(f"{self.seed}/{self.system}/{number}/operation")
        return draw.choice(OPERATIONS) if draw.random() < OPERATED else None


def _try_batch(target: Target, start: int, report: Report) -> None:
    """Try a batch of mutants in child processes; a child that hangs or dies is replaced."""
    number, end = start, start + BATCH
    while number < end:
        ours, theirs = multiprocessing.Pipe()
        child = multiprocessing.get_context("fork").Process(
            target=_try_mutants, args=(target, range(number, end), theirs)
        )
        child.start()
        theirs.close()
        number = _watch(child, ours, target, number, report)
        ours.close()


def _watch(child: Any, pipe: Connection, target: Target, number: int, report: Report) -> int:
    """Record the answers of a child; return the number of the next mutant to try."""
    result, counted, _ = report
    system = target.system
    what = ""
    while True:
        used = _cpu_seconds(child.pid)
        try:
            while not pipe.poll(1.0):
                if _cpu_seconds(child.pid) - used > CPU_SECONDS:
                    child.kill()
            tag, number, text = pipe.recv()
        except EOFError:
            break
        if tag == "reached":
            target.coverage.seen |= text
            continue
        if tag == "about to try":
            what = text
            continue
        result.tried += 1
        kind, _, problem = text.partition(": ")
        counted[kind] += 1
        if kind == "FINDING":
            _add(report, system, number, what, problem)
        what, number = "", number + 1
    child.join()
    if not what and child.exitcode == 0:
        return number
    if what:
        result.tried += 1
        problem = f"no answer; the process ended with {child.exitcode}"
    else:  # the others are tried all the same
        what, problem = "no mutant was made", "the campaign itself failed"
    counted["FINDING"] += 1
    _add(report, system, number, what, problem)
    return number + 1


def _add(report: Report, system: str, number: int, what: str, problem: str) -> None:
    result, _, out = report
    key = f"{system}: {': '.join(problem.splitlines()[0].split(': ')[:2])[:120]}"
    seed = json.dumps({"system": system, "number": number, "what": what, "problem": problem})
    result.add(Finding(key, what, seed.encode(), ".json"), out)


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0


def _try_mutants(target: Target, numbers: range, pipe: Connection) -> None:
    """Try mutants one after another in this process, and send what came of each."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    files = target.files
    parent = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=parent) as name:
        folder = Path(name) / "run"
        folder.mkdir()
        _cache_ontologies()
        # With renewed digests too: else every mutant is refused for them, and nothing is attacked.
        write_files(folder, renew_digests(files))
        outcome = _try_folder(folder, target.coverage)
        write_changes(folder, renew_digests(files), files)
        assert outcome == "accepted", f"{target.system}: the seed itself is not accepted: {outcome}"
        _limit_memory()
        for number in numbers:
            changed, what = target.mutate(number)
            pipe.send(("about to try", number, what))
            write_changes(folder, files, changed)
            operation = target.choose_operation(number)
            outcome = _try_folder(folder, target.coverage, operation)
            write_changes(folder, changed, files)
            pipe.send(("done", number, outcome))
        pipe.send(("reached", numbers.stop, target.coverage.seen))
    pipe.close()


def _import_libraries() -> None:
    """Import once what every child needs; a fork then starts at once."""
    for module in ("scipy.sparse", "safetensors", "ontodex.models"):
        importlib.import_module(module)
    # Threads that wait for a busy core count as CPU time: an undamaged run seems to hang.
    importlib.import_module("torch").set_num_threads(1)


def _cache_ontologies() -> None:
    """Parse an ontology once: most mutants leave it as it is, and it takes half of the time."""
    known: dict[bytes, Any] = {}
    for name in ("ontodex.runs.run", "ontodex.models.consensus.members"):
        module: Any = importlib.import_module(name)
        read = module.read_ontology

        def read_once(path: Path, format_: str, read: Any = read) -> Any:
            content = Path(path).read_bytes()
            if content not in known:
                known[content] = read(path, format_)
            return known[content]

        module.read_ontology = read_once


def _limit_memory() -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))


def renew_digests(files: Files) -> Files:
    """Return the files with the digests that a manifest of them would have."""
    with contextlib.suppress(ValueError, TypeError, RecursionError):
        manifest = json.loads(files["manifest.json"])
        if isinstance(manifest.get("files"), dict):
            names = [name for name in files if Path(name).name not in UNTRUSTED]
            digests = {name: hashlib.sha256(files[name]).hexdigest() for name in names}
            manifest["files"] = {
                **{n: d for n, d in manifest["files"].items() if n not in _find_known(manifest)},
                **digests,
            }
            return {**files, "manifest.json": json.dumps(manifest).encode()}
    return files


def _find_known(manifest: dict[str, Any]) -> set[str]:
    """Return the names with a digest that looks real; others were changed on purpose."""
    return {n for n, d in manifest["files"].items() if isinstance(d, str) and len(d) == 64}


def read_files(folder: Path) -> Files:
    """Return the files of a folder by their path in it."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def write_files(folder: Path, files: Files) -> None:
    """Write files into a folder."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def write_changes(folder: Path, before: Files, after: Files) -> None:
    """Write what differs between two sets of files. A file that is mapped is never overwritten."""
    for name in before.keys() - after.keys():
        (folder / name).unlink()
    for name, content in after.items():
        if before.get(name) != content:
            (folder / name).unlink(missing_ok=True)
            (folder / name).write_bytes(content)


def _try_folder(
    folder: Path, coverage: Coverage, operation: Callable[[Workplace], None] | None = None
) -> str:
    """Load and use a run; return "refused", "accepted", or "FINDING: " with the reason.

    With an operation, return what became of it too.
    """
    from ontodex import Corpus, Doc, load
    from ontodex.errors import OntodexError

    try:
        with coverage.trace():
            loaded = load(folder)
    except OntodexError as error:
        text = str(error)
        return "refused" if len(text) < 2000 else f"FINDING: a message of {len(text)} characters"
    except BaseException as error:
        return "FINDING: load: " + _describe(error)
    try:
        corpus = Corpus.of([Doc(str(i), {"text": text}) for i, text in enumerate(TEXTS)])
        for ranking in (loaded.rank(corpus, 10), loaded.decide(corpus)):
            _check_ranking(ranking, len(loaded.labels))
        for found in map(loaded.suggest, TEXTS):
            assert all(0 <= one.probability <= 1 for one in found), "a probability outside [0, 1]"
        _try_explain(loaded)
    except BaseException as error:
        return "FINDING: use: " + _describe(error)
    if operation is None:
        return "accepted"
    try:
        return f"accepted, {operation.__name__} {try_operation(folder, operation)}"
    except BaseException as error:
        return f"FINDING: {operation.__name__}: " + _describe(error)


def _check_ranking(ranking: Any, n_labels: int) -> None:
    values, columns = ranking.probabilities, ranking.columns
    assert ((values >= 0) & (values <= 1)).all(), "a probability outside [0, 1]"
    assert ((columns >= -1) & (columns < n_labels)).all(), "a column outside the labels"


def _try_explain(loaded: Any) -> None:
    """Explain the best label of the first text, where the system can and there is one."""
    from ontodex.errors import OntodexError

    try:
        explanation = loaded.explain(TEXTS[0])
    except OntodexError as error:
        allowed = ("cannot explain", "no suggestion to explain", "can explain")
        if not any(part in str(error) for part in allowed):
            raise
        return
    for span in explanation.spans:
        assert 0 <= span.start < span.end <= len(TEXTS[0]), "a span outside the text"
        assert math.isfinite(span.weight), "a weight that is not finite"


def _describe(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "ontodex" in f.filename]
    where = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "?"
    steps = "\n".join(traceback.format_exception(error)[-6:])
    first = (str(error) or "").partition("\n")[0][:100]
    return f"{type(error).__name__} in {where}: {first}\n{steps}"


def main() -> None:
    """Repeat one mutant: python -m attack.run_folders FINDING.json [seed]."""
    import sys

    about = json.loads(Path(sys.argv[1]).read_text())
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    with tempfile.TemporaryDirectory() as name:
        folder, seeds = Path(name) / "mutant", Path(name) / "seeds"
        coverage = Coverage(LOADERS, is_loading)
        files = read_files(find_seeds(seeds)[about["system"]])
        target = Target(about["system"], files, seed, coverage)
        changed, what = target.mutate(about["number"])
        folder.mkdir()
        write_files(folder, changed)
        operation = target.choose_operation(about["number"])
        print(what, _try_folder(folder, coverage, operation), sep="\n")


if __name__ == "__main__":
    main()

"""`ontodex experiment F.toml`: run every system x corpus x seed of a file, and write their table.

    file ─ plan and data checked ─ train what is missing ─ evaluate once ─ run folders ─ table

The table is made from the run folders alone: the same folders give the same bytes, and a command
that was killed is started again and continues.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from ontodex.config import Table
from ontodex.corpora.noise import NOISES
from ontodex.errors import OntodexError, RunError
from ontodex.io.device import choose_device
from ontodex.runs.evaluate import evaluate
from ontodex.runs.experiment.data import CorpusParts, check_data
from ontodex.runs.experiment.noise_curves import Curve
from ontodex.runs.experiment.plan import CorpusVariant, Plan, read_plan
from ontodex.runs.experiment.results import Results, Row, Section, read_row
from ontodex.runs.folder import is_finished, load_config, verify_folder
from ontodex.runs.recipe import train
from ontodex.runs.settings import resolve

logger = logging.getLogger(__name__)

FAILURES = (OntodexError, OSError, MemoryError, RuntimeError, ValueError)  # of one run


def run_experiment(
    file: str | Path,
    out: str | Path,
    *,
    root: str | Path = ".",
    device: str = "auto",
    workers: int = 1,
) -> Results:
    """Run what the file asks for and `out` does not hold yet, and write the table there.

    `root` is where the paths of corpora start, and `workers` the runs trained at the same time.
    `Results.text()` is the table.

    >>> results = ontodex.run_experiment("experiment.toml", "runs/experiment")
    >>> results.failures()
    []
    """
    path, out, root = Path(file), Path(out), Path(root)
    plan = read_plan(path)
    check_data(plan, root=root, out=out)
    # Once, here: loading torch must not count as training time of the first system.
    device = choose_device(device)
    if workers > 1:
        _train_in_parallel(plan, workers, root=root, out=out, device=device)
    sections = {}
    for variant in plan.variants():
        rows = list(_complete_rows(plan, variant, root=root, out=out, device=device))
        quoted = plan.published.get(variant.name, ()) if variant.noise is None else ()
        sections[variant] = Section(variant.folder, [*rows, *quoted])
    clean = [section for variant, section in sections.items() if variant.noise is None]
    results = Results(plan.title, plan.note, clean, _make_curves(plan, sections))
    results.write(out)
    return results


def _train_in_parallel(plan: Plan, workers: int, *, root: Path, out: Path, device: str) -> None:
    """Complete the runs that join no others, several at a time. A run that fails here is tried
    again, and reported, when the rows are made."""
    for name, corpus in plan.corpora.items():  # read once, not by every process
        try:
            parts = CorpusParts.of(CorpusVariant(name, corpus), root=root, out=out)
            _ = parts.train_and_dev, parts.test
        except (OntodexError, OSError) as error:
            logger.warning("%s: %s", name, _describe_error(error))
    alone = [s for s in plan.systems.values() if not s.consensus]
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        started = [
            pool.submit(
                _try_to_complete, variant, folder, tables, root=root, out=out, device=device
            )
            for variant in plan.variants()
            for system in alone
            if system in plan.systems_on(variant.name)
            for folder, tables in plan.jobs(system, out / "runs" / variant.folder)
        ]
        try:
            for future in started:
                future.result()
        except BrokenProcessPool:
            logger.warning("a worker was killed; what is left is run one by one")


def _try_to_complete(
    variant: CorpusVariant, folder: Path, tables: Table, *, root: Path, out: Path, device: str
) -> None:
    try:
        _complete_run(folder, tables, CorpusParts.of(variant, root=root, out=out), device)
    except FAILURES as error:
        logger.warning("%s: %s", folder, _describe_error(error))


def _make_curves(plan: Plan, sections: Mapping[CorpusVariant, Section]) -> list[Curve]:
    """Return a curve for each corpus and each kind of noise, from rate 0 on."""
    curves = []
    for name, corpus in plan.corpora.items():
        for noise in NOISES:
            if getattr(corpus, noise):
                chosen = {
                    variant.rate: section
                    for variant, section in sections.items()
                    if variant.name == name and variant.noise in (None, noise)
                }
                curves.append(Curve(name, noise, chosen))
    return curves


def _complete_rows(
    plan: Plan, variant: CorpusVariant, *, root: Path, out: Path, device: str
) -> Iterator[Row]:
    """Yield a row for each system on one corpus; a failure is a row too, and the others go on."""
    parts: CorpusParts | None = None
    failed: set[str] = set()  # run folders
    for system in plan.systems_on(variant.name):
        done: list[Path] = []
        failure = ""
        for folder, tables in plan.jobs(system, out / "runs" / variant.folder):
            try:
                _refuse_failed_members(tables, failed)
                parts = parts or CorpusParts.of(variant, root=root, out=out)
                _complete_run(folder, tables, parts, device)
                done.append(folder)
            except FAILURES as error:
                failed.add(str(folder))
                failure = _describe_error(error)
                own = isinstance(error, OntodexError)
                where = f"{system.name} on {variant.folder}"
                logger.warning("%s: %s", where, failure, exc_info=not own)
        yield read_row(system.name, done, failure)


def _refuse_failed_members(tables: Table, failed: set[str]) -> None:
    """Refuse members that failed: a finished folder of theirs is not the run of the plan."""
    names = [Path(m).name for m in tables["model"].get("members", ()) if m in failed]
    if names:
        raise RunError(f"its member{'s' * (len(names) > 1)} {' and '.join(names)} failed")


def _describe_error(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "the machine ran out of memory"
    first = (str(error) or type(error).__name__).splitlines()[0]
    return f"{first} ({error.hint})" if isinstance(error, OntodexError) and error.hint else first


def _complete_run(folder: Path, tables: Table, parts: CorpusParts, device: str) -> None:
    """Make sure that a run exists, is the one asked for, and is evaluated on test."""
    if is_finished(folder):
        _refuse_other_run(folder, tables, parts)
    else:
        documents, dev = parts.train_and_dev
        logger.info("training %s", folder)
        train(
            train=documents,
            dev=dev,
            ontology=parts.ontology,
            out=folder,
            device=device,
            config=tables,
        )
    if _read_corpus_key(folder) != parts.test.key:
        logger.info("evaluating %s", folder)
        evaluate(folder, parts.test, report=True, device=device)


def _refuse_other_run(folder: Path, tables: Table, parts: CorpusParts) -> None:
    """Refuse a finished run whose settings, documents or members are not those of the plan."""
    manifest = verify_folder(folder)
    hint = f"remove {folder} to run it again, or give the system another name"
    # Compare resolved settings: one that is newer than the run had its default value then.
    if resolve(load_config(folder), names_old=False).tables() != resolve(tables).tables():
        raise RunError(f"{folder}: finished with other settings than the file says", hint=hint)
    if manifest["train"]["key"] != parts.train_and_dev[0].key:
        raise RunError(f"{folder}: trained on other documents", hint=hint)
    for number, member in enumerate(tables["model"].get("members", ())):
        for name, digest in verify_folder(Path(member))["files"].items():
            copy = manifest["files"].get(f"model/members/{number}/{name}")
            if name.startswith("model/") and copy != digest:
                raise RunError(f"{folder}: made of another {Path(member).name}", hint=hint)


def _read_corpus_key(folder: Path) -> str | None:
    """Return the key of the corpus in metrics.json; None without readable metrics."""
    try:
        return json.loads((folder / "metrics.json").read_text(encoding="utf-8"))["corpus"]["key"]
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        return None

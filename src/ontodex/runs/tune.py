"""Find better settings for the system of a run, and train it with them."""

from __future__ import annotations

import dataclasses
import logging
import shutil
from glob import escape
from pathlib import Path

from ontodex.config import Table, merge_tables
from ontodex.corpora.field_mapping import NO_MAPPING, FieldMapping
from ontodex.corpora.label_names import match_labels
from ontodex.corpora.open import Documents, open_mapped
from ontodex.corpora.split import set_aside
from ontodex.errors import ConfigError, RunError
from ontodex.io.device import choose_device
from ontodex.io.durations import parse_duration
from ontodex.io.files import write_text
from ontodex.models.auto.budget import Budget
from ontodex.models.auto.candidates import Alternatives, list_alternatives
from ontodex.models.auto.halving import halve, list_configurations
from ontodex.models.auto.page import make_tuning_page
from ontodex.models.auto.rungs import make_rungs
from ontodex.models.auto.search import Search
from ontodex.models.auto.trials import TrialRunner, nest_settings
from ontodex.ontology.open import read_ontology
from ontodex.runs.documents import choose_mapping
from ontodex.runs.folder import is_finished, load_config, verify_folder
from ontodex.runs.languages import find_corpus_languages
from ontodex.runs.recipe import train as train_run
from ontodex.runs.run import RANKS, Run, locate_run
from ontodex.runs.settings import resolve
from ontodex.types import Corpus, LabelSpace, Ontology

logger = logging.getLogger(__name__)

PAGE = "tune.html"  # what was tried, in the run folder


def tune(
    run: Run | str | Path,
    out: str | Path,
    *,
    train: Documents,
    dev: Documents | None = None,
    budget: str = "5m",
    device: str = "auto",
    mapping: FieldMapping = NO_MAPPING,
    seed: int = 1,
) -> Run:
    """Try settings of the system of `run` by successive halving; train the best into `out`.

    The trials lie beside `out` until it is finished, so that a killed search continues. `mapping`
    names columns of tables, which by default are those of the run's training documents.

    >>> tuned = ontodex.tune("runs/linear", "runs/tuned", train="train.jsonl", budget="1s")
    >>> tuned.settings.name
    'linear'
    """
    run, out = locate_run(run), Path(out)
    clock = _read_budget(budget)
    about = verify_folder(run)
    if is_finished(out):
        _clear_work(out)
        raise RunError(f"{out}: holds a finished run", hint="choose another --out")
    tables = load_config(run)
    name, start = _read_start(tables)
    ontology = _read_vocabulary(run / "ontology.json")
    if isinstance(train, str | Path):
        mapping = choose_mapping(train, mapping, about)
    corpus = _open(train, ontology, mapping)
    languages = find_corpus_languages(resolve(tables).train.languages, corpus, ontology)
    alternatives = _list_alternatives(name, corpus, languages)
    dev = None if dev is None else _open(dev, ontology, mapping)
    fitted, held_out = set_aside(corpus) if dev is None else (corpus, dev)
    labels = LabelSpace.of(fitted, ontology, min_count=resolve(tables).labels.min_count)
    work = out.with_name(f".{out.name}.tune-{corpus.key[:12]}")
    runner = TrialRunner(
        work, labels, device=choose_device(device), depth=RANKS, languages=languages
    )
    rungs = make_rungs(fitted, held_out, labels, folds=0, seed=seed)
    search = Search(runner, rungs, clock, documents=len(fitted) + len(held_out), final_fits=2)
    best = halve(search, name, list_configurations(start, alternatives, seed=seed))
    logger.info("chosen: %s, nDCG@5 %.2f on %s", best.name, 100 * best.ndcg, best.rung)
    write_text(work / PAGE, make_tuning_page(search.trials, best))
    trained = train_run(
        train=corpus,
        dev=dev,
        ontology=ontology,
        out=out,
        device=device,
        mapping=mapping,
        config=merge_tables(tables, {"model": nest_settings(best.settings)}),
    )
    _clear_work(out)
    return trained


def _clear_work(out: Path) -> None:
    """Put the page beside the finished run and remove the trials, also those of a killed search."""
    for work in out.parent.glob(f".{escape(out.name)}.tune-*"):
        if (work / PAGE).exists():
            write_text(out / PAGE, (work / PAGE).read_text(encoding="utf-8"))
        shutil.rmtree(work)


def _list_alternatives(name: str, corpus: Corpus, languages: tuple[str, ...]) -> Alternatives:
    alternatives = list_alternatives(
        name, corpus.kind, languages=languages, n_fields=len(corpus.field_names())
    )
    if not alternatives:
        raise ConfigError(
            f"there are no settings to tune for the system {name!r}", hint="tune one of its members"
        )
    return alternatives


def _read_budget(budget: str) -> Budget:
    try:
        return Budget(parse_duration(budget))
    except ValueError as error:
        raise ConfigError(f"--budget: {error}") from error


def _read_vocabulary(path: Path) -> Ontology | None:
    return read_ontology(path, "json") if path.exists() else None


def _open(corpus: Documents, ontology: Ontology | None, mapping: FieldMapping) -> Corpus:
    source = corpus if isinstance(corpus, str | Path) else "documents"
    return match_labels(open_mapped(corpus, mapping), ontology, source)


def _read_start(tables: Table) -> tuple[str, Table]:
    """Return the system of a run, and its settings that differ from the defaults."""
    settings = resolve(tables, names_old=False)
    given, default = (dataclasses.asdict(one) for one in (settings.model, type(settings.model)()))
    return settings.name, dict(_list_changes(given, default))


def _list_changes(given: Table, default: Table, prefix: str = "") -> list[tuple[str, object]]:
    """Return the settings that differ, with dotted names for those of inner tables."""
    changes: list[tuple[str, object]] = []
    for key, value in given.items():
        if isinstance(value, dict):
            changes += _list_changes(value, default[key], f"{prefix}{key}.")
        elif value != default[key]:
            changes.append((f"{prefix}{key}", list(value) if isinstance(value, tuple) else value))
    return changes

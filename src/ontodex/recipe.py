"""The recipe: corpora and an ontology in, a run folder out.

train     settings ─ label space ─ fit ─ decide on dev ─ save ─ manifest
update    a run folder and more documents ─ a run folder
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ontodex import __version__, config
from ontodex.errors import ConfigError, DataError, RunError
from ontodex.files import atomic_folder, digest, write_text
from ontodex.models.base import Refits, Resumes, Updates
from ontodex.ontology import write_ontology
from ontodex.read.split import set_aside
from ontodex.run import RANKS, Run, load
from ontodex.settings import RunSettings, resolve
from ontodex.train import store
from ontodex.train.device import describe, pick
from ontodex.train.processes import by_the_first, is_first
from ontodex.types import Corpus, LabelSpace, Ontology, Ranking

logger = logging.getLogger(__name__)


def train(
    tables: Mapping[str, Any],
    out: Path,
    *,
    train: Corpus,
    dev: Corpus | None = None,
    ontology: Ontology | None = None,
    device: str = "auto",
) -> Run:
    """Learn a system and leave a run folder; without `dev`, a tenth of `train` is set aside."""
    chosen = resolve(tables)
    with claimed(out, chosen):
        return _learn(chosen, out, train, dev, ontology, device)


def _learn(
    chosen: RunSettings,
    out: Path,
    train: Corpus,
    dev: Corpus | None,
    ontology: Ontology | None,
    device: str,
) -> Run:
    from ontodex import decide

    if len(train) == 0:
        raise DataError("the training corpus has no documents")
    started = time.monotonic()
    if dev is None:
        train, dev = set_aside(train)
    labels = LabelSpace.of(train, ontology, min_count=chosen.labels.min_count)
    if labels.n_seen == 0:
        raise DataError(
            "no training document has a label",
            hint="give a labelled corpus, or lower --set labels.min_count",
        )
    _doubt(labels, dev)
    by_the_first(lambda: _save_labels(labels, out), "write the labels")
    model = chosen.model_class(chosen.model, device=pick(device))
    if isinstance(model, Resumes):
        model.work = work = out / "work"
        earlier = by_the_first(lambda: store.earlier_seconds(work), "read the clock of the run")
        started -= earlier or 0.0
    model.fit(train, dev, labels)
    judged = model.rank(dev, RANKS)
    if isinstance(model, Refits) and chosen.train.refit:
        learned = labels
        labels = _refit(model, train.joined(dev), learned, chosen, out)
        judged = _moved(judged, learned, labels)
    about = {
        "ontodex": __version__,
        "model": chosen.name,
        "train": {"documents": len(train), "key": train.key},
        "dev": {"documents": len(dev), "key": dev.key},
        "labels": labels.n_seen,
        "train_seconds": round(time.monotonic() - started, 3),
        "hardware": describe(pick(device)),
    }

    def save() -> None:
        (out / "model").mkdir(exist_ok=True)
        model.save(out / "model")
        decision = decide.tune(chosen.decide, judged, labels.gold(dev), labels)
        decision.save(out / "decision.json")
        clear(out)
        store.finish(out, about)

    by_the_first(save, "save the run")
    return load(out, device=device)


def _doubt(labels: LabelSpace, dev: Corpus) -> None:
    """Say what is likely a mistake, before hours of training."""
    ontology, known = labels.ontology, labels.ids[: labels.n_seen]
    strangers = [label for label in known if label not in (ontology or ())]
    if ontology is not None and len(strangers) == labels.n_seen:
        raise DataError(
            f"none of the {labels.n_seen:,} labels of the training documents is in the ontology: "
            f"they are like {strangers[0]!r}, its concepts like {next(iter(ontology.ids), '')!r}",
            hint="give the ontology that has them (--ontology), or none",
        )
    if ontology is not None and strangers:
        logger.warning(
            "%s of the %s labels of the training documents are not in the ontology (%r is one): "
            "they have no place there; `ontodex check` says more",
            f"{len(strangers):,}", f"{labels.n_seen:,}", strangers[0],
        )  # fmt: skip
    if set(known).isdisjoint(label for own in dev.labels() for label in own):
        logger.warning(
            "no dev document has a label that training documents have: what dev should decide "
            "(thresholds, when to stop) is left as it is"
        )


def _save_labels(labels: LabelSpace, out: Path) -> None:
    store.save_labels(labels, out / "labels.tsv")
    if labels.ontology is not None:
        write_ontology(labels.ontology, out / "ontology.json", "json")


def _refit(
    model: Refits, everything: Corpus, learned: LabelSpace, chosen: RunSettings, out: Path
) -> LabelSpace:
    """Teach the model all documents, those of dev too; gives the labels it then knows."""
    if isinstance(model, Resumes):
        model.work = out / "work" / "refit"
    labels = LabelSpace.of(everything, learned.ontology, min_count=chosen.labels.min_count)
    by_the_first(lambda: store.save_labels(labels, out / "labels.tsv"), "write the labels")
    model.refit(everything, labels)
    return labels


def _moved(ranking: Ranking, old: LabelSpace, new: LabelSpace) -> Ranking:
    """The same answers in the columns of another label space that has all of the labels."""
    column = np.array([*(new.column[label] for label in old.ids), -1])
    return Ranking.sort(column[ranking.columns], ranking.probabilities, ranking.k)


def clear(out: Path) -> None:
    """Take away what only a training that goes on would need; its log stays."""
    log = out / "work" / "log.jsonl"
    if log.exists():
        log.replace(out / "log.jsonl")
    shutil.rmtree(out / "work", ignore_errors=True)


@contextmanager
def claimed(out: Path, chosen: RunSettings) -> Iterator[None]:
    """The folder is this run's: its settings are on disk before the first document is read. Where
    settings or documents are refused, and nothing was learned, it is given back. Of several
    processes the first does so; another could take what it has just begun for something else."""
    by_the_first(lambda: _claim(out, config.dump(chosen.tables())), f"claim {out}")
    try:
        yield
    except (ConfigError, DataError):
        if is_first():
            _give_back(out)
        raise


def _claim(out: Path, text: str) -> None:
    if store.is_finished(out):
        raise RunError(
            f"{out}: holds a finished run", hint="choose another --out, or remove that folder first"
        )
    written = out / "config.toml"
    if written.exists() and written.read_text(encoding="utf-8") != text:
        raise RunError(
            f"{out}: holds an unfinished run with other settings",
            hint="start it again with its own settings (config.toml), or choose another --out",
        )
    if out.exists() and not written.exists() and any(out.iterdir()):
        raise RunError(f"{out}: is not empty and not a run folder", hint="choose another --out")
    try:
        write_text(written, text)
    except OSError as error:
        raise RunError(f"{out}: cannot be written ({error.strerror})") from error


def _give_back(out: Path) -> None:
    """Leave nothing where nothing was learned."""
    if out.exists() and {path.name for path in (out / "work").rglob("*")} <= {"clock.json"}:
        shutil.rmtree(out / "work", ignore_errors=True)
        for name in ("config.toml", "labels.tsv", "ontology.json"):
            (out / name).unlink(missing_ok=True)
        if not any(out.iterdir()):
            out.rmdir()


def update(folder: str | Path, corpus: Corpus, *, device: str = "cpu") -> Run:
    """The run with more documents, without retraining; labels it did not know get new columns.

    The new run is made whole beside the old one and takes its place in one step: whatever happens,
    the folder holds the old run or the new one. What was measured on the old one is left behind."""
    folder = Path(folder)
    manifest = digest(folder / "manifest.json") if store.is_finished(folder) else ""
    old = load(folder, device=device)
    if not isinstance(old.model, Updates):
        raise RunError(
            f"the system {old.settings.name!r} cannot take documents without training",
            hint="train anew on all documents, or use a system that can: dxml, knn",
        )
    labels = old.labels.updated(corpus)
    old.model.update(corpus, labels)
    before = old.about.get("updates", {"documents": 0})
    with atomic_folder(folder) as new:
        for name in ("config.toml", "ontology.json", "log.jsonl"):
            if (folder / name).exists():
                shutil.copyfile(folder / name, new / name)
        store.save_labels(labels, new / "labels.tsv")
        (new / "model").mkdir()
        old.model.save(new / "model")
        old.decision.for_labels(labels).save(new / "decision.json")
        about = {key: value for key, value in old.about.items() if key not in ("format", "files")}
        added = {"documents": before["documents"] + len(corpus), "last": corpus.key}
        store.finish(new, {**about, "labels": labels.n_seen, "updates": added})
        if digest(folder / "manifest.json") != manifest:
            raise RunError(
                f"{folder}: was changed by another process meanwhile", hint="start again"
            )
    return load(folder, device=device)

"""The recipe: corpora and an ontology in, a run folder out.

train     settings ─ label space ─ fit ─ decide on dev ─ save ─ manifest
update    a run folder and more documents ─ a run folder
"""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from ontodex import __version__, config
from ontodex.errors import ConfigError, DataError, RunError
from ontodex.files import atomic_folder, digest, locked, write_text
from ontodex.models.base import Refits, Resumes, Updates
from ontodex.ontology import write_ontology
from ontodex.ontology.table import write_json
from ontodex.read.split import set_aside
from ontodex.run import RANKS, Run, load
from ontodex.settings import RunSettings, resolve
from ontodex.train import store
from ontodex.train.device import describe, pick, thread_limit
from ontodex.train.processes import by_the_first, is_first
from ontodex.types import Corpus, LabelSpace, Ontology, Ranking

logger = logging.getLogger(__name__)

LOCK = ".lock"  # in a run folder while it is trained
ELSEWHERE = "choose another --out, or remove that folder first"
OTHER_DATA = {
    "train": "other training documents",
    "dev": "other dev documents",
    "ontology": "another ontology",
}


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
        return learn(chosen, out, train=train, dev=dev, ontology=ontology, device=device)


def learn(
    chosen: RunSettings,
    out: Path,
    *,
    train: Corpus,
    dev: Corpus | None = None,
    ontology: Ontology | None = None,
    device: str = "auto",
) -> Run:
    """What `train` does in a folder that is `claimed` already."""
    from ontodex import decide

    if len(train) == 0:
        raise DataError("the training corpus has no documents")
    started = time.monotonic()
    if dev is None:
        train, dev = set_aside(train)
    labels = LabelSpace.of(train, ontology, min_count=chosen.labels.min_count)
    if labels.n_seen == 0:
        _refuse_unlabelled(train, "training")
        raise DataError(
            f"no label is in {chosen.labels.min_count:,} training documents or more",
            hint="lower --set labels.min_count",
        )
    _doubt(labels, dev)
    by_the_first(lambda: _begin(labels, train, dev, out), "begin the run")
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
        "hardware": describe(pick(device)) + thread_limit(),
    }

    def save() -> None:
        (out / "model").mkdir(exist_ok=True)
        model.save(out / "model")
        decision = decide.tune(chosen.decide, judged, labels.gold(dev), labels)
        decision.save(out / "decision.json")
        clear(out)
        store.finish(out, about)
        (out / LOCK).unlink(missing_ok=True)  # done with; a kill from here on would leave it there

    by_the_first(save, "save the run")
    return load(out, device=device)


def _refuse_unlabelled(corpus: Corpus, which: str) -> None:
    if not any(corpus.labels()):
        raise DataError(f"no {which} document has a label", hint="give a labelled corpus")


def _doubt(labels: LabelSpace, dev: Corpus) -> None:
    """Say what is likely a mistake, before hours of training."""
    ontology, known = labels.ontology, labels.ids[: labels.n_seen]
    if ontology is not None and not any(label in ontology for label in known):
        raise DataError(
            f"none of the {labels.n_seen:,} labels of the training documents is in the ontology: "
            f"they are like {known[0]!r}, its concepts like {next(iter(ontology.ids), '')!r}",
            hint="give the ontology that has them (--ontology), or none",
        )
    _doubt_strangers(known, ontology, "training")
    if set(known).isdisjoint(label for own in dev.labels() for label in own):
        logger.warning(
            "no dev document has a label that training documents have: what dev should decide "
            "(thresholds, when to stop) is left as it is"
        )


def _doubt_strangers(known: Sequence[str], ontology: Ontology | None, which: str) -> None:
    """Say how many of the labels are not in the ontology, where there is one."""
    strangers = [label for label in known if label not in (ontology or ())]
    if ontology is not None and strangers:
        logger.warning(
            "%s of the %s labels of the %s documents are not in the ontology (%r is one): "
            "they have no place there; `ontodex check` says more",
            f"{len(strangers):,}", f"{len(known):,}", which, strangers[0],
        )  # fmt: skip


def _begin(labels: LabelSpace, train: Corpus, dev: Corpus, out: Path) -> None:
    """What is learned from, and the labels, are on disk before anything is learned."""
    _claim_data(out, {"train": train.key, "dev": dev.key, "ontology": _key(labels.ontology)})
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
    """The folder is this run's, and no other process's: its settings are on disk before the first
    document is read. Where settings or documents are refused, and nothing was learned, it is given
    back. Of several processes the first does so; another could take what it has just begun for
    something else."""
    with ExitStack() as held:
        by_the_first(lambda: _claim(out, config.dump(chosen.tables()), held), f"claim {out}")
        try:
            yield
        except (ConfigError, DataError):
            if is_first():
                _give_back(out)
            raise


def _claim(out: Path, text: str, held: ExitStack) -> None:
    _refuse_taken(out, text)  # not even a lock goes into a folder that is somebody else's
    try:
        held.enter_context(locked(out / LOCK, out))
        _refuse_taken(out, text)  # perhaps since then
        write_text(out / "config.toml", text)
    except OSError as error:
        raise RunError(f"{out}: cannot be written ({error.strerror})") from error


def _refuse_taken(out: Path, text: str) -> None:
    if store.is_finished(out):
        raise RunError(f"{out}: holds a finished run", hint=ELSEWHERE)
    written = out / "config.toml"
    if written.exists() and written.read_text(encoding="utf-8") != text:
        raise RunError(
            f"{out}: holds an unfinished run with other settings",
            hint="start it again with its own settings (config.toml), or choose another --out",
        )
    if out.exists() and not written.exists() and any(p.name != LOCK for p in out.iterdir()):
        raise RunError(f"{out}: is not empty and not a run folder", hint="choose another --out")


def _claim_data(out: Path, data: Mapping[str, str]) -> None:
    """An unfinished run goes on with the data it began with: with other data it would begin anew,
    and in the end take away all that was learned before."""
    written = out / "work" / "data.json"
    if not written.exists():
        write_text(written, json.dumps(data) + "\n")
    begun = json.loads(written.read_text(encoding="utf-8"))
    others = [words for name, words in OTHER_DATA.items() if begun[name] != data[name]]
    if others:
        raise RunError(
            f"{out}: holds an unfinished run with {' and '.join(others)}", hint=ELSEWHERE
        )


def _key(ontology: Ontology | None) -> str:
    """A digest of the ontology as runs keep it."""
    content = BytesIO()
    if ontology is not None:
        write_json(ontology, content)
    return sha256(content.getbuffer()).hexdigest()


def _give_back(out: Path) -> None:
    """Leave nothing where nothing was learned; an empty folder goes with its lock."""
    if store.is_finished(out):  # it has no work/ either, and is whole
        return
    if {path.name for path in (out / "work").rglob("*")} <= {"clock.json", "data.json"}:
        shutil.rmtree(out / "work", ignore_errors=True)
        for name in ("config.toml", "labels.tsv", "ontology.json"):
            (out / name).unlink(missing_ok=True)


def has_taken(run: Run, corpus: Corpus) -> bool:
    """Whether the run learned from just these documents, in training or in an update."""
    return corpus.key in (run.about["train"]["key"], *_updates(run))


def _updates(run: Run) -> list[str]:
    """The keys of corpora that were taken; older runs know only the last."""
    updates = run.about.get("updates", {})
    return list(updates.get("keys") or filter(None, [updates.get("last")]))


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
    if has_taken(old, corpus):
        raise RunError(
            f"{folder}: has taken these documents already", hint="give only documents that are new"
        )
    _refuse_unlabelled(corpus, "new")
    teach = corpus.select(np.array([bool(own) for own in corpus.labels()]))
    if unlabelled := len(corpus) - len(teach):
        logger.warning(
            "%s of %s new documents have no label and are left out",
            f"{unlabelled:,}",
            f"{len(corpus):,}",
        )
    labels = old.labels.updated(teach)
    given = sorted({label for own in teach.labels() for label in own})
    _doubt_strangers(given, labels.ontology, "new")
    old.model.update(teach, labels)
    with atomic_folder(folder) as new:
        for name in ("config.toml", "ontology.json", "log.jsonl"):
            if (folder / name).exists():
                shutil.copyfile(folder / name, new / name)
        store.save_labels(labels, new / "labels.tsv")
        (new / "model").mkdir()
        old.model.save(new / "model")
        old.decision.for_labels(labels).save(new / "decision.json")
        about = {key: value for key, value in old.about.items() if key not in ("format", "files")}
        added = {"documents": old.n_taken + len(teach), "keys": [*_updates(old), corpus.key]}
        store.finish(new, {**about, "labels": labels.n_seen, "updates": added})
        if digest(folder / "manifest.json") != manifest:
            raise RunError(
                f"{folder}: was changed by another process meanwhile", hint="start again"
            )
    return load(folder, device=device)

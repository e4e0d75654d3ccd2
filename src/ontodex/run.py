"""The recipe: corpora and an ontology in, a run folder out; and a run folder in, suggestions out.

train     settings ─ label space ─ fit ─ decide on dev ─ save ─ manifest
load      manifest checked ─ labels, ontology, system, decision ─ a `Run`
"""

from __future__ import annotations

import dataclasses
import json
import logging
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ontodex import __version__
from ontodex import config as settings
from ontodex.config import Table, build, did_you_mean, nearest
from ontodex.errors import ConfigError, DataError, RunError
from ontodex.files import atomic_folder, digest, write_text
from ontodex.models import find
from ontodex.models.base import (
    Decides,
    Explains,
    ExplainsSet,
    HasLevels,
    Illustrates,
    Model,
    Ranked,
    RanksAndDecides,
    Refits,
    Resumes,
    SetAttention,
    Span,
    Updates,
)
from ontodex.ontology import read_ontology, write_ontology
from ontodex.ontology.levels import label_ancestors, label_levels
from ontodex.read.split import set_aside
from ontodex.train import store
from ontodex.train.device import describe, pick
from ontodex.train.processes import by_the_first, is_first
from ontodex.types import Corpus, Doc, LabelSpace, Ontology, Ranking

if TYPE_CHECKING:
    from ontodex.decide import Decision
    from ontodex.evaluate import Metrics

logger = logging.getLogger(__name__)

RANKS = 100  # how deep rankings go when sets are decided and metrics computed


@dataclass(frozen=True)
class LabelsConfig:
    """Which labels are learned."""

    min_count: int = 1  # labels of fewer training documents are left out

    def __post_init__(self) -> None:
        if self.min_count < 1:
            raise ValueError(f"min_count must be at least 1, not {self.min_count}")


@dataclass(frozen=True)
class TrainConfig:
    """What is learned from."""

    refit: bool = False  # once dev has decided, learn again from train and dev together


@dataclass(frozen=True)
class Suggestion:
    """One concept for one document, and where it stands."""

    label: str
    name: str
    probability: float
    path: tuple[str, ...]  # names from the top of the ontology down to the concept


@dataclass(frozen=True)
class Explanation:
    """A document's text with the pieces that speak for (or against) one label."""

    text: str
    label: str
    name: str
    probability: float
    spans: Sequence[Span]
    remark: str = ""  # what the probability alone would not tell


@dataclass(frozen=True)
class RunSettings:
    """Everything a config file may say, checked and complete."""

    name: str
    model: Any
    labels: LabelsConfig
    train: TrainConfig
    decide: Any
    model_class: type[Model] = field(repr=False)

    def tables(self) -> dict[str, dict[str, Any]]:
        return {
            "model": {"name": self.name, **_stored(self.model)},
            "labels": _stored(self.labels),
            "train": _stored(self.train),
            "decide": _stored(self.decide),
        }


def _stored(settings: Any) -> Table:
    """The settings that config.toml keeps: not those marked `stored: False`, which only this
    training on this machine can use."""
    values = dataclasses.asdict(settings)
    fields = dataclasses.fields(settings)
    return {f.name: values[f.name] for f in fields if f.metadata.get("stored", True)}


def resolve(tables: Mapping[str, Any]) -> RunSettings:
    """The complete settings of a run; a table or key that nobody reads is refused."""
    from ontodex.decide import DecideConfig

    known = ["model", "labels", "train", "decide"]
    for table in tables:
        if table not in known:
            raise ConfigError(f"there is no table [{table}]{nearest(table, known)}")
    model_table = dict(tables.get("model", {}))
    name = model_table.pop("name", None)
    if not isinstance(name, str):
        raise ConfigError("[model] has no name", hint="say --model NAME, or name = ... in [model]")
    model_class = find(name)
    train_config = build(TrainConfig, tables.get("train", {}), "train")
    if train_config.refit and not issubclass(model_class, Refits):
        raise ConfigError(
            f"[train] refit: the system {name!r} cannot be refitted", hint="leave it false"
        )
    decide_config = build(DecideConfig, tables.get("decide", {}), "decide")
    if issubclass(model_class, Decides) and decide_config.rule != DecideConfig().rule:
        raise ConfigError(
            f"[decide] rule: the system {name!r} chooses label sets by itself",
            hint="leave the rule out; limit and ancestors of [decide] hold for its sets too",
        )
    return RunSettings(
        name,
        build(model_class.Config, model_table, "model"),
        build(LabelsConfig, tables.get("labels", {}), "labels"),
        train_config,
        decide_config,
        model_class,
    )


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
    ontology = labels.ontology
    strangers = [label for label in labels.ids[: labels.n_seen] if label not in (ontology or ())]
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
    if not labels.gold(dev).nnz:
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
    by_the_first(lambda: _claim(out, settings.dump(chosen.tables())), f"claim {out}")
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


def load(folder: str | Path, *, device: str = "cpu") -> Run:
    """A trained run, checked file by file against its manifest."""
    from ontodex import decide

    folder = Path(folder)
    about = store.verify(folder)
    chosen = resolve(store.load_config(folder))
    ontology_path = folder / "ontology.json"
    ontology = read_ontology(ontology_path, "json") if ontology_path.exists() else None
    labels = store.load_labels(folder / "labels.tsv", ontology)
    model = chosen.model_class.load(folder / "model", labels, device=pick(device))
    return Run(folder, about, chosen, labels, model, decide.load(folder / "decision.json", labels))


@dataclass(frozen=True, eq=False)
class Run:
    """A trained system with its labels, its ontology and its way of deciding."""

    folder: Path
    about: Table
    settings: RunSettings
    labels: LabelSpace
    model: Model
    decision: Decision

    def rank(self, corpus: Corpus, k: int = RANKS) -> Ranking:
        """The k best labels of each document."""
        return self.model.rank(corpus, k)

    def decide(self, corpus: Corpus, ranking: Ranking | None = None) -> Ranking:
        """The label set of each document: the system's own where it decides by itself, else the
        tuned rule's (of `ranking`, where that is known)."""
        if isinstance(self.model, Decides):
            chosen = self.model.decide(corpus)
            return self.decision.settle(chosen, chosen)
        return self.decision.apply(self.rank(corpus) if ranking is None else ranking)

    def ranked(self, corpus: Corpus) -> Ranked:
        """The ranking, the label set, and each label by itself, with no more work than needed."""
        if isinstance(self.model, RanksAndDecides):
            found = self.model.rank_and_decide(corpus, RANKS)
            return dataclasses.replace(
                found, chosen=self.decision.settle(found.chosen, found.ranking)
            )
        ranking = self.rank(corpus)
        return Ranked(ranking, self.decide(corpus, ranking), ranking)

    def suggest(
        self,
        document: str | Doc,
        *,
        limit: int = 10,
        threshold: float = 0.0,
        language: str | None = None,
    ) -> list[Suggestion]:
        """The best concepts of one document, most probable first: of those a system decides for,
        where it decides by itself."""
        corpus = Corpus.of([_as_doc(document)])
        own = isinstance(self.model, Decides)
        ranking = self.decide(corpus).cut(limit) if own else self.rank(corpus, limit)
        return [s for s in self._suggestions(ranking, language) if s.probability >= threshold]

    def considered(self, document: str | Doc, *, language: str | None = None) -> list[Suggestion]:
        """Every concept that had a chance, chosen or not, most probable first."""
        return self._suggestions(self.rank(Corpus.of([_as_doc(document)])), language)

    def apart(self, document: str | Doc, *, language: str | None = None) -> list[Suggestion]:
        """The same concepts, each as probable as it is by itself: what was chosen has no lead."""
        return self._suggestions(self.ranked(Corpus.of([_as_doc(document)])).apart, language)

    def _suggestions(self, ranking: Ranking, language: str | None) -> list[Suggestion]:
        """The answers about the one document of a ranking."""
        answers = zip(ranking.columns[0].tolist(), ranking.probabilities[0].tolist(), strict=True)
        return [self.suggestion(column, p, language) for column, p in answers if column >= 0]

    def suggestion(
        self, column: int, probability: float, language: str | None = None
    ) -> Suggestion:
        """A column as people see it: name and place in the ontology."""
        label, ontology = self.labels.ids[column], self.labels.ontology
        known = ontology is not None and label in ontology
        path = [ontology.name(step, language) for step in ontology.path(label)] if known else []  # type: ignore[union-attr]
        return Suggestion(label, self.labels.name(column, language), probability, tuple(path))

    def explain(self, document: str | Doc, label: str | None = None) -> Explanation:
        """Which words speak for a label (the best one, if none is named)."""
        if not isinstance(self.model, Explains):
            raise RunError(f"the system {self.settings.name!r} cannot explain its answers")
        doc = _as_doc(document)
        ranking = self.rank(Corpus.of([doc]), len(self.labels))
        column = int(ranking.columns[0, 0]) if label is None else self.find_column(label)
        if column < 0:
            raise RunError("this document has no suggestion to explain", hint="name a --label")
        at = ranking.columns[0] == column
        probability = float(ranking.probabilities[0][at][0]) if at.any() else 0.0
        return Explanation(
            doc.text,
            self.labels.ids[column],
            self.labels.name(column),
            probability,
            self.model.explain(doc, column),
            # Systems that know names give some concepts a chance that they never learned.
            "" if probability or self.labels.frequency[column] else self._never_learned(),
        )

    def _never_learned(self) -> str:
        least = self.settings.labels.min_count
        if least > 1:
            return f"never learned: fewer than {least:,} training documents have it"
        return "never learned: no training document has it"

    @property
    def is_stepwise(self) -> bool:
        """Whether label sets are chosen label by label, so that `explain_set` can tell how."""
        return isinstance(self.model, ExplainsSet) and self.model.is_stepwise

    def explain_set(self, document: str | Doc) -> SetAttention:
        """How the label set of a document was chosen, label by label."""
        if not isinstance(self.model, ExplainsSet):
            raise RunError(f"the system {self.settings.name!r} does not choose label by label")
        return self.model.explain_set(_as_doc(document))

    def find_column(self, label: str) -> int:
        """The column of a concept given by id or by preferred name."""
        if label in self.labels.column:
            return self.labels.column[label]
        names = [self.labels.name(column) for column in range(len(self.labels))]
        wanted = label.casefold()
        for column, name in enumerate(names):
            if name.casefold() == wanted:
                return column
        meant = did_you_mean(label[:200], names[:50_000], 3)
        raise RunError(
            f"this run knows no concept {label[:200]!r}{meant}",
            hint=f"take an id or a name of the {len(names):,} in {self.folder / 'labels.tsv'}",
        )

    def evaluate(self, corpus: Corpus, *, report: bool = False) -> Metrics:
        """All metrics against a labelled corpus. With `report`, metrics.json, label_metrics.tsv and
        report.html are written into the run folder."""
        from ontodex.evaluate import evaluate
        from ontodex.evaluate.groups import write_label_table
        from ontodex.evaluate.report import write_report
        from ontodex.evaluate.sets import count_by_label

        started = time.monotonic()
        said = self.ranked(corpus)
        seconds = time.monotonic() - started
        gold, ranking, decided = self.labels.gold(corpus), said.ranking, said.chosen
        above = label_ancestors(self.labels) if self.labels.ontology is not None else None
        metrics = evaluate(
            gold, ranking, decided, self.labels, levels=self.levels(), ancestors=above
        )
        if report:
            measured = {
                **metrics.to_dict(),
                "corpus": {"documents": len(corpus), "key": corpus.key},
                "rank_seconds": round(seconds, 6),
            }
            text = json.dumps(measured, indent=1, ensure_ascii=False) + "\n"
            write_text(self.folder / "metrics.json", text)
            counts = count_by_label(gold, decided)
            write_label_table(self.folder / "label_metrics.tsv", self.labels, counts)
            write_report(
                self.folder / "report.html",
                metrics,
                title=f"{self.settings.name} on {len(corpus):,} documents",
                gold=gold,
                ranking=ranking,
                decided=decided,
                labels=self.labels,
                corpus=corpus,
                ancestors=above,
                about={
                    "trained on": f"{self.about['train']['documents']:,} documents",
                    "in": f"{self.about['train_seconds']:,.0f} s on {self.about['hardware']}",
                },
                illustrations=self.model.illustrations()
                if isinstance(self.model, Illustrates)
                else (),
            )
        return metrics

    def levels(self) -> NDArray[np.int32] | None:
        """The ontology level of each column, as the system sees it where it works level by level;
        None without an ontology."""
        ontology = self.labels.ontology
        if ontology is None:
            return None
        if isinstance(self.model, HasLevels):
            return self.model.label_levels(self.labels)
        return label_levels(self.labels)


def _as_doc(document: str | Doc) -> Doc:
    return document if isinstance(document, Doc) else Doc("", {"text": document})

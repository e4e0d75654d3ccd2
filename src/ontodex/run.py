"""A trained run: a run folder in, suggestions, explanations and metrics out.

load      manifest checked ─ labels, ontology, system, decision ─ a `Run`
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ontodex.config import Table, did_you_mean
from ontodex.errors import DataError, RunError
from ontodex.files import write_text
from ontodex.models.base import (
    Decides,
    Explains,
    ExplainsSet,
    HasLevels,
    Illustrates,
    Model,
    Ranked,
    RanksAndDecides,
    SetAttention,
    Span,
)
from ontodex.ontology import read_ontology
from ontodex.ontology.levels import label_ancestors, label_levels
from ontodex.settings import RunSettings, resolve
from ontodex.train import store
from ontodex.train.device import pick
from ontodex.types import Corpus, Doc, LabelSpace, Ranking

if TYPE_CHECKING:
    from ontodex.decide import Decision
    from ontodex.evaluate import Metrics

RANKS = 100  # how deep rankings go when sets are decided and metrics computed


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
class Suggested:
    """Suggestions for a document, and what stands behind them."""

    shown: Sequence[Suggestion]
    chosen: Sequence[Suggestion]  # these, and where a system decides by itself the rest of its set
    apart: Sequence[Suggestion]  # all that had a chance, as probable as they are by themselves


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

    def ranked(self, corpus: Corpus, k: int = RANKS) -> Ranked:
        """The ranking, the label set, and each label by itself, with no more work than needed."""
        if isinstance(self.model, RanksAndDecides):
            found = self.model.rank_and_decide(corpus, k)
            return dataclasses.replace(
                found, chosen=self.decision.settle(found.chosen, found.ranking)
            )
        ranking = self.rank(corpus, k)
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

    def suggested(
        self,
        document: str | Doc,
        *,
        limit: int = 10,
        threshold: float = 0.0,
        language: str | None = None,
    ) -> Suggested:
        """What `suggest` says, and what stands behind it."""
        said = self.ranked(Corpus.of([_as_doc(document)]), max(limit, RANKS))
        own = isinstance(self.model, Decides)
        best = self._suggestions(said.chosen if own else said.ranking, language)
        shown = [s for s in best[:limit] if s.probability >= threshold]
        return Suggested(shown, best if own else shown, self._suggestions(said.apart, language))

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
    def n_taken(self) -> int:
        """Documents that were put into it after its training."""
        return int(self.about.get("updates", {}).get("documents", 0))

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
        """The column of a concept given by id, by preferred name or by a synonym."""
        if label in self.labels.column:
            return self.labels.column[label]
        names = [self.labels.name(column) for column in range(len(self.labels))]
        wanted, ontology = label.casefold(), self.labels.ontology
        for column, name in enumerate(names):
            if name.casefold() == wanted:
                return column
        if ontology is not None:
            for column, known in enumerate(self.labels.ids):
                if known in ontology and wanted in map(str.casefold, ontology.synonyms_of(known)):
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

        gold = self.labels.gold(corpus)
        if gold.nnz and gold.indices.min() >= len(self.labels):
            raise DataError(
                "this run knows none of the labels of these documents, so all would be missed",
                path=corpus.folder,
                hint="evaluate on documents with labels of its vocabulary, written the same way "
                f"({self.labels.ids[0]!r} is one)",
            )
        started = time.monotonic()
        said = self.ranked(corpus)
        seconds = time.monotonic() - started
        ranking, decided = said.ranking, said.chosen
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

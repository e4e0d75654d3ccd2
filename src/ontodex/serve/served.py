"""A run as the service shows it: suggestions with their place, concepts, search."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from ontodex.decide import Decision, lists
from ontodex.decide import load as load_decision
from ontodex.errors import DataError
from ontodex.files import digest
from ontodex.models.base import Decides, Explains, Ranked, ReadsKeywords, Updates
from ontodex.ontology import read_ontology
from ontodex.ontology.graph import Concept, build, paths
from ontodex.ontology.search import Search
from ontodex.outline import above, more_specific, other_parents
from ontodex.settings import RunSettings, resolve
from ontodex.train import store
from ontodex.types import LabelSpace, Ontology, Ranking

Step = dict[str, str]  # label and name
Json = dict[str, Any]


@dataclass(frozen=True)
class Ask:
    """What is wanted of a ranking."""

    limit: int = 10
    threshold: float = 0.0
    chosen: bool = False
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    language: str | None = None


def url_name(folder: Path) -> str:
    """The name of a run in URLs: its folder's, with only letters, digits, '.', '_' and '-'."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name).strip("-") or "run"


def _best(found: Ranking, ask: Ask, first: set[int]) -> list[tuple[int, float]]:
    """Columns and probabilities, those in `first` whatever they are, then the most probable."""
    pairs = zip(found.columns[0].tolist(), found.probabilities[0].tolist(), strict=True)
    kept = [(c, p) for c, p in pairs if c >= 0 and (p >= ask.threshold or c in first)]
    room = ask.limit - min(ask.limit, sum(c in first for c, _ in kept))
    others = [c for c, _ in kept if c not in first][:room]
    return [(c, p) for c, p in kept if c in first or c in others][: ask.limit]


@dataclass(eq=False)
class Known:
    """An ontology, and the search in it; runs that have the same one share both."""

    ontology: Ontology
    _search: Search | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def search(self) -> Search:
        """Made when first wanted: seconds for a hundred thousand names."""
        with self._lock:
            if self._search is None:
                self._search = Search(self.ontology)
            return self._search


@dataclass(frozen=True)
class Card:
    """A run without its model, which is in another process."""

    folder: Path
    about: Json
    settings: RunSettings
    labels: LabelSpace
    decision: Decision
    known: Known  # the run's ontology; where it has none, its labels without any order

    @classmethod
    def open(cls, folder: Path, shared: dict[str, Known] | None = None) -> Card:
        """Checked file by file against the manifest, as `ontodex.run.load` does. `shared` has the
        ontologies of other runs by the digest of their file."""
        about = store.verify(folder)
        settings = resolve(store.load_config(folder))
        known = _ontology_of(folder, about, {} if shared is None else shared)
        labels = store.load_labels(folder / "labels.tsv", None if known is None else known.ontology)
        decision = load_decision(folder / "decision.json", labels)
        if known is None:
            known = Known(build(Concept(label) for label in labels.ids))
        return cls(folder, about, settings, labels, decision, known)


def _ontology_of(folder: Path, about: Json, shared: dict[str, Known]) -> Known | None:
    digest_of_file = about["files"].get("ontology.json")
    if digest_of_file is None:
        return None
    if digest_of_file not in shared:
        shared[digest_of_file] = Known(read_ontology(folder / "ontology.json", "json"))
    return shared[digest_of_file]


class Served:
    """One run, with what is looked up again and again kept at hand."""

    def __init__(self, name: str, run: Card) -> None:
        self.name, self.run = name, run
        self.key = digest(run.folder / "manifest.json")  # changes whenever the run does
        model = run.settings.model_class
        self.explains, self.updates = issubclass(model, Explains), issubclass(model, Updates)
        self.keywords = issubclass(model, ReadsKeywords) and model.reads_keywords(
            run.folder / "model"
        )
        self._decides = issubclass(model, Decides)
        self._place = lru_cache(maxsize=100_000)(self._find_place)
        self._above = lru_cache(maxsize=100_000)(partial(above, run.known.ontology))

    # ----------------------------------------------------------------------------- suggestions

    def suggestions(self, ranked: Ranked, ask: Ask) -> list[Json]:
        """The answer for the one document of a ranking."""
        include, exclude = self.columns(ask.include), self.columns(ask.exclude)
        if both := set(ask.include) & set(ask.exclude):
            raise DataError(f"{sorted(both)[0]!r} is both included and excluded")
        ranking, chosen = ranked.ranking, ranked.chosen
        if include or exclude:
            chosen = self._chosen(ranked, include, exclude)
            ranking = lists.including(lists.without(ranking, exclude), include, ranking)
        found = chosen if ask.chosen else ranking
        taken = set(chosen.columns[0].tolist())
        language = ask.language if ask.language in self.ontology.names else None
        apart = dict(self._pairs(lists.without(ranked.apart, exclude)))
        near = self._more_specific(chosen, apart, language)
        ids = self.run.labels.ids
        return [
            {
                **self._place(column, language),
                "probability": round(probability, 6),
                "apart": round(apart.get(ids[column], probability), 6),
                "chosen": column in taken,
                "more_specific": near.get(ids[column], []),
            }
            for column, probability in _best(found, ask, set(include))
        ]

    def _more_specific(
        self, chosen: Ranking, apart: Mapping[str, float], language: str | None
    ) -> dict[str, list[Json]]:
        """For a chosen label those below it that were passed over although they are close."""
        near = more_specific(dict(self._pairs(chosen)), apart, self._above)
        return {
            label: [{**self.step(each, language), "apart": round(apart[each], 6)} for each in below]
            for label, below in near.items()
        }

    def _chosen(self, ranked: Ranked, include: list[int], exclude: list[int]) -> Ranking:
        """The label set with some labels in it and some not."""
        if self._decides:  # there is no rule to ask again
            return self.run.decision.settle(
                ranked.chosen, ranked.ranking, include=include, exclude=exclude
            )
        return self.run.decision.apply(ranked.ranking, include=include, exclude=exclude)

    def kept(self, ranked: Ranked) -> Json:
        """The answer for one document as the database keeps it: labels and probabilities, those
        by themselves where they are others."""
        ranking, apart = self._pairs(ranked.ranking), self._pairs(ranked.apart)
        kept = {"ranked": ranking, "chosen": self._pairs(ranked.chosen)}
        return kept if apart == ranking else {**kept, "apart": apart}

    def ranked(self, kept: Json) -> Ranked:
        """The other way round."""
        pairs = kept["ranked"], kept["chosen"], kept.get("apart", kept["ranked"])
        return Ranked(*map(self._ranking, pairs))

    def _pairs(self, ranking: Ranking) -> list[tuple[str, float]]:
        ids = self.run.labels.ids
        pairs = zip(ranking.columns[0].tolist(), ranking.probabilities[0].tolist(), strict=True)
        return [(ids[column], probability) for column, probability in pairs if column >= 0]

    def _ranking(self, pairs: Sequence[tuple[str, float]]) -> Ranking:
        columns = [self.run.labels.column[label] for label, _ in pairs]
        return Ranking(
            np.array(columns, np.int32).reshape(1, -1),
            np.array([probability for _, probability in pairs], np.float32).reshape(1, -1),
        )

    def columns(self, labels: Iterable[str]) -> list[int]:
        """The columns of labels that this run must know."""
        column = self.run.labels.column
        for label in labels:
            if label not in column:
                raise DataError(f"the run {self.name!r} knows no concept {label[:200]!r}")
        return [column[label] for label in labels]

    def _find_place(self, column: int, language: str | None) -> Json:
        label = self.run.labels.ids[column]
        others = other_parents(self.ontology, label)
        return {
            "label": label,
            "name": self.run.labels.name(column, language),
            "path": self.path(label, language) if self.run.labels.ontology is not None else [],
            "other_parents": [self.step(parent, language) for parent in others],
        }

    # -------------------------------------------------------------------------------- concepts

    @property
    def ontology(self) -> Ontology:
        return self.run.known.ontology

    @cached_property
    def languages(self) -> list[str]:
        return sorted(self.ontology.names)

    @cached_property
    def roots(self) -> list[str]:
        """Concepts without parents, by name."""
        lone = np.flatnonzero(np.diff(self.ontology.parents.indptr) == 0).tolist()
        return self.by_name([self.ontology.ids[i] for i in lone], None)

    def by_name(self, labels: Iterable[str], language: str | None) -> list[str]:
        return sorted(labels, key=lambda label: (self.name_of(label, language).casefold(), label))

    def knows(self, label: str) -> bool:
        return label in self.run.labels.column or label in self.ontology

    def name_of(self, label: str, language: str | None = None) -> str:
        return self.ontology.name(label, language) if label in self.ontology else label

    def step(self, label: str, language: str | None = None) -> Step:
        return {"label": label, "name": self.name_of(label, language)}

    def path(self, label: str, language: str | None = None) -> list[Step]:
        """One shortest way from the top down to the concept; none for one that has no place."""
        if label not in self.ontology:
            return []
        return [self.step(above, language) for above in self.ontology.path(label)]

    def paths(self, label: str, limit: int, language: str | None = None) -> list[list[Step]]:
        """The first `limit` ways from a root down to the concept."""
        ways = paths(self.ontology, label)
        return [
            [self.step(above, language) for above in way]
            for way, _ in zip(ways, range(limit), strict=False)
        ]

    def concept(self, label: str, language: str | None = None) -> Json:
        """A concept in a list."""
        column = self.run.labels.column.get(label)
        known = label in self.ontology
        return {
            **self.step(label, language),
            "children": len(self.ontology.children_of(label)) if known else 0,
            "frequency": 0 if column is None else int(self.run.labels.frequency[column]),
            "suggestible": column is not None,
        }

    def details(self, label: str, language: str | None = None) -> Json:
        """A concept with all that the ontology says about it."""
        ontology, known = self.ontology, label in self.ontology
        parents = ontology.parents_of(label) if known else []
        return {
            **self.concept(label, language),
            "synonyms": list(ontology.synonyms_of(label, language)) if known else [],
            "definition": ontology.definitions.get(label, ""),
            "notation": ontology.notations.get(label, ""),
            "deprecated": label in ontology.deprecated,
            "parents": [self.concept(parent, language) for parent in parents],
            "path": self.path(label, language),
        }

    def search(self, query: str, limit: int, language: str | None = None) -> list[Json]:
        """Concepts by what people type."""
        return [
            {
                **self.step(hit.label, language),
                "text": hit.text,
                "kind": hit.kind,
                "path": self.path(hit.label, language),
            }
            for hit in self.run.known.search().find(query, limit)
        ]

    # ----------------------------------------------------------------------------------- about

    def about(self) -> Json:
        run = self.run
        return {
            "run": self.name,
            "model": run.settings.name,
            "labels": run.labels.n_seen,
            "documents": run.about["train"]["documents"],
            "train_seconds": run.about["train_seconds"],
            "hardware": run.about.get("hardware", ""),  # runs of early versions do not say
            "ontology": run.labels.ontology is not None,
            "languages": self.languages,
            "rule": "its own" if self._decides else run.decision.config.rule,
            "explains": self.explains,
            "updates": self.updates,
            "keywords": self.keywords,
            "report": (run.folder / "report.html").is_file(),
        }

    def metrics(self) -> Json | None:
        """What `ontodex evaluate` wrote; None where it did not."""
        path = self.run.folder / "metrics.json"
        found: Json | None = json.loads(path.read_text()) if path.is_file() else None
        return found

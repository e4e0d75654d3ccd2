"""Match labels that are names or notations to the concepts of an ontology.

    label -> id | notation | preferred name | synonym, in any language -> the same without case

A label that fits several concepts, or none, is kept as it is and counted.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ontodex.io.counts import format_count
from ontodex.types import Corpus, Doc, LabelSpace, Ontology

logger = logging.getLogger(__name__)

MAX_EXAMPLES = 5
JOINTS = (",", "/")  # what people put between names, beside the separators that are understood


@dataclass
class MatchReport:
    """Counts of how the labels of documents were matched; every use of a label counts."""

    n_ids: int = 0  # were ids already
    matched: Counter[str] = field(default_factory=Counter)  # names and notations of one concept
    ambiguous: Counter[str] = field(default_factory=Counter)  # of several concepts
    unknown: Counter[str] = field(default_factory=Counter)  # of none
    joined: Counter[str] = field(default_factory=Counter)  # mark -> unknown: names with it between

    @property
    def n_labels(self) -> int:
        named = (self.matched, self.ambiguous, self.unknown)
        return self.n_ids + sum(part.total() for part in named)

    def to_dict(self) -> dict[str, Any]:
        """Return counts and examples for programs."""
        return {
            "n_read": self.n_labels,
            "n_ids": self.n_ids,
            "n_matched": self.matched.total(),
            "n_ambiguous": self.ambiguous.total(),
            "n_unknown": self.unknown.total(),
            "ambiguous": list_examples(self.ambiguous),
            "unknown": list_examples(self.unknown),
        }

    def describe(self) -> str:
        """Return the counts as a sentence, with examples of what was not matched."""
        parts = [
            format_count(self.n_ids, "id"),
            f"{self.matched.total():,} matched by name or notation",
        ]
        for word, labels in (("ambiguous", self.ambiguous), ("unknown", self.unknown)):
            examples = ", ".join(map(repr, list_examples(labels)))
            parts.append(f"{labels.total():,} {word}" + (f" ({examples})" if examples else ""))
        return f"{format_count(self.n_labels, 'label')}: {', '.join(parts)}"

    def log(self, source: object) -> None:
        """Log the counts where some label was not an id; warn of what was not matched."""
        if self.ambiguous or self.unknown:
            logger.warning("%s: %s; unmatched labels are kept as they are", source, self.describe())
            for mark, count in self.joined.most_common(1):
                logger.warning(
                    "%s: %s of the unknown labels are several names joined by %r; divide them with "
                    "--label-separator '%s'", source, f"{count:,}", mark, mark,
                )  # fmt: skip
        elif self.matched:
            logger.info("%s: %s", source, self.describe())


def list_examples(labels: Counter[str]) -> list[str]:
    """Return the most frequent labels."""
    return [label for label, _ in labels.most_common(MAX_EXAMPLES)]


class NameIndex:
    """The concepts of an ontology by notation, preferred name and synonym."""

    def __init__(self, ontology: Ontology) -> None:
        self._ontology = ontology
        self._exact = _map_names(ontology)
        self._folded = _fold(self._exact)

    def find(self, label: str) -> frozenset[str]:
        """Return the ids of all concepts that a label may mean; the label itself if it is an id."""
        if label in self._ontology or label in self._ontology.deprecated:
            return frozenset([label])
        nothing: frozenset[str] = frozenset()
        return self._exact.get(label) or self._folded.get(label.strip().casefold(), nothing)


class LabelMatcher:
    """Replaces names by ids and counts them in `report`; labels in `known` stay as they are."""

    def __init__(self, names: NameIndex, known: Collection[str] = ()) -> None:
        self._names, self._known = names, known
        self.report = MatchReport()

    def match(self, labels: Sequence[str]) -> tuple[str, ...]:
        """Return the labels of a document with ids for names, each once."""
        return tuple(dict.fromkeys(map(self._match, labels)))

    def match_corpus(self, corpus: Corpus) -> Corpus:
        """Return the corpus with ids for names; the same one if all labels stay."""
        before = list(corpus.labels())
        after = [self.match(labels) for labels in before]
        return corpus.with_labels(after) if self.report.matched else corpus

    def _match(self, label: str) -> str:
        found = frozenset([label]) if label in self._known else self._names.find(label)
        if label in found:
            self.report.n_ids += 1
        elif len(found) == 1:
            self.report.matched[label] += 1
            return next(iter(found))
        elif found:
            self.report.ambiguous[label] += 1
        else:
            self.report.unknown[label] += 1
            self.report.joined.update(mark for mark in JOINTS if self._is_joined(label, mark))
        return label

    def _is_joined(self, label: str, mark: str) -> bool:
        """Return whether a label is several names of concepts with a mark between them."""
        parts = list(filter(None, map(str.strip, label.split(mark))))
        return len(parts) > 1 and all(map(self._names.find, parts))


def resolve_names(
    docs: Iterable[Doc], ontology: Ontology, source: object = "labels"
) -> Iterator[Doc]:
    """Yield the documents with concept ids as labels; log how many were matched."""
    matcher = LabelMatcher(NameIndex(ontology))
    for doc in docs:
        yield replace(doc, labels=matcher.match(doc.labels))
    matcher.report.log(source)


def match_labels(
    corpus: Corpus,
    ontology: Ontology | None,
    source: object,
    labels: LabelSpace | None = None,
) -> Corpus:
    """Return the corpus with ids for labels that are names or notations; log the counts."""
    known = () if labels is None else labels.column.keys()
    if ontology is None or all(
        label in ontology or label in known for own in corpus.labels() for label in own
    ):
        return corpus
    matcher = LabelMatcher(NameIndex(ontology), known)
    matched = matcher.match_corpus(corpus)
    matcher.report.log(source)
    return matched


_Meanings = dict[str, frozenset[str]]


def _map_names(ontology: Ontology) -> _Meanings:
    """Return name -> ids; notations have priority over preferred names, and these over synonyms."""
    notations = ((notation, label) for label, notation in ontology.notations.items())
    preferred = (
        (name, ontology.ids[row])
        for names in ontology.names.values()
        for row, name in names.items()
    )
    synonyms = (
        (name, ontology.ids[row])
        for lists in ontology.synonyms.values()
        for row, names in lists.items()
        for name in names
    )
    return {
        name: labels - ontology.deprecated or labels
        for part in (synonyms, preferred, notations)
        for name, labels in _collect(part).items()
    }


def _fold(exact: _Meanings) -> _Meanings:
    return _collect((name.casefold(), label) for name, labels in exact.items() for label in labels)


def _collect(pairs: Iterable[tuple[str, str]]) -> _Meanings:
    """Return name -> all ids of this name."""
    meanings: dict[str, set[str]] = {}
    for name, label in pairs:
        meanings.setdefault(name, set()).add(label)
    return {name: frozenset(labels) for name, labels in meanings.items()}

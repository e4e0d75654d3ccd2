"""Check a corpus: count documents and labels, and list problems with their first places.

Damaged records are listed; the check continues after them.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ontodex.corpora.field_mapping import NO_MAPPING, FieldMapping
from ontodex.corpora.label_names import NameIndex, match_labels
from ontodex.corpora.open import DocReader, ReadCounts, open_mapped, read_docs
from ontodex.errors import DataError, require
from ontodex.io.counts import format_count
from ontodex.io.files import open_atomic
from ontodex.ontology.level_table import LevelRow, format_levels, tabulate_levels
from ontodex.ontology.open import open_ontology
from ontodex.types import Doc, Ontology

BLOCK = 2**16  # characters of a text whose words are in memory at a time
SHOWN = 5  # places listed for each kind of problem

_PLURAL = re.compile(r"\b(document|label|word|record)s\b")


@dataclass
class Finding:
    """One kind of problem: its count, and the first places."""

    what: str
    count: int = 0
    places: list[str] = field(default_factory=list)

    def add(self, place: str) -> None:
        self.count += 1
        if len(self.places) < SHOWN:
            self.places.append(place)


@dataclass(frozen=True)
class CheckReport:
    """Counts, findings (only those that occurred), label frequencies, and the labels and documents
    of each level of the ontology."""

    path: Path
    format: str
    counts: dict[str, float]
    findings: list[Finding]
    frequency: dict[str, int]
    levels: list[LevelRow] = field(default_factory=list)

    @property
    def histogram(self) -> list[tuple[int, int, int]]:
        """(from, to, number of labels) by frequency, in bins 1, 2-3, 4-7, ..."""
        bins = Counter(count.bit_length() - 1 for count in self.frequency.values())
        return [(2**b, 2 ** (b + 1) - 1, bins[b]) for b in range(max(bins, default=-1) + 1)]

    def to_dict(self) -> dict[str, Any]:
        """Return the report for programs."""
        return {
            "path": str(self.path),
            "format": self.format,
            "counts": self.counts,
            "findings": [
                {"what": found.what, "count": found.count, "places": found.places}
                for found in self.findings
            ],
            "label_frequency": [
                {"from": low, "to": high, "labels": n} for low, high, n in self.histogram
            ],
            "levels": [asdict(row) for row in self.levels],
        }

    def text(self) -> str:
        """Return the report as text."""
        lines = [f"{self.path} ({self.format})", ""]
        lines += [f"{value:>12,}  {_name(value, what)}" for what, value in self.counts.items()]
        lines += ["", "labels by number of documents"] if self.frequency else []
        most = max((n for *_, n in self.histogram), default=1)
        for low, high, n in self.histogram:
            span = f"{low:,}" if low == high else f"{low:,}-{high:,}"
            lines.append(f"{span:>15} {n:>8,}  {'#' * round(40 * n / most)}".rstrip())
        lines.append("")
        for found in self.findings:
            lines.append(f"{found.count:>12,}  {_name(found.count, found.what)}")
            lines += [f"{'':14}{place}" for place in found.places]
            if found.places and found.count > len(found.places):
                lines.append(f"{'':14}and {found.count - len(found.places):,} more")
        lines += [] if self.findings else ["no problems were found"]
        lines += ["", format_levels(self.levels)] if self.levels else []
        return "\n".join(lines)

    def plot(self, path: Path | str) -> None:
        """Write a plot (PNG) of label frequencies, the most frequent label first."""
        require("matplotlib", extra="learn", purpose="the label-frequency plot")
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7, 4), layout="constrained")
        axes = figure.subplots()
        counts = np.sort(np.fromiter(self.frequency.values(), dtype=np.int64))[::-1]
        axes.plot(np.arange(1, len(counts) + 1), counts)
        if len(counts):
            axes.set_xscale("log")
            axes.set_yscale("log")
        axes.set_xlabel("labels, the most frequent first")
        axes.set_ylabel("documents with the label")
        axes.set_title(self.path.name)
        axes.grid(True, which="both", alpha=0.3)
        with open_atomic(Path(path)) as file:
            figure.savefig(file, format="png", dpi=150)


def _name(count: float, what: str) -> str:
    """Return the name of what was counted: `1 document with a label given twice`."""
    return _PLURAL.sub(r"\1", what, count=1) if count == 1 else what


def check(
    corpus: Path | str,
    ontology: Ontology | str | Path | None = None,
    against: Path | str | None = None,
    *,
    format: str | None = None,
    mapping: FieldMapping = NO_MAPPING,
) -> CheckReport:
    """Return what is wrong with a corpus file or folder, with the first places of each problem.

    ontology    also report labels that are not in it, and the labels of each of its levels
    against     a second corpus, for documents that are in both
    mapping     the columns of tables

    >>> report = ontodex.check("train.jsonl", "ontology.json", against="test.jsonl")
    >>> report.counts["documents"], report.counts["different labels"]
    (30, 2)
    >>> report.findings[-1].count, report.findings[-1].what
    (6, 'documents of test.jsonl whose text is in this corpus too')
    """
    corpus = Path(corpus)
    known = None if ontology is None else open_ontology(ontology)
    reading = read_docs(corpus, format, mapping=mapping)
    statistics = _Statistics()
    statistics.read(reading)
    if not statistics.n_docs and not statistics.damaged.count:
        raise DataError(
            "has no documents",
            path=corpus,
            hint="check whether the file is complete: it may have a header only",
        )
    findings = [
        *statistics.findings,
        statistics.unlabelled if statistics.frequency else _unlabelled_finding(reading.counts),
    ]
    if known is not None:
        findings += _check_ontology(statistics, known)
    if against is not None:
        findings += _check_leakage(statistics, read_docs(against, mapping=mapping))
    met = [found for found in findings if found.count]
    levels = [] if known is None else _tabulate_levels(corpus, format, known, mapping)
    return CheckReport(
        corpus, reading.format, statistics.summarise(), met, dict(statistics.frequency), levels
    )


def _tabulate_levels(
    corpus: Path, format: str | None, ontology: Ontology, mapping: FieldMapping
) -> list[LevelRow]:
    """Return the levels of a corpus; none where it cannot be read as a whole."""
    try:
        docs = match_labels(open_mapped(corpus, mapping, format), ontology, corpus)
        return tabulate_levels(docs, ontology)
    except DataError:  # the findings have what is damaged
        return []


def _unlabelled_finding(counts: ReadCounts) -> Finding:
    """Return the finding for a corpus without any labels, with the columns that may have them."""
    return Finding(
        "documents, none with labels: enough to index, but training and evaluation need labels",
        counts.n_docs,
        [counts.suggest_label_field()] if counts.others else [],
    )


@dataclass
class _Statistics:
    """Statistics of a corpus that the findings need."""

    ids: dict[str, str] = field(default_factory=dict)  # id -> its first place
    contents: dict[bytes, str] = field(default_factory=dict)  # digest -> place
    frequency: Counter[str] = field(default_factory=Counter)
    first_use: dict[str, str] = field(default_factory=dict)  # label -> place
    n_docs: int = 0
    n_words: int = 0
    numbered: bool = True  # ids are numbers that the reader assigned
    damaged: Finding = field(default_factory=lambda: Finding("damaged records, left out here"))
    empty: Finding = field(default_factory=lambda: Finding("documents without content"))
    same_id: Finding = field(default_factory=lambda: Finding("documents with an id met before"))
    same_text: Finding = field(default_factory=lambda: Finding("documents with a text met before"))
    twice: Finding = field(default_factory=lambda: Finding("documents with a label given twice"))
    unlabelled: Finding = field(default_factory=lambda: Finding("documents without labels"))

    @property
    def findings(self) -> list[Finding]:
        return [self.damaged, self.empty, self.same_id, self.same_text, self.twice]

    def read(self, reading: DocReader) -> None:
        """Add every document."""
        n_twice = 0
        for place, doc in read_valid(reading, self.damaged):
            self._add(place, doc)
            if reading.repairs.total() > n_twice:
                n_twice = reading.repairs.total()
                self.twice.add(place)

    def _add(self, place: str, doc: Doc) -> None:
        self.n_docs += 1
        self.numbered = self.numbered and doc.id == str(self.n_docs)
        self.n_words += count_words(doc.text)
        self.frequency.update(doc.labels)
        for label in doc.labels:
            self.first_use.setdefault(label, place)
        if not doc.labels:
            self.unlabelled.add(place)
        if (first := self.ids.setdefault(doc.id, place)) is not place:
            self.same_id.add(f"{place}, as {first}")
        content = hash_content(doc)
        if content is None:
            self.empty.add(place)
        elif (first := self.contents.setdefault(content, place)) is not place:
            self.same_text.add(f"{place}, as {first}")

    def summarise(self) -> dict[str, float]:
        """Return counts by name."""
        n_labelled, n_docs = self.n_docs - self.unlabelled.count, max(self.n_docs, 1)
        return {
            "documents": self.n_docs,
            "documents with labels": n_labelled,
            "labels": self.frequency.total(),
            "different labels": len(self.frequency),
            "labels a document": round(self.frequency.total() / n_docs, 2),
            "words": self.n_words,
            "words a document": round(self.n_words / n_docs, 1),
        }


def read_valid(reading: DocReader, damaged: Finding) -> Iterator[tuple[str, Doc]]:
    """Yield (place, document) of each valid record; add the others to `damaged`."""
    number = 0
    while True:
        number += 1
        try:
            doc = next(reading)
        except StopIteration:
            return
        except DataError as error:
            damaged.add(str(error))
            continue
        where = f"document {number:,}" if reading.line is None else f"line {reading.line:,}"
        yield f"{where} (id {doc.id!r})", doc


def count_words(text: str) -> int:
    """Count the words, in blocks: a list of all words of a long text takes many times its size."""
    total = 0
    for start in range(0, len(text), BLOCK):
        total += len(text[start : start + BLOCK].split())
        if start and not text[start - 1].isspace() and not text[start].isspace():
            total -= 1  # one word on both sides of the border
    return total


def hash_content(doc: Doc) -> bytes | None:
    """Return a hash of the content, or None for a document without text or features."""
    content = doc.text.strip() if doc.kind == "text" else str(doc.features or "")
    return hashlib.blake2b(content.encode(), digest_size=16).digest() if content else None


def _check_ontology(statistics: _Statistics, ontology: Ontology) -> list[Finding]:
    index = NameIndex(ontology)
    named = Finding("labels that are a name or notation, matched to a concept")
    ambiguous = Finding("labels that are a name or notation of several concepts")
    unknown = Finding("labels that the ontology does not have")
    deprecated = Finding("labels that the ontology calls deprecated")
    nowhere = Finding("labels without a position in the hierarchy")
    for label, count in sorted(statistics.frequency.items(), key=lambda item: (-item[1], item[0])):
        documents = format_count(count, "document")
        place = f"{label}: {documents}, first in {statistics.first_use[label]}"
        concepts = sorted(index.find(label))
        if len(concepts) != 1:
            (ambiguous if concepts else unknown).add(
                place + (f"; {', '.join(concepts)}" if concepts else "")
            )
            continue
        (concept,) = concepts
        if concept != label:
            named.add(f"{place}; {concept}")
        if concept in ontology.deprecated:
            instead = ontology.replaced_by.get(concept)
            deprecated.add(place + (f"; replaced by {instead}" if instead else ""))
        elif not _has_position(ontology, concept):
            nowhere.add(place)
    repairs = Finding("repairs that were needed to read the ontology")
    for problem in ontology.problems:
        repairs.add(problem)
    return [named, ambiguous, unknown, deprecated, nowhere, repairs]


def _has_position(ontology: Ontology, label: str) -> bool:
    if ontology.positions is not None:
        return bool(ontology.positions[ontology.index[label]])
    return bool(ontology.parents_of(label) or ontology.children_of(label))


def _check_leakage(statistics: _Statistics, other: DocReader) -> list[Finding]:
    name = other.path.name
    damaged = Finding(f"damaged records in {name}, left out here")
    same_id = Finding(f"documents of {name} whose id is in this corpus too")
    same_text = Finding(f"documents of {name} whose text is in this corpus too")
    numbered = statistics.numbered
    for number, (place, doc) in enumerate(read_valid(other, damaged), start=1):
        numbered = numbered and doc.id == str(number)
        if doc.id in statistics.ids:
            same_id.add(f"{place}, here {statistics.ids[doc.id]}")
        content = hash_content(doc)
        if content is not None and content in statistics.contents:
            same_text.add(f"{place}, here {statistics.contents[content]}")
    # Two corpora without ids are both numbered from 1, so equal numbers mean nothing.
    return [damaged, same_text] if numbered else [damaged, same_id, same_text]

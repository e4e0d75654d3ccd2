"""The label space: columns of the label matrix and their concepts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.types.corpus import Corpus
from ontodex.types.ontology import Ontology


@dataclass(frozen=True, eq=False)
class LabelSpace:
    """Column <-> concept id.

    The first `n_seen` columns are the labels of the training documents, sorted by id. After them
    come the concepts of the ontology that no training document has (frequency 0), for systems that
    use names. In an updated run, later labels come last.

    >>> labels = ontodex.LabelSpace.of(ontodex.open_corpus("train.jsonl"))
    >>> labels.ids, labels.frequency.tolist(), labels.column["oak"]
    (('fish', 'oak'), [20, 10], 1)
    """

    ids: tuple[str, ...]
    frequency: NDArray[np.int64]
    n_docs: int  # training documents in which the frequencies were counted
    ontology: Ontology | None = None

    @classmethod
    def of(
        cls, train: Corpus, ontology: Ontology | None = None, *, min_count: int = 1
    ) -> LabelSpace:
        """Take the labels of at least `min_count` training documents, then the other concepts."""
        counts = Counter(label for labels in train.labels() for label in set(labels))
        seen = sorted(label for label, count in counts.items() if count >= min_count)
        known = set(seen)
        unseen = [
            label
            for label in (ontology.ids if ontology else ())
            if label not in known and ontology is not None and label not in ontology.deprecated
        ]
        frequency = np.array([counts[label] for label in seen] + [0] * len(unseen), dtype=np.int64)
        return cls((*seen, *unseen), frequency, len(train), ontology)

    def extend(self, corpus: Corpus) -> LabelSpace:
        """Return the space after more documents: larger counts, and new labels at the end."""
        counts = Counter(label for labels in corpus.labels() for label in set(labels))
        ids = (*self.ids, *sorted(counts.keys() - self.column.keys()))
        frequency = np.array([counts[label] for label in ids], dtype=np.int64)
        frequency[: len(self)] += self.frequency
        return LabelSpace(ids, frequency, self.n_docs + len(corpus), self.ontology)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_seen(self) -> int:
        """Number of labels in training documents, which is the size of a learned output layer."""
        return int(np.count_nonzero(self.frequency))

    @cached_property
    def column(self) -> Mapping[str, int]:
        """Concept id -> column."""
        return {label: i for i, label in enumerate(self.ids)}

    def name(self, column: int, language: str | None = None) -> str:
        """Return the preferred name of a label, or its id if it has none."""
        label = self.ids[column]
        if self.ontology is not None and label in self.ontology:
            return self.ontology.name(label, language)
        return label

    def gold(self, corpus: Corpus) -> csr_array:
        """Return the matrix of true labels, (documents x columns).

        Labels outside this space get columns past the end. No ranking has these columns, so they
        count as misses in every metric.
        """
        columns = dict(self.column)
        rows = [
            sorted({columns.setdefault(label, len(columns)) for label in labels})
            for labels in corpus.labels()
        ]
        indptr = np.cumsum([0, *map(len, rows)])
        indices = np.fromiter(chain.from_iterable(rows), np.int32, count=int(indptr[-1]))
        data = np.ones(len(indices), dtype=np.int8)
        return csr_array((data, indices, indptr), shape=(len(rows), len(columns)))

    def propensity(self, a: float = 0.55, b: float = 1.5) -> NDArray[np.float64]:
        """Return the probability that a true label was observed (Jain et al. 2016)."""
        c = max(np.log(max(self.n_docs, 1)) - 1, 0) * (b + 1) ** a
        return np.asarray(1 / (1 + c * np.exp(-a * np.log(self.frequency + b))), dtype=np.float64)

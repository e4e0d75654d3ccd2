"""Rank the first labels of a consensus again, by a small model fitted on held-out documents.

    probability of the consensus, and of each member ┐
    training frequency of the label                  ├ features (n, f) ─ logistic regression ─ P
    labels that it occurs with in training           ┘ and their products

A weight for each member is the same for all labels. But a name in the text says most about a rare
label, and a classifier about a frequent one: products of features can tell. Labels after the first
ones keep their order.

The model is fitted to labels that training documents have. A concept without any is ranked as a
label of one document: in dev it is so seldom right that a model which knew it would rank it last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import logit

from ontodex.decide.calibrate import Calibration
from ontodex.evaluation.ranking import find_hits
from ontodex.io.tensors import TensorSpec, load_csr, save_csr
from ontodex.models.consensus.product_regression import ProductRegression
from ontodex.types import LabelSpace, Ranking

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FIRST = 30  # labels of a document that are ranked again
_CONTEXT = 10  # first labels whose company counts
_SMOOTH = 1.0  # documents added to those that have two labels, and to those expected to
_FLOOR = 1e-3  # least probability whose log-odds are taken
_L2 = 10.0
_FOLDS = 5
_OWN_FEATURES = 3  # besides one for each member
_TENSORS = "reranker"


@dataclass(frozen=True, eq=False)
class LabelCounts:
    """Frequencies of labels, and of pairs of labels, in the training documents."""

    frequency: Ints  # (labels,)
    pairs: csr_array  # (labels, labels): documents that have both
    n_docs: int

    @classmethod
    def of(cls, labels: LabelSpace, gold: csr_array) -> LabelCounts:
        """Count in the training documents, whose labels are `gold`."""
        known = csr_array(gold[:, : len(labels)].astype(np.float32))
        return cls(labels.frequency, csr_array(known.T @ known), labels.n_docs)

    def measure_company(self, ranking: Ranking) -> Floats:
        """Return for each rank (documents, k) how well the label goes with the first labels.

        It is the mean, over the other labels, of the logarithm of the documents that have both,
        divided by those expected by chance; weighted by the probabilities of the others. A label
        that no document has is expected in none, so its company is 0.
        """
        columns = ranking.columns.astype(np.int64)
        others, p = columns[:, :_CONTEXT], ranking.probabilities[:, :_CONTEXT].astype(np.float64)
        frequency = np.append(self.frequency, 0)  # of padding, -1, too
        other = others.T[:, :, None]  # (c, n, 1)
        shape = (other.shape[0], *columns.shape)
        # One look-up for all: it sorts nothing, but lists all pairs.
        together = look_up(
            self.pairs, np.broadcast_to(other, shape), np.broadcast_to(columns, shape)
        )
        expected = frequency[other] * frequency[columns] / max(self.n_docs, 1)
        lift = np.log((together + _SMOOTH) / (expected + _SMOOTH))
        is_other = (other != columns) & (other >= 0)
        total = (p.T[:, :, None] * np.where(is_other, lift, 0)).sum(axis=0)
        return np.asarray(total / (p.sum(axis=1, keepdims=True) + 0.1))


def look_up(matrix: csr_array, rows: Ints, columns: Ints) -> Floats:
    """Return the values of a sparse matrix at cells; 0 outside the matrix."""
    n_rows, width = matrix.shape
    matrix = csr_array(matrix)
    matrix.sort_indices()
    own = np.repeat(np.arange(n_rows, dtype=np.int64), np.diff(matrix.indptr)) * width
    keys = np.append(own + matrix.indices, n_rows * width)
    is_inside = (rows >= 0) & (rows < n_rows) & (columns >= 0) & (columns < width)
    wanted = np.where(is_inside, rows * width + columns, n_rows * width)
    at = np.searchsorted(keys, wanted)
    found = (keys[at] == wanted) & is_inside
    return np.where(found, np.append(matrix.data, 0)[at], 0).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Reranker:
    """The fitted model, and what it knows about labels."""

    counts: LabelCounts
    model: ProductRegression
    calibration: Calibration

    @classmethod
    def fit(
        cls, ranking: Ranking, members: Sequence[csr_array], gold: csr_array, counts: LabelCounts
    ) -> tuple[Self, Ranking]:
        """Fit to documents that no member was trained on.

        `ranking` is that of the consensus, `members` are the probabilities (documents, columns) of
        each member. Returns also how models of the other folds rank each document.
        """
        first = ranking.cut(FIRST)
        features = _compute_features(first, members, counts)
        is_label, hits = first.columns >= 0, find_hits(gold, first)
        is_learned = np.append(counts.frequency, 0)[first.columns] > 0  # padding is not
        fold = np.arange(len(first)) % _FOLDS
        p = np.zeros(first.columns.shape)
        for number in range(_FOLDS):
            inside = is_label & (fold == number)[:, None]
            outside = is_learned & ~inside
            model = ProductRegression.fit(features[outside], hits[outside], _L2)
            p[inside] = model.predict(features[inside])
        ranked = _replace_first(ranking, p)
        calibration = Calibration.fit(ranked, gold)
        model = ProductRegression.fit(features[is_learned], hits[is_learned], _L2)
        return cls(counts, model, calibration), calibration.apply(ranked)

    def rank(self, ranking: Ranking, members: Sequence[csr_array]) -> Ranking:
        """Return a ranking of the consensus with its first labels in the order of the model."""
        first = ranking.cut(FIRST)
        is_label = first.columns >= 0
        p = np.zeros(first.columns.shape)
        p[is_label] = self.model.predict(_compute_features(first, members, self.counts)[is_label])
        return self.calibration.apply(_replace_first(ranking, p))

    def save(self, folder: Path) -> None:
        """Write the model and the pairs of labels."""
        fields: dict[str, NDArray[Any]] = asdict(self.model)
        save_csr(folder, _TENSORS, self.counts.pairs, **fields)

    @classmethod
    def load(
        cls, folder: Path, labels: LabelSpace, n_members: int, calibration: Calibration
    ) -> Self:
        """Read what `save` wrote. The labels may have gained concepts since."""
        specs: dict[str, TensorSpec] = ProductRegression.list_specs(_OWN_FEATURES + n_members)
        shape = ("old labels", "old labels")
        pairs, fields = load_csr(folder, _TENSORS, shape, more=specs, minimum=0, maximum=2**31)
        counts = LabelCounts(labels.frequency, pairs, labels.n_docs)
        return cls(counts, ProductRegression(**fields), calibration)


def _compute_features(first: Ranking, members: Sequence[csr_array], counts: LabelCounts) -> Floats:
    """Return (documents, k, features)."""
    columns = first.columns.astype(np.int64)
    rows = np.broadcast_to(np.arange(len(columns))[:, None], columns.shape)
    joined = first.probabilities.astype(np.float64)
    p = [joined, *(look_up(member, rows, columns) for member in members)]
    features: list[Floats] = [np.asarray(logit(np.clip(one, _FLOOR, 1 - 1e-4))) for one in p]
    features.append(np.log(np.append(counts.frequency, 0)[columns] + 0.5))
    features.append(counts.measure_company(first))
    return np.stack(features, axis=2)


def _replace_first(ranking: Ranking, p: Floats) -> Ranking:
    """Return the ranking with other probabilities of the first labels; the others stay below."""
    n_first = p.shape[1]
    is_label = ranking.columns[:, :n_first] >= 0
    # A little less than the lowest: equal probabilities would be ordered by column.
    lowest = 0.999 * np.where(is_label, p, 1.0).min(axis=1, initial=1.0, keepdims=True)
    rest = ranking.probabilities[:, n_first:]
    highest = rest.max(axis=1, initial=0.0, keepdims=True)
    scale = np.divide(lowest, highest, out=np.ones_like(lowest), where=highest > lowest)
    values = np.concatenate([p, rest * np.minimum(scale, 1)], axis=1)[:, : ranking.k]
    return Ranking.sort(ranking.columns, values, ranking.k)

"""Metrics of predicted label sets: micro, per document, per label; micro P, R, F by threshold.

    MiP, MiR, MiF     over all (document, label) pairs together
    MaP, MaR          means over documents; MaF = 2 MaP MaR / (MaP + MaR) of those means
                      (Deep Level-wise XMLC, Eq. 8 to 10)
    exampleF          mean over documents of each document's F
    labelF            mean over labels of each label's F; labels that are neither true nor predicted
                      in these documents have none and are left out

A document with no predicted label has precision 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.evaluation.ranking import Numbers, count_gold_labels, find_hits
from ontodex.types import Ranking


@dataclass(frozen=True, eq=False)
class Counts:
    """Hits, predictions and true labels: one number per document, or one per label."""

    hit: NDArray[np.int64]
    predicted: NDArray[np.int64]
    gold: NDArray[np.int64]

    def precision(self) -> Numbers:
        """Return hits / predictions; 0 where nothing was predicted."""
        return self.hit / np.maximum(self.predicted, 1)

    def recall(self) -> Numbers:
        """Return hits / true labels; 0 where nothing is true (leave such rows out first)."""
        return self.hit / np.maximum(self.gold, 1)

    def f(self) -> Numbers:
        """Return the harmonic mean of precision and recall, 2 hits / (predicted + gold)."""
        return 2 * self.hit / np.maximum(self.predicted + self.gold, 1)


def count_by_document(
    gold: csr_array, label_sets: Ranking, found: NDArray[np.bool_] | None = None
) -> Counts:
    """Count per document. `found` is `find_hits(gold, label_sets)` where it is known."""
    found = find_hits(gold, label_sets) if found is None else found
    return Counts(
        found.sum(axis=1, dtype=np.int64),
        (label_sets.columns >= 0).sum(axis=1, dtype=np.int64),
        count_gold_labels(gold),
    )


def count_by_label(
    gold: csr_array, label_sets: Ranking, found: NDArray[np.bool_] | None = None
) -> Counts:
    """Count per gold column. `found` is `find_hits(gold, label_sets)` where it is known."""
    found = find_hits(gold, label_sets) if found is None else found
    width = gold.shape[1]
    columns = label_sets.columns
    return Counts(
        np.bincount(columns[found], minlength=width),
        np.bincount(columns[columns >= 0], minlength=width),
        np.bincount(gold.indices, minlength=width),
    )


def micro(counts: Counts) -> dict[str, float]:
    """Return MiP, MiR, MiF; counts by document and by label give the same."""
    total = Counts(*(np.atleast_1d(c.sum()) for c in (counts.hit, counts.predicted, counts.gold)))
    return {
        "MiP": float(total.precision()[0]),
        "MiR": float(total.recall()[0]),
        "MiF": float(total.f()[0]),
    }


def macro(counts: Counts) -> dict[str, float]:
    """Return MaP, MaR, MaF of counts by document."""
    precision, recall = float(counts.precision().mean()), float(counts.recall().mean())
    return {"MaP": precision, "MaR": recall, "MaF": harmonic_mean(precision, recall)}


def harmonic_mean(precision: float, recall: float) -> float:
    """Return 2 P R / (P + R), and 0 when both are 0."""
    return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0


def set_metrics(gold: csr_array, label_sets: Ranking) -> dict[str, float]:
    """Return every set metric by name."""
    found = find_hits(gold, label_sets)
    by_document = count_by_document(gold, label_sets, found)
    by_label = count_by_label(gold, label_sets, found)
    return {
        **micro(by_document),
        **macro(by_document),
        "exampleF": float(by_document.f().mean()),
        "labelF": label_f(by_label),
    }


def label_f(counts: Counts) -> float:
    """Return the mean F of the labels that are true or predicted somewhere."""
    occurs = counts.predicted + counts.gold > 0
    return float(counts.f()[occurs].mean()) if occurs.any() else 0.0


@dataclass(frozen=True, eq=False)
class ThresholdCurve:
    """Micro precision, recall and F of "every ranked label with probability >= threshold"."""

    threshold: Numbers
    predicted: NDArray[np.int64]  # labels at or above it, in all
    precision: Numbers
    recall: Numbers
    f: Numbers


def compute_threshold_curve(
    gold: csr_array, ranking: Ranking, found: NDArray[np.bool_] | None = None, *, steps: int = 100
) -> ThresholdCurve:
    """Return the curve at 0, 1/steps, ..., 1.

    Labels below the last rank cannot be predicted, so recall at 0 is that of the whole ranking.
    `found` is `find_hits(gold, ranking)` where it is known.
    """
    found = find_hits(gold, ranking) if found is None else found
    step_of = np.floor(ranking.probabilities.astype(np.float64) * steps).astype(np.intp)
    predicted = np.bincount(step_of[ranking.columns >= 0], minlength=steps + 1)
    hit = np.bincount(step_of[found], minlength=steps + 1)
    at_least = Counts(
        np.cumsum(hit[::-1])[::-1],
        np.cumsum(predicted[::-1])[::-1],
        np.full(steps + 1, int(gold.nnz)),
    )
    threshold = np.arange(steps + 1) / steps
    return ThresholdCurve(
        threshold, at_least.predicted, at_least.precision(), at_least.recall(), at_least.f()
    )

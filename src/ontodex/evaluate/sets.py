"""Set metrics of decided labels: micro, per document, per label; and micro P, R, F by threshold.

    MiP, MiR, MiF     all decisions in one pot
    MaP, MaR          means over documents; MaF = 2 MaP MaR / (MaP + MaR) of those means
                      (paper 000, Eq. 8 to 10)
    exampleF          mean over documents of each document's F
    labelF            mean over labels of each label's F; labels neither true nor predicted in the
                      documents at hand have none and are left out

A document with no predicted label has precision 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.evaluate.ranking import Numbers, gold_sizes, hits
from ontodex.types import Ranking


@dataclass(frozen=True, eq=False)
class Counts:
    """Hits, predictions and true labels: one number per document, or one per label."""

    hit: NDArray[np.int64]
    predicted: NDArray[np.int64]
    gold: NDArray[np.int64]

    def precision(self) -> Numbers:
        """0 where nothing was predicted."""
        return self.hit / np.maximum(self.predicted, 1)

    def recall(self) -> Numbers:
        """0 where nothing is true; leave such rows out first."""
        return self.hit / np.maximum(self.gold, 1)

    def f(self) -> Numbers:
        """Harmonic mean of precision and recall, 2 hits / (predicted + gold)."""
        return 2 * self.hit / np.maximum(self.predicted + self.gold, 1)


def count_by_document(
    gold: csr_array, decided: Ranking, found: NDArray[np.bool_] | None = None
) -> Counts:
    """One row per document. `found` is `hits(gold, decided)` where it is known."""
    found = hits(gold, decided) if found is None else found
    return Counts(
        found.sum(axis=1, dtype=np.int64),
        (decided.columns >= 0).sum(axis=1, dtype=np.int64),
        gold_sizes(gold),
    )


def count_by_label(
    gold: csr_array, decided: Ranking, found: NDArray[np.bool_] | None = None
) -> Counts:
    """One row per gold column."""
    found = hits(gold, decided) if found is None else found
    width = gold.shape[1]
    columns = decided.columns
    return Counts(
        np.bincount(columns[found], minlength=width),
        np.bincount(columns[columns >= 0], minlength=width),
        np.bincount(gold.indices, minlength=width),
    )


def micro(counts: Counts) -> dict[str, float]:
    """MiP, MiR, MiF; the same from counts by document and by label."""
    pot = Counts(*(np.atleast_1d(c.sum()) for c in (counts.hit, counts.predicted, counts.gold)))
    return {
        "MiP": float(pot.precision()[0]),
        "MiR": float(pot.recall()[0]),
        "MiF": float(pot.f()[0]),
    }


def macro(counts: Counts) -> dict[str, float]:
    """MaP, MaR, MaF of counts by document."""
    precision, recall = float(counts.precision().mean()), float(counts.recall().mean())
    return {"MaP": precision, "MaR": recall, "MaF": harmonic(precision, recall)}


def harmonic(precision: float, recall: float) -> float:
    """2 P R / (P + R), and 0 when both are 0."""
    return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0


def set_metrics(gold: csr_array, decided: Ranking) -> dict[str, float]:
    """Every set metric by name."""
    found = hits(gold, decided)
    by_document = count_by_document(gold, decided, found)
    by_label = count_by_label(gold, decided, found)
    return {
        **micro(by_document),
        **macro(by_document),
        "exampleF": float(by_document.f().mean()),
        "labelF": label_f(by_label),
    }


def label_f(counts: Counts) -> float:
    """Mean F of the labels that are true or predicted somewhere."""
    met = counts.predicted + counts.gold > 0
    return float(counts.f()[met].mean()) if met.any() else 0.0


@dataclass(frozen=True, eq=False)
class ThresholdCurve:
    """Micro precision, recall and F of "every ranked label with probability >= threshold"."""

    threshold: Numbers
    predicted: NDArray[np.int64]  # labels at or above it, in all
    precision: Numbers
    recall: Numbers
    f: Numbers


def threshold_curve(
    gold: csr_array, ranking: Ranking, found: NDArray[np.bool_] | None = None, *, steps: int = 100
) -> ThresholdCurve:
    """The curve at 0, 1/steps, ..., 1. Labels below the last rank cannot be predicted, so recall
    at 0 is that of the whole ranking. `found` is `hits(gold, ranking)` where it is known."""
    found = hits(gold, ranking) if found is None else found
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

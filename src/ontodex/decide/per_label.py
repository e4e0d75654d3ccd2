"""The rule `per-label`: a threshold for each label, tuned on dev.

Like the common threshold, they are the exact optimum on the documents they are tuned on, before
those of rare labels are shrunk towards the common one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.decide.array_json import ArrayJson, decode_array, encode_array
from ontodex.decide.entries import (
    Cuts,
    Entries,
    find_cuts,
    list_decided_entries,
    list_entries,
    mask_above,
)
from ontodex.decide.threshold import Threshold, tune_threshold
from ontodex.io.json_schema import parse_record
from ontodex.types import Ranking

if TYPE_CHECKING:
    from ontodex.decide.config import DecideConfig


@dataclass(frozen=True, eq=False)
class PerLabel:
    """All labels above the threshold of their column."""

    thresholds: NDArray[np.float64]
    default: float  # of labels without dev documents

    @classmethod
    def tune(
        cls, config: DecideConfig, ranking: Ranking, gold: csr_array, n_columns: int
    ) -> PerLabel:
        """Return the thresholds for these documents, shrunk towards the common threshold."""
        found = list_entries(ranking, gold)
        common = tune_threshold(found, gold.nnz)
        counts = np.bincount(gold.indices, minlength=n_columns)[:n_columns]
        return tune_thresholds(found, counts, config.shrink, common)

    def choose(self, ranking: Ranking) -> NDArray[np.bool_]:
        """Mark the labels above their thresholds."""
        return mask_above(ranking, self.thresholds)

    def update(
        self, ranking: Ranking, accepted: csr_array, rejected: csr_array, *, shrink: float
    ) -> PerLabel:
        """Return the thresholds that suit decisions best, shrunk towards the old thresholds.

        Labels that were accepted, and labels above their threshold that were rejected, are the
        evidence about a threshold. Other rejected labels only bound it from below.
        """
        found = list_decided_entries(ranking, accepted, rejected)
        is_evidence = found.hits | (found.probabilities > self.thresholds[found.columns])
        weights = np.bincount(found.columns[is_evidence], minlength=len(self.thresholds))
        n_accepted = int(accepted.sum())
        shifted = shift_thresholds(
            self.thresholds, found, weights, n_accepted, shrink=shrink, never_falls=True
        )
        return replace(self, thresholds=shifted)

    def extend(self, n_columns: int) -> PerLabel:
        """Return the rule with the default threshold for new labels after the others."""
        new = np.full(n_columns - len(self.thresholds), self.default)
        return replace(self, thresholds=np.append(self.thresholds, new))

    def select(self, columns: NDArray[np.int64]) -> PerLabel:
        """Return the rule for other columns; a new label (-1) gets the default threshold."""
        return replace(self, thresholds=np.append(self.thresholds, self.default)[columns])

    def to_json(self) -> dict[str, Any]:
        """Return plain values that `from_json` reads back."""
        return {"values": encode_array(self.thresholds), "start": self.default}

    @classmethod
    def from_json(cls, values: Mapping[str, Any], n_columns: int) -> PerLabel:
        """Return the rule that `to_json` described; early files do not name the default."""
        stored = parse_record(_ThresholdsJson, values, "values")
        default = _guess_default(stored.values) if stored.start is None else stored.start
        return cls(decode_array(stored.values, n_columns, np.float64), default)


@dataclass(frozen=True)
class _ThresholdsJson:
    """The rule as JSON."""

    values: ArrayJson
    start: float | None = None


def _guess_default(stored: ArrayJson) -> float:
    """Return the threshold that several labels share, else the median of all."""
    if len(stored.at) + 1 < stored.columns:
        return stored.usual
    return float(np.median([stored.usual, *stored.values]))


def tune_thresholds(
    found: Entries, gold_counts: NDArray[Any], shrink: float, common: Threshold
) -> PerLabel:
    """Return a threshold for each label, shrunk towards the common one where a label is rare.

    best_j maximises 2 hits_j - F (answers_j + gold_j), where F is the micro-F that is reached: a
    label adds to micro-F only what it gains over that rate. F and the thresholds are found in turns
    (Dinkelbach's method, which ends at the exact joint optimum). Then

        threshold_j = (n_j best_j + shrink * common) / (n_j + shrink),   n_j = gold documents of j

    A label without gold documents keeps the common threshold.
    """
    start = np.full(len(gold_counts), common.value)
    if found.hits.any():
        n_gold = int(gold_counts.sum())
        start = shift_thresholds(start, found, gold_counts, n_gold, shrink=shrink)
    return PerLabel(start, common.value)


def shift_thresholds(
    start: NDArray[np.float64],
    found: Entries,
    weights: NDArray[Any],
    n_gold: int,
    *,
    shrink: float,
    never_falls: bool = False,
) -> NDArray[np.float64]:
    """Return thresholds between `start` (weight `shrink`) and the best ones (weight of a label).

    With `never_falls`, the threshold of a label that is better never predicted does not fall.
    """
    thresholds = start.copy()
    cuts = find_cuts(found.columns, found)
    if not len(cuts.groups):
        return thresholds
    starts = np.flatnonzero(np.diff(cuts.groups, prepend=-1))
    labels = cuts.groups[starts]
    lowest = start[labels] if never_falls else np.zeros(len(labels))
    own = _best_joint_thresholds(cuts, starts, n_gold, lowest)
    weight = weights[labels]
    combined = (weight * own + shrink * start[labels]) / np.maximum(weight + shrink, 1e-300)
    thresholds[labels] = np.where(weight == 0, start[labels], combined)
    return thresholds


def _best_joint_thresholds(
    cuts: Cuts, starts: NDArray[np.int64], n_gold: int, lowest: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the thresholds of the groups with the highest common micro-F.

    A label that is better never predicted gets its highest probability, and at least `lowest`.
    """
    rate, reached = 0.0, -1.0
    while rate > reached:
        reached = rate
        gain = 2 * cuts.hits - rate * cuts.answers
        best = _first_largest(gain, starts)
        is_worth = gain[best] > 0  # else the label is better never predicted
        hits, answers = cuts.hits[best][is_worth].sum(), cuts.answers[best][is_worth].sum()
        rate = 2 * hits / max(answers + n_gold, 1)
    return np.where(is_worth, cuts.thresholds[best], np.maximum(cuts.highest[starts], lowest))


def _first_largest(values: NDArray[np.float64], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the position of the first largest value of each group."""
    lengths = np.diff(np.append(starts, len(values)))
    largest = np.repeat(np.maximum.reduceat(values, starts), lengths)
    at = np.flatnonzero(values == largest)
    groups = np.searchsorted(starts, at, side="right") - 1
    return at[np.flatnonzero(np.diff(groups, prepend=-1))]

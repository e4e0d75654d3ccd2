"""The rule `threshold`: all labels above one probability.

The threshold is the exact optimum on the documents it is tuned on: the entries are sorted once and
every cut is tried (no grid).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.decide.entries import Entries, find_cuts, list_decided_entries, list_entries
from ontodex.io.json_schema import parse_record
from ontodex.types import Ranking

if TYPE_CHECKING:
    from ontodex.decide.config import DecideConfig

NO_EVIDENCE = 0.5  # the threshold of calibrated probabilities when there is nothing to tune on


@dataclass(frozen=True)
class Threshold:
    """All labels above one probability."""

    value: float

    @classmethod
    def tune(
        cls, config: DecideConfig, ranking: Ranking, gold: csr_array, n_columns: int
    ) -> Threshold:
        """Return the threshold with the highest micro-F on these documents."""
        return tune_threshold(list_entries(ranking, gold), gold.nnz)

    def choose(self, ranking: Ranking) -> NDArray[np.bool_]:
        """Mark the labels above the threshold."""
        return np.asarray(ranking.probabilities.astype(np.float64) > self.value)

    @property
    def thresholds(self) -> NDArray[np.float64]:
        """The threshold as an array of one."""
        return np.array([self.value])

    def update(
        self, ranking: Ranking, accepted: csr_array, rejected: csr_array, *, shrink: float
    ) -> Threshold:
        """Return the threshold that suits decisions best, shrunk towards the old threshold.

        Its weight is the number of documents with a label that was accepted, or that was rejected
        and is above the threshold.
        """
        found = list_decided_entries(ranking, accepted, rejected)
        is_evidence = found.hits | (found.probabilities > self.value)
        weight = len(np.unique(found.rows[is_evidence]))
        if not weight:
            return self
        best = max(self.value, float(found.probabilities.max()))
        if found.hits.any():
            best = tune_threshold(found, int(accepted.sum())).value
        total = weight + shrink
        return Threshold((weight * best + shrink * self.value) / total)

    def extend(self, n_columns: int) -> Threshold:
        """Return the same rule: all labels have one threshold."""
        return self

    def select(self, columns: NDArray[np.int64]) -> Threshold:
        """Return the same rule: all labels have one threshold."""
        return self

    def to_json(self) -> dict[str, Any]:
        """Return plain values that `from_json` reads back."""
        return {"value": self.value}

    @classmethod
    def from_json(cls, values: Mapping[str, Any], n_columns: int) -> Threshold:
        """Return the rule that `to_json` described."""
        return parse_record(cls, values, "values")


def tune_threshold(found: Entries, n_gold: int) -> Threshold:
    """Return the threshold with the highest micro-F: 2 hits / (answers + gold labels).

    Every distinct probability is tried; among equals the highest wins (fewer labels).
    """
    cuts = find_cuts(np.zeros(len(found.columns), dtype=np.int64), found)
    if not cuts.hits.any():
        return Threshold(NO_EVIDENCE)
    best = int(np.argmax(2 * cuts.hits / (cuts.answers + n_gold)))
    return Threshold(float(cuts.thresholds[best]))

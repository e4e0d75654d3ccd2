"""Do probabilities mean what they say? Of the labels given 0.7, seven in ten should be right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.evaluate.ranking import Numbers, hits
from ontodex.types import Ranking


@dataclass(frozen=True, eq=False)
class Reliability:
    """Equal-width bins of probability: how many entries, what they claim, what came true. The last
    bin includes 1; an empty bin has 0 for both."""

    edges: Numbers
    count: NDArray[np.int64]
    claimed: Numbers  # mean probability
    true: Numbers  # share that is gold

    def error(self) -> float:
        """Expected calibration error: mean over entries of |claimed - true| of their bin."""
        entries = max(int(self.count.sum()), 1)
        return float(self.count @ np.abs(self.claimed - self.true) / entries)


def reliability(
    gold: csr_array,
    ranking: Ranking,
    found: NDArray[np.bool_] | None = None,
    *,
    k: int | None = None,
    bins: int = 10,
) -> Reliability:
    """Probabilities against hits over the first k answers of each document (all when None).
    `found` is `hits(gold, ranking)` where it is known."""
    found = hits(gold, ranking) if found is None else found
    entries = ranking.columns[:, :k] >= 0
    probability = ranking.probabilities[:, :k][entries].astype(np.float64)
    bin_of = np.minimum((probability * bins).astype(np.intp), bins - 1)
    count = np.bincount(bin_of, minlength=bins)
    claimed = np.bincount(bin_of, probability, minlength=bins) / np.maximum(count, 1)
    true = np.bincount(bin_of, found[:, :k][entries], minlength=bins) / np.maximum(count, 1)
    return Reliability(np.arange(bins + 1) / bins, count, claimed, true)


def expected_calibration_error(
    gold: csr_array, ranking: Ranking, *, k: int | None = None, bins: int = 10
) -> float:
    """ECE over the first k answers of each document."""
    return reliability(gold, ranking, k=k, bins=bins).error()

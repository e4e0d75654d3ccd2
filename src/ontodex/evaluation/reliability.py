"""Reliability of probabilities: of the labels with 0.7, seven in ten should be correct."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.evaluation.ranking import Numbers, find_hits
from ontodex.types import Ranking


@dataclass(frozen=True, eq=False)
class Reliability:
    """Equal-width bins of probability, with the entries in each and the share that is true.

    The last bin includes 1; an empty bin has 0 for `claimed` and `true`.
    """

    edges: Numbers
    count: NDArray[np.int64]
    claimed: Numbers  # mean probability
    true: Numbers  # share that is gold

    def expected_error(self) -> float:
        """Return the expected calibration error (ECE): mean over entries of |claimed - true|."""
        entries = max(int(self.count.sum()), 1)
        return float(self.count @ np.abs(self.claimed - self.true) / entries)


def measure_reliability(
    gold: csr_array,
    ranking: Ranking,
    found: NDArray[np.bool_] | None = None,
    *,
    k: int | None = None,
    bins: int = 10,
) -> Reliability:
    """Compare probabilities with hits over the first k labels of each document (all when None).

    `found` is `find_hits(gold, ranking)` where it is known.
    """
    found = find_hits(gold, ranking) if found is None else found
    entries = ranking.columns[:, :k] >= 0
    probability = ranking.probabilities[:, :k][entries].astype(np.float64)
    bin_of = np.minimum((probability * bins).astype(np.intp), bins - 1)
    count = np.bincount(bin_of, minlength=bins)
    claimed = np.bincount(bin_of, probability, minlength=bins) / np.maximum(count, 1)
    true = np.bincount(bin_of, found[:, :k][entries], minlength=bins) / np.maximum(count, 1)
    return Reliability(np.arange(bins + 1) / bins, count, claimed, true)

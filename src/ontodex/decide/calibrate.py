"""Scores into probabilities that mean what they say: of labels given 0.7, seven in ten are true.

    dev ranking, gold ─ bins of equal size ─ pool adjacent violators ─ knots ─ lines between them

The map rises strictly, so the order of labels within a document, and with it P@k, stays as it was.
It starts from a system's own score in [0, 1], whatever that is, and knows nothing else about it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.decide.threshold import entries
from ontodex.errors import RunError
from ontodex.types import Ranking

_BINS = 200
_SMALLEST_BIN = 30  # answers; fewer say too little about a share


@dataclass(frozen=True, eq=False)
class Calibration:
    """A rising line through knots (score, share of true labels) from (0, 0) to (1, 1).

    Without knots it changes nothing: that is the calibration of a system without dev documents.
    """

    scores: NDArray[np.float64]
    shares: NDArray[np.float64]

    @classmethod
    def none(cls) -> Self:
        return cls(np.empty(0), np.empty(0))

    @classmethod
    def fit(cls, ranking: Ranking, gold: csr_array) -> Self:
        """Learn from a ranking of documents the system was not trained on; of documents without
        any label there is nothing to learn."""
        if not gold.nnz:
            return cls.none()
        found = entries(ranking, gold)
        order = np.argsort(found.probabilities, kind="stable")
        scores, hits = found.probabilities[order], found.hits[order]
        size = max(_SMALLEST_BIN, len(scores) // _BINS)
        # A bin ends where the score changes: equal scores can have one probability only.
        edges = np.unique([*np.searchsorted(scores, scores[::size]), len(scores)]).tolist()
        pools: list[_Pool] = []
        for start, end in pairwise(edges):
            pool = _Pool(end - start, float(scores[start:end].sum()), int(hits[start:end].sum()), 1)
            while pools and pools[-1].share >= pool.share:
                pool = pool.join(pools.pop())
            pools.append(pool)
        kept = [pool for pool in pools if 0 < pool.score < 1]
        return cls(np.array([p.score for p in kept]), np.array([p.share for p in kept]))

    def __post_init__(self) -> None:
        for name, values in (("scores", self.scores), ("shares", self.shares)):
            padded = np.array([0.0, *values, 1.0])
            if len(self.scores) != len(self.shares) or not bool(np.all(np.diff(padded) > 0)):
                raise RunError(f"the {name} of a calibration must rise strictly between 0 and 1")

    def apply(self, ranking: Ranking) -> Ranking:
        """The same order with calibrated probabilities."""
        values = self.probability(ranking.probabilities)
        return Ranking(ranking.columns, values.astype(np.float32))

    def probability(self, scores: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """The chance that an answer with this score is true."""
        knots = np.array([0.0, *self.scores, 1.0]), np.array([0.0, *self.shares, 1.0])
        return np.asarray(np.interp(scores, *knots), dtype=np.float64)

    def to_json(self) -> dict[str, list[float]]:
        return {"scores": self.scores.tolist(), "shares": self.shares.tolist()}

    @classmethod
    def from_json(cls, table: Any) -> Self:
        """What `to_json` gave; refuses what is not a rising map."""
        try:
            scores = np.array(table["scores"], dtype=np.float64)
            return cls(scores, np.array(table["shares"], dtype=np.float64))
        except (KeyError, TypeError, ValueError) as error:
            raise RunError(f"the calibration cannot be read ({error})") from error


@dataclass(frozen=True)
class _Pool:
    """Neighbouring answers that get one knot."""

    count: int
    total: float  # of the scores
    hits: int
    bins: int

    @property
    def score(self) -> float:
        return self.total / self.count

    @property
    def share(self) -> float:
        """Half a hit and half a miss a bin are added, so that no share is 0 or 1."""
        return (self.hits + self.bins / 2) / (self.count + self.bins)

    def join(self, other: _Pool) -> _Pool:
        return _Pool(
            self.count + other.count,
            self.total + other.total,
            self.hits + other.hits,
            self.bins + other.bins,
        )


__all__ = ["Calibration"]

"""Calibration by isotonic regression: of labels with a probability of 0.7, seven in ten are true.

    dev ranking, gold - bins of equal size - pool adjacent violators - knots - lines between them

The map rises strictly, so the order of labels within a document, and with it P@k, does not change.
Its input is a system's own score in [0, 1], whatever its meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.decide.entries import list_entries
from ontodex.errors import RunError
from ontodex.io.json_schema import parse_record
from ontodex.types import Ranking

_BINS = 200
_SMALLEST_BIN = 30  # entries; fewer give no reliable share


@dataclass(frozen=True, eq=False)
class Calibration:
    """A rising line through knots (score, share of true labels) from (0, 0) to (1, 1).

    Without knots it is the identity: the calibration of a system without dev documents.
    """

    scores: NDArray[np.float64]
    shares: NDArray[np.float64]

    @classmethod
    def identity(cls) -> Self:
        """Return the calibration that changes nothing."""
        return cls(np.empty(0), np.empty(0))

    @classmethod
    def fit(cls, ranking: Ranking, gold: csr_array) -> Self:
        """Fit to a ranking of documents that the system was not trained on.

        Without any gold label it is the identity.
        """
        if not gold.nnz:
            return cls.identity()
        found = list_entries(ranking, gold)
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
        """Return the ranking in the same order with calibrated probabilities."""
        values = self.calibrate(ranking.probabilities)
        return Ranking(ranking.columns, values.astype(np.float32))

    def calibrate(self, scores: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Return the probability that a label with this score is true."""
        knots = np.array([0.0, *self.scores, 1.0]), np.array([0.0, *self.shares, 1.0])
        return np.asarray(np.interp(scores, *knots), dtype=np.float64)

    def to_json(self) -> dict[str, list[float]]:
        """Return plain values that `from_json` reads back."""
        return {"scores": self.scores.tolist(), "shares": self.shares.tolist()}

    @classmethod
    def from_json(cls, table: Any) -> Self:
        """Read what `to_json` wrote; refuse a map that does not rise."""
        knots = parse_record(_Knots, table, "calibration")
        return cls(np.array(knots.scores), np.array(knots.shares))


@dataclass(frozen=True)
class _Knots:
    """A calibration as JSON."""

    scores: tuple[float, ...]
    shares: tuple[float, ...]


@dataclass(frozen=True)
class _Pool:
    """Neighbouring entries that get one knot."""

    count: int
    total: float  # of the scores
    hits: int
    bins: int

    @property
    def score(self) -> float:
        """The mean score."""
        return self.total / self.count

    @property
    def share(self) -> float:
        """The share of true labels, with half a hit and half a miss per bin, so never 0 or 1."""
        return (self.hits + self.bins / 2) / (self.count + self.bins)

    def join(self, other: _Pool) -> _Pool:
        """Return one pool with the entries of both."""
        return _Pool(
            self.count + other.count,
            self.total + other.total,
            self.hits + other.hits,
            self.bins + other.bins,
        )

"""The set with the highest expected F for each document, from calibrated probabilities.

With independent labels the best set of size s is the s most probable ones (Lewis 1995), so only the
size is searched. For a set of size s with a hits, and b true labels left outside,

    E[F] = sum over a of 2a P(a hits in the first s) E[1 / (s + a + b)]

Both factors follow from one label to the next (Ye et al. 2012, quadratic in the ranks):

    P_s(a)  = p_s P_{s-1}(a - 1) + (1 - p_s) P_{s-1}(a)           forwards,  P_0 = [1]
    S_s(w)  = E[1 / (w + b)],  S_{s-1}(w) = p_s S_s(w + 1) + (1 - p_s) S_s(w)    backwards,
                               S_k(w) = 1 / w
F of an empty set is 0; labels outside the ranking have probability 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ontodex.types import Ranking

BATCH = 256  # documents at a time: (256, k, k) numbers


@dataclass(frozen=True)
class ExpectedF:
    """Nothing is learned: the probabilities decide."""

    def choose(self, ranking: Ranking) -> NDArray[np.bool_]:
        sizes = np.concatenate(
            [
                best_sizes(ranking.probabilities[start : start + BATCH].astype(np.float64))
                for start in range(0, len(ranking), BATCH)
            ]
            or [np.empty(0, dtype=np.int64)]
        )
        return np.asarray(np.arange(ranking.k) < sizes[:, None])


def best_sizes(p: NDArray[np.float64]) -> NDArray[np.int64]:
    """How many of the first labels of each row (probabilities falling) give the highest E[F]."""
    p = p[:, : int((p > 0).sum(axis=1).max(initial=0))]
    values = expected(p)
    # A row's trailing zeros never help, and the smallest of equally good sizes is taken.
    best = values.argmax(axis=1) + 1 if values.shape[1] else np.zeros(len(p), dtype=np.int64)
    return np.where((p > 0).any(axis=1), best, 0)


def expected(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """E[F] of the first s labels, for s = 1 ... k: (documents x k)."""
    n, k = p.shape
    hits = _hit_distributions(p)
    values = np.empty((n, k))
    w = np.arange(1, 2 * k + 2, dtype=np.float64)
    inverse = np.broadcast_to(1 / w, (n, 2 * k + 1))  # S_s(w) at w - 1
    for s in range(k, 0, -1):
        a = np.arange(s + 1)
        values[:, s - 1] = 2 * np.einsum("na,na->n", hits[s] * a, inverse[:, s - 1 : 2 * s])
        chance = p[:, s - 1, None]
        inverse = chance * inverse[:, 1:] + (1 - chance) * inverse[:, :-1]
    return values


def _hit_distributions(p: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """For s = 0 ... k the chances of 0 ... s hits among the first s labels."""
    tables = [np.ones((len(p), 1))]
    for s in range(p.shape[1]):
        chance = p[:, s, None]
        grown = np.zeros((len(p), s + 2))
        grown[:, :-1] = (1 - chance) * tables[-1]
        grown[:, 1:] += chance * tables[-1]
        tables.append(grown)
    return tables

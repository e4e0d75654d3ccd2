"""The rule `expected-f`: the set with the highest expected F, from calibrated probabilities.

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

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.types import Ranking

if TYPE_CHECKING:
    from ontodex.decide.config import DecideConfig

BATCH = 256  # documents at a time: (256, k, k) numbers


@dataclass(frozen=True)
class ExpectedF:
    """The set with the highest expected F; nothing is tuned."""

    @classmethod
    def tune(
        cls, config: DecideConfig, ranking: Ranking, gold: csr_array, n_columns: int
    ) -> ExpectedF:
        """Return the rule: the probabilities alone decide."""
        return cls()

    def choose(self, ranking: Ranking) -> NDArray[np.bool_]:
        """Mark the labels of the set with the highest expected F of each document."""
        sizes = np.concatenate(
            [
                best_set_sizes(ranking.probabilities[start : start + BATCH].astype(np.float64))
                for start in range(0, len(ranking), BATCH)
            ]
            or [np.empty(0, dtype=np.int64)]
        )
        return np.asarray(np.arange(ranking.k) < sizes[:, None])

    def extend(self, n_columns: int) -> ExpectedF:
        """Return the same rule: it does not depend on the labels."""
        return self

    def select(self, columns: NDArray[np.int64]) -> ExpectedF:
        """Return the same rule: it does not depend on the labels."""
        return self

    def to_json(self) -> dict[str, Any]:
        """Return no values: there are none."""
        return {}

    @classmethod
    def from_json(cls, values: Mapping[str, Any], n_columns: int) -> ExpectedF:
        """Return the rule."""
        return cls()


def best_set_sizes(p: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return how many of the first labels of each row give the highest E[F].

    Probabilities fall along a row. Among equally good sizes the smallest wins.
    """
    p = p[:, : int((p > 0).sum(axis=1).max(initial=0))]
    values = expected_f(p)
    # Trailing zeros of a row never raise E[F].
    best = values.argmax(axis=1) + 1 if values.shape[1] else np.zeros(len(p), dtype=np.int64)
    return np.where((p > 0).any(axis=1), best, 0)


def expected_f(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return E[F] of the first s labels, for s = 1 ... k: (documents x k)."""
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
    """Return, for s = 0 ... k, the probabilities of 0 ... s hits among the first s labels."""
    tables = [np.ones((len(p), 1))]
    for s in range(p.shape[1]):
        chance = p[:, s, None]
        table = np.zeros((len(p), s + 2))
        table[:, :-1] = (1 - chance) * tables[-1]
        table[:, 1:] += chance * tables[-1]
        tables.append(table)
    return tables

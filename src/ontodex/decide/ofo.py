"""Online F-measure optimisation: a threshold for each label that learns document by document.

Paper 000, section 2.1.4, Eq. 2. For each label, over the documents in their order:

    yhat = [probability > lambda]
    alpha += y yhat        beta += y + yhat        lambda = alpha / beta   (kept while beta = 0)

That is the paper, and `prior` = 0. But then one miss makes lambda 0, a label met a few times is
handed to every document that ranks it at all, and thousands of labels are met a few times. With a
prior,

    lambda = (alpha + prior first) / (beta + prior)

as if that many decisions had already confirmed the first lambda.

A pass restarts alpha and beta and keeps the lambda the last one ended with. At the best threshold
F = 2 lambda, so lambda follows half the F that is being reached. The state is three numbers a
label, and curators' accepts and rejects go on from it (`update`).

Labels do not touch each other, and a document where a label has probability 0 and is not true
changes nothing (lambda is never negative). So only the other (document, label) pairs are visited,
the first of every label together, then the second of every label, and so on: the same numbers as
the loop over documents, exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.decide.threshold import above, entries, pairs
from ontodex.types import PADDING, Ranking


@dataclass(frozen=True, eq=False)
class OFO:
    """The thresholds and what they were counted from, one number a column."""

    first: float
    prior: float
    thresholds: NDArray[np.float64]
    alpha: NDArray[np.int64]
    beta: NDArray[np.int64]

    @classmethod
    def new(cls, n_columns: int, first: float, *, prior: float = 0.0) -> OFO:
        """The state before the first document."""
        none = np.zeros(n_columns, dtype=np.int64)
        return cls(first, prior, np.full(n_columns, first), none, none)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything, for a file; `of_arrays` takes it back."""
        numbers = np.array([self.first, self.prior])
        return {
            "thresholds": self.thresholds, "alpha": self.alpha, "beta": self.beta, "start": numbers
        }  # fmt: skip

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> OFO:
        first, prior = arrays["start"].tolist()
        return cls(first, prior, arrays["thresholds"], arrays["alpha"], arrays["beta"])

    def widened(self, n_columns: int) -> OFO:
        """The same with new labels after the others, as before their first document."""
        new = OFO.new(n_columns - len(self.thresholds), self.first, prior=self.prior)
        return replace(
            self,
            thresholds=np.append(self.thresholds, new.thresholds),
            alpha=np.append(self.alpha, new.alpha),
            beta=np.append(self.beta, new.beta),
        )

    def choose(self, ranking: Ranking) -> NDArray[np.bool_]:
        return above(ranking, self.thresholds)

    def passes(self, ranking: Ranking, gold: csr_array, n: int) -> OFO:
        """The state after n passes over documents whose labels are fully known."""
        state, events = self, _events(ranking, gold, len(self.thresholds))
        none = np.zeros_like(self.alpha)
        for _ in range(n):
            state, _ = replace(state, alpha=none, beta=none)._replay(events)
        return state

    def stream(self, ranking: Ranking, gold: csr_array) -> tuple[OFO, NDArray[np.bool_]]:
        """The state after more documents whose labels are fully known, in the same pass, and which
        of their answers were chosen: each by the threshold that the documents before it left."""
        n_columns = len(self.thresholds)
        events = _events(ranking, gold, n_columns)
        after, chosen = self._replay(events)
        pairs_of = np.arange(len(ranking))[:, None] * n_columns + ranking.columns
        kept = np.isin(pairs_of, events.pairs[chosen]) & (ranking.columns != PADDING)
        return after, kept

    def update(self, ranking: Ranking, accepted: csr_array, rejected: csr_array) -> OFO:
        """The state after more documents, of which only some labels were judged.

        A label that is neither accepted nor rejected says nothing. Rows are in the order in which
        the judgements came.
        """
        judged = csr_array(accepted + rejected)
        return self._replay(_events(ranking, accepted, len(self.thresholds), judged))[0]

    def _replay(self, events: _Events) -> tuple[OFO, NDArray[np.bool_]]:
        """The state after some events, and which of them were chosen."""
        chosen = np.zeros(len(events.y), dtype=bool)
        alpha, beta = self.alpha[events.labels], self.beta[events.labels]
        threshold = self.thresholds[events.labels].copy()
        for start, end in zip(events.steps[:-1], events.steps[1:], strict=True):
            now = slice(0, end - start)  # labels are by falling number of events
            y = events.y[start:end]
            yhat = chosen[start:end] = events.probabilities[start:end] > threshold[now]
            alpha[now] += y & yhat
            beta[now] += y
            beta[now] += yhat
            np.divide(
                alpha[now] + self.prior * self.first,
                beta[now] + self.prior,
                out=threshold[now],
                where=beta[now] > 0,
            )
        after = replace(
            self,
            thresholds=self.thresholds.copy(),
            alpha=self.alpha.copy(),
            beta=self.beta.copy(),
        )
        after.thresholds[events.labels] = threshold
        after.alpha[events.labels], after.beta[events.labels] = alpha, beta
        return after, chosen


@dataclass(frozen=True, eq=False)
class _Events:
    """(document, label) pairs, the first of every label, then the second of every label, ..."""

    labels: NDArray[np.int64]  # columns by falling number of events
    steps: NDArray[np.int64]  # where the n-th events start; a step holds the first labels in order
    pairs: NDArray[np.int64]  # document times the number of columns, plus label
    probabilities: NDArray[np.float64]
    y: NDArray[np.bool_]


def _events(
    ranking: Ranking, gold: csr_array, n_columns: int, judged: csr_array | None = None
) -> _Events:
    """All pairs that can change a threshold; with `judged`, only those of them that were judged."""
    found = entries(ranking, gold)
    ranked = found.rows * n_columns + found.columns
    missed = np.setdiff1d(pairs(gold, n_columns), ranked[found.hits])  # true, with probability 0
    seen = slice(None) if judged is None else np.isin(ranked, pairs(judged, n_columns))
    keys = np.concatenate([ranked[seen], missed])
    probabilities = np.concatenate([found.probabilities[seen], np.zeros(len(missed))])
    y = np.concatenate([found.hits[seen], np.ones(len(missed), dtype=bool)])

    rows, columns = np.divmod(keys, n_columns)
    counts = np.bincount(columns, minlength=n_columns)
    labels = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    place = np.empty(n_columns, dtype=np.int64)
    place[labels] = np.arange(len(labels))
    # Step s holds the s-th event of each label that has one, and these labels are a prefix.
    sizes = np.searchsorted(-counts[labels], -np.arange(counts.max(initial=0)))
    steps = np.concatenate([[0], np.cumsum(sizes)])
    order = np.argsort(columns * len(ranking) + rows)
    step = np.arange(len(keys)) - np.repeat(np.cumsum(counts) - counts, counts)
    at = np.empty(len(keys), dtype=np.int64)
    at[steps[step] + place[columns[order]]] = order
    return _Events(labels, steps, keys[at], probabilities[at], y[at])

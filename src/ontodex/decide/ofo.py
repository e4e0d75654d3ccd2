"""Online F-measure optimisation: a threshold for each label that learns document by document.

Deep Level-wise XMLC, section 2.1.4, Eq. 2. For each label, over the documents in their order:

    yhat = [probability > lambda]
    alpha += y yhat        beta += y + yhat        lambda = alpha / beta   (kept while beta = 0)

That is the paper, and `prior` = 0. But then one miss makes lambda 0. A label with few documents is
predicted for every document that ranks it, and thousands of labels have few documents. With a prior

    lambda = (alpha + prior first) / (beta + prior)

as if that many decisions had already confirmed the first lambda.

A pass restarts alpha and beta and keeps the last lambda of the pass before. At the best threshold
F = 2 lambda, so lambda follows half the F that is reached. The state is three numbers per label,
and `update` continues from it with curators' decisions.

Labels are independent, and a document where a label has probability 0 and is not true changes
nothing (lambda is never negative). So only the other (document, label) pairs are visited: the first
of every label together, then the second of every label, and so on. The numbers are exactly those of
the loop over documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.decide.array_json import ArrayJson, decode_array, encode_array
from ontodex.decide.entries import encode_pairs, list_entries, mask_above
from ontodex.decide.threshold import tune_threshold
from ontodex.io.json_schema import parse_record
from ontodex.types import PADDING, Ranking

if TYPE_CHECKING:
    from ontodex.decide.config import DecideConfig


@dataclass(frozen=True, eq=False)
class OFO:
    """The thresholds and their counts, one number per column."""

    first: float
    prior: float
    thresholds: NDArray[np.float64]
    alpha: NDArray[np.int64]
    beta: NDArray[np.int64]

    @classmethod
    def start(cls, n_columns: int, first: float, *, prior: float = 0.0) -> OFO:
        """Return the state before the first document."""
        none = np.zeros(n_columns, dtype=np.int64)
        return cls(first, prior, np.full(n_columns, first), none, none)

    @classmethod
    def tune(cls, config: DecideConfig, ranking: Ranking, gold: csr_array, n_columns: int) -> OFO:
        """Return the state after the passes over these documents.

        With a prior it starts from the common threshold of these documents, else from the setting.
        """
        first = config.first_lambda
        if config.prior:
            first = tune_threshold(list_entries(ranking, gold), gold.nnz).value
        start = cls.start(n_columns, first, prior=config.prior)
        return start.run_passes(ranking, gold, config.passes)

    def to_json(self) -> dict[str, Any]:
        """Return plain values that `from_json` reads back."""
        arrays = {"thresholds": self.thresholds, "alpha": self.alpha, "beta": self.beta}
        encoded = {name: encode_array(array) for name, array in arrays.items()}
        return {"first": self.first, "prior": self.prior, **encoded}

    @classmethod
    def from_json(cls, values: Mapping[str, Any], n_columns: int) -> OFO:
        """Return the state that `to_json` described."""
        stored = parse_record(_OFOJson, values, "values")
        return cls(
            stored.first,
            stored.prior,
            decode_array(stored.thresholds, n_columns, np.float64),
            decode_array(stored.alpha, n_columns, np.int64),
            decode_array(stored.beta, n_columns, np.int64),
        )

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as arrays, for a file; `from_arrays` reads it back."""
        numbers = np.array([self.first, self.prior])
        return {
            "thresholds": self.thresholds, "alpha": self.alpha, "beta": self.beta, "start": numbers
        }  # fmt: skip

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> OFO:
        """Return the state that `to_arrays` described."""
        first, prior = arrays["start"].tolist()
        return cls(first, prior, arrays["thresholds"], arrays["alpha"], arrays["beta"])

    def extend(self, n_columns: int) -> OFO:
        """Return the state with new labels after the others, before their first document."""
        new = OFO.start(n_columns - len(self.thresholds), self.first, prior=self.prior)
        return replace(
            self,
            thresholds=np.append(self.thresholds, new.thresholds),
            alpha=np.append(self.alpha, new.alpha),
            beta=np.append(self.beta, new.beta),
        )

    def select(self, columns: NDArray[np.int64]) -> OFO:
        """Return the state for other columns; a new label (-1) is before its first document."""
        extended = self.extend(len(self.thresholds) + 1)  # the last one is at -1
        return replace(
            extended,
            thresholds=extended.thresholds[columns],
            alpha=extended.alpha[columns],
            beta=extended.beta[columns],
        )

    def choose(self, ranking: Ranking) -> NDArray[np.bool_]:
        """Mark the labels above their thresholds."""
        return mask_above(ranking, self.thresholds)

    def run_passes(self, ranking: Ranking, gold: csr_array, n: int) -> OFO:
        """Return the state after n passes over documents whose labels are all known."""
        state, events = self, _list_events(ranking, gold, len(self.thresholds))
        none = np.zeros_like(self.alpha)
        for _ in range(n):
            state, _ = replace(state, alpha=none, beta=none)._replay(events)
        return state

    def choose_and_learn(self, ranking: Ranking, gold: csr_array) -> tuple[OFO, NDArray[np.bool_]]:
        """Continue the pass with more documents whose labels are all known.

        Return the state after them, and a mask of the labels that were chosen, each by the
        threshold after the documents before it.
        """
        n_columns = len(self.thresholds)
        events = _list_events(ranking, gold, n_columns)
        after, chosen = self._replay(events)
        ranked = np.arange(len(ranking))[:, None] * n_columns + ranking.columns
        kept = np.isin(ranked, events.pairs[chosen]) & (ranking.columns != PADDING)
        return after, kept

    def update(
        self, ranking: Ranking, accepted: csr_array, rejected: csr_array, *, shrink: float = 0.0
    ) -> OFO:
        """Return the state after more documents, of which only some labels were decided.

        A label that is neither accepted nor rejected changes nothing. Rows are in the order of the
        decisions. The prior keeps thresholds where they were, so `shrink` plays no part.
        """
        decided = csr_array(accepted + rejected)
        return self._replay(_list_events(ranking, accepted, len(self.thresholds), decided))[0]

    def _replay(self, events: _Events) -> tuple[OFO, NDArray[np.bool_]]:
        """Return the state after some events, and a mask of those that were chosen."""
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


@dataclass(frozen=True)
class _OFOJson:
    """The rule as JSON."""

    first: float
    prior: float
    thresholds: ArrayJson
    alpha: ArrayJson
    beta: ArrayJson

    def __post_init__(self) -> None:
        if self.prior < 0:
            raise ValueError(f"prior must not be negative, not {self.prior}")


@dataclass(frozen=True, eq=False)
class _Events:
    """(document, label) pairs, the first of every label, then the second of every label, ..."""

    labels: NDArray[np.int64]  # columns by falling number of events
    steps: NDArray[np.int64]  # start of the n-th events; a step holds a prefix of the labels
    pairs: NDArray[np.int64]  # document * number of columns + label
    probabilities: NDArray[np.float64]
    y: NDArray[np.bool_]


def _list_events(
    ranking: Ranking, gold: csr_array, n_columns: int, decided: csr_array | None = None
) -> _Events:
    """Return all pairs that can change a threshold; with `decided`, only those in it."""
    found = list_entries(ranking, gold)
    ranked = found.rows * n_columns + found.columns
    # Labels that are true but not in the ranking, with probability 0.
    missed = np.setdiff1d(encode_pairs(gold, n_columns), ranked[found.hits])
    seen: slice | NDArray[np.bool_] = slice(None)
    if decided is not None:
        seen = np.isin(ranked, encode_pairs(decided, n_columns))
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

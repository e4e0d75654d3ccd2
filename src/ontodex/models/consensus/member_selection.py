"""Choose the members of a consensus and their weights by nDCG@5 on held-out documents.

    probabilities of each candidate ─ one table of candidate labels (members, documents, labels)
        ─ add the member that helps most, until none does ─ adjust the weights ─ `Selection`

The documents must be ones that no candidate was trained on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.evaluation.ranking import count_gold_labels, ndcg, score_documents
from ontodex.models.consensus.joins import JOINS, Join, compute_evidence
from ontodex.models.interface import Model
from ontodex.types import Corpus, Ranking

Floats = NDArray[np.float64]

WEIGHTS = (0.25, 0.5, 1.0, 2.0, 4.0)  # tried for a member; the first one starts with 1
MIN_GAIN = 0.0005  # of nDCG@5: a member that adds less is left out
_CUT = 5
_LARGEST = 40.0  # evidence; Eq. 9 has infinity for P = 1
_TIMED_DOCUMENTS = 10


@dataclass(frozen=True, eq=False)
class CandidateTable:
    """The labels that any member ranks for a document, side by side for all members.

    probabilities   (members, documents, width): 0 where a member does not rank the label
    is_gold         (documents, width): the true ones
    is_known        (members, documents, width): the member has the label; None = all have all
    """

    probabilities: NDArray[np.float32]
    is_gold: NDArray[np.bool_]
    n_gold: NDArray[np.int64]
    is_known: NDArray[np.float32] | None = None

    @classmethod
    def of(
        cls,
        members: Sequence[csr_array],
        gold: csr_array,
        has_label: NDArray[np.bool_] | None = None,
    ) -> CandidateTable:
        """Align the members' probabilities, each (documents, columns) in common columns."""
        n_docs, n_columns = members[0].shape
        keys = [_list_cells(member, n_columns) for member in members]
        cells = np.unique(np.concatenate([np.empty(0, np.int64), *keys]))
        rows, columns = np.divmod(cells, n_columns)
        starts = np.searchsorted(rows, np.arange(n_docs))
        places = np.arange(len(cells)) - starts[rows]
        width = max(_CUT, int(places.max(initial=-1)) + 1)
        values = np.zeros((len(members), n_docs, width), np.float32)
        for number, (member, own) in enumerate(zip(members, keys, strict=True)):
            at = np.searchsorted(cells, own)
            values[number, rows[at], places[at]] = member.data
        is_gold = np.zeros((n_docs, width), bool)
        gold_cells = _list_cells(gold, n_columns, past_end=True)
        is_gold[rows, places] = np.isin(cells, gold_cells)
        known = None
        if has_label is not None and not has_label.all():
            known = np.ones((len(members), n_docs, width), np.float32)
            known[:, rows, places] = has_label[:, columns]
        return cls(values, is_gold, count_gold_labels(gold), known)

    def __len__(self) -> int:
        return len(self.probabilities)


def _list_cells(matrix: csr_array, width: int, *, past_end: bool = False) -> NDArray[np.int64]:
    """Return row * width + column of every entry; entries past the width are left out."""
    rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
    inside = matrix.indices < width if past_end else slice(None)
    return np.asarray(rows[inside] * width + matrix.indices[inside])


@dataclass(frozen=True, eq=False)
class JoinedScores:
    """nDCG@5 of any weights under one join."""

    table: CandidateTable
    join: Join

    @cached_property
    def _evidence(self) -> NDArray[np.float32]:
        values = compute_evidence(self.table.probabilities, self.join)  # type: ignore[arg-type]
        return np.minimum(values, _LARGEST).astype(np.float32)

    def score(self, weights: Floats) -> float:
        """Return the mean nDCG@5 over the documents that have gold labels."""
        used = np.flatnonzero(weights)
        few = weights[used].astype(np.float32)
        total = np.tensordot(few, self._evidence[used], axes=1)
        if self.table.is_known is not None and self.join != "any":
            known = np.tensordot(few, self.table.is_known[used], axes=1)
            total = np.divide(total, known, out=np.zeros_like(total), where=known > 0)
        best = np.argpartition(-total, _CUT - 1, axis=1)[:, :_CUT]
        values = np.take_along_axis(total, best, axis=1)
        best = np.take_along_axis(best, np.argsort(-values, axis=1, kind="stable"), axis=1)
        is_ranked = np.take_along_axis(total, best, axis=1) > 0
        found = np.take_along_axis(self.table.is_gold, best, axis=1) & is_ranked
        scores = ndcg(_CUT, found, self.table.n_gold)
        return float(np.nanmean(scores)) if np.any(self.table.n_gold) else 0.0


@dataclass(frozen=True)
class Step:
    """One addition: the member, its first weight, and nDCG@5 after it."""

    member: int
    weight: float
    score: float
    gain: float


@dataclass(frozen=True)
class Selection:
    """The chosen members (weight above 0), how they are joined, and how they were found."""

    join: Join
    weights: tuple[float, ...]  # one for each candidate; 0 = left out
    score: float  # nDCG@5
    alone: tuple[float, ...]  # nDCG@5 of each candidate by itself
    without: tuple[float, ...]  # nDCG@5 of the others, without this member; `score` if left out
    steps: tuple[Step, ...]
    too_slow: tuple[int, ...] = ()  # candidates that no longer fit the latency

    @property
    def chosen(self) -> list[int]:
        return [member for member, weight in enumerate(self.weights) if weight > 0]

    def describe(self, names: Sequence[str]) -> list[str]:
        """Return one line for each candidate: its figure alone, its weight, what it adds."""
        lines = []
        order = [step.member for step in self.steps]
        rest = [member for member in range(len(names)) if member not in order]
        width = max(map(len, names))
        for member in [*order, *rest]:
            alone, weight = 100 * self.alone[member], self.weights[member]
            added = 100 * (self.score - self.without[member])
            if weight > 0:
                fate = f"weight {weight:g}, adds {added:.2f}"
            elif member in self.too_slow:
                fate = "left out: too slow for the latency that is left"
            else:
                fate = f"left out: adds less than {100 * MIN_GAIN:.2f}"
            lines.append(f"{names[member]:{width}}  nDCG@5 {alone:5.2f} alone; {fate}")
        return lines


def select_members(
    table: CandidateTable,
    *,
    joins: Sequence[Join] = JOINS,
    latencies: Sequence[float] = (),
    max_latency: float = 0.0,
) -> Selection:
    """Return the members and weights with the best nDCG@5, over the given joins.

    With `max_latency`, the latencies of the members may not add up to more, in the same unit. If no
    candidate is fast enough, the fastest one is taken.
    """
    costs = np.array(latencies if max_latency else [0.0] * len(table))
    limit = max(max_latency, float(costs.min()))
    found = [_select(JoinedScores(table, join), costs, limit) for join in joins]
    return max(found, key=lambda selection: selection.score)  # the first of equals


def _select(scores: JoinedScores, costs: Floats, limit: float) -> Selection:
    n_members = len(scores.table)
    alone = [scores.score(row) for row in np.eye(n_members)]
    weights, steps = np.zeros(n_members), list[Step]()
    best = 0.0
    while step := _find_addition(scores, weights, best, costs, limit):
        weights[step.member] = step.weight
        best = step.score
        steps.append(step)
    weights, best = tune_weights(scores, weights, grid=(0.0, *WEIGHTS))
    spent = float(costs[weights > 0].sum())
    without = [scores.score(_drop(weights, m)) if weights[m] else best for m in range(n_members)]
    return Selection(
        scores.join,
        tuple(weights.tolist()),
        best,
        tuple(alone),
        tuple(without),
        tuple(steps),
        tuple(np.flatnonzero((weights == 0) & (spent + costs > limit)).tolist()),
    )


def _drop(weights: Floats, member: int) -> Floats:
    rest = weights.copy()
    rest[member] = 0
    return rest


def _find_addition(
    scores: JoinedScores, weights: Floats, before: float, costs: Floats, limit: float
) -> Step | None:
    """Return the best member to add with its best weight; None where none helps enough."""
    is_first = not weights.any()
    best: Step | None = None
    for member in np.flatnonzero(weights == 0).tolist():
        if costs[weights > 0].sum() + costs[member] > limit:
            continue
        for weight in (1.0,) if is_first else WEIGHTS:
            tried = weights.copy()
            tried[member] = weight
            score = scores.score(tried)
            if best is None or score > best.score:
                best = Step(member, weight, score, score - before)
    return best if best is not None and (is_first or best.gain >= MIN_GAIN) else None


def tune_weights(
    scores: JoinedScores, weights: Floats, grid: Sequence[float]
) -> tuple[Floats, float]:
    """Return better weights of the members in use, by coordinate ascent, and their nDCG@5."""
    best, best_score = weights.copy(), scores.score(weights)
    in_use = np.flatnonzero(weights)
    has_changed = True
    while has_changed:
        has_changed = False
        for member in in_use:
            for weight in grid:
                tried = best.copy()
                tried[member] = weight
                if tried.any() and (score := scores.score(tried)) > best_score:
                    best, best_score, has_changed = tried, score, True
    return best, best_score


def measure_ndcg(gold: csr_array, ranking: Ranking) -> float:
    """Return the mean nDCG@5 over the documents that have gold labels."""
    return float(np.nanmean(score_documents(ndcg, _CUT, gold, ranking))) if gold.nnz else 0.0


def measure_latency(model: Model, corpus: Corpus) -> float:
    """Return the median seconds that a system needs to rank one document by itself."""
    docs = [corpus.select([row]) for row in range(min(_TIMED_DOCUMENTS, len(corpus)))]
    seconds = []
    for doc in docs[:1] + docs:  # the first one twice: caches are cold at first
        started = time.perf_counter()
        model.rank(doc, 10)
        seconds.append(time.perf_counter() - started)
    return float(np.median(seconds[1:])) if seconds[1:] else 0.0

"""From the levels' probabilities to label sets: OFO at each level, and the plain ways to merge.

OFO (section 2.1.4, Eq. 2) runs over the training documents' out-of-fold predictions;
`threshold` keeps what is above its label's lambda, `sampling` of this the most probable, as
many as documents of this kind have (the paper's baseline for the pointer generator).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import expit, logit

from ontodex.decide.ofo import OFO
from ontodex.decide.threshold import above, entries, tune_one
from ontodex.evaluate.sets import Counts, count_by_document, macro
from ontodex.models.level_network import LevelwiseConfig
from ontodex.models.level_plan import Level
from ontodex.types import PADDING, Ranking

Thresholds = NDArray[np.float64]
Hits = tuple[int, int]  # answers that are true, and all of them

DEPTH = 30  # labels of a level that are kept of each document's predictions
CURVE_POINTS = 40
LEAST = 1e-6  # probability whose log-odds are taken
MOVES = tuple(sorted((float(by) for by in np.linspace(-4, 2, 25)), key=abs))  # the least first


def learn_thresholds(config: LevelwiseConfig, ranking: Ranking, gold: csr_array) -> OFO:
    """A lambda for each column, after some passes over these documents."""
    return _fresh(config, ranking, gold).passes(ranking, gold, config.ofo_passes)


def _fresh(config: LevelwiseConfig, ranking: Ranking, gold: csr_array) -> OFO:
    first = config.first_lambda
    if config.ofo_prior:
        first = tune_one(entries(ranking, gold), gold.nnz).value
    return OFO.new(gold.shape[1], first, prior=config.ofo_prior)


def level_thresholds(
    config: LevelwiseConfig,
    levels: Sequence[Level],
    rankings: Sequence[Ranking],
    golds: Mapping[int, csr_array],
) -> Thresholds:
    """A lambda for each column, of the documents that have a label at its level and of that level's
    labels alone: what the paper measures the levels by."""
    found = np.empty(sum(map(len, levels)))
    for level, ranking in zip(levels, rankings, strict=True):
        learned = learn_thresholds(config, *with_gold(ranking, golds[level.number]))
        found[level.columns] = learned.thresholds[level.columns]
    return found


def with_gold(ranking: Ranking, gold: csr_array) -> tuple[Ranking, csr_array]:
    """Answers and gold of the documents that have a label."""
    own = np.diff(gold.indptr) > 0
    return ranking.take(own), csr_array(gold[own])


def refine(rankings: Sequence[Ranking], thresholds: Thresholds) -> list[Ranking]:
    """For each level, the predictions above their thresholds."""
    return [ranking.keep(above(ranking, thresholds)) for ranking in rankings]


def moved(ranking: Ranking, by: float) -> Ranking:
    """The same answers, their log-odds moved."""
    p = expit(logit(ranking.probabilities.astype(np.float64)) + by)
    return Ranking(ranking.columns, p.astype(np.float32))


def against(ranking: Ranking, thresholds: Thresholds) -> NDArray[np.float32]:
    """(n, k): probabilities with the odds of these against the thresholds of their labels: one half
    where OFO's decision turns."""
    odds = logit(ranking.probabilities.astype(np.float64).clip(LEAST, 1 - LEAST))
    turns = logit(thresholds.clip(LEAST, 1 - LEAST))[ranking.columns]
    found: NDArray[np.float32] = expit(odds - turns).astype(np.float32)
    return np.where(ranking.columns == PADDING, np.float32(0), found)


def mean_odds(ones: Sequence[Ranking], others: Sequence[Ranking]) -> list[Ranking]:
    """For each level, the best `DEPTH` answers of both with the mean of their log-odds; where the
    others had more, the rest of theirs, less likely than any of these."""
    return [
        _followed_by(_mean_odds(*(r.cut(min(r.k, DEPTH)) for r in both)), both[1])
        for both in zip(ones, others, strict=True)
    ]


def _followed_by(first: Ranking, others: Ranking) -> Ranking:
    """So that what is asked for does not change with how much is asked for."""
    if others.k <= first.k:
        return first
    rest = others.keep(~in_ranking(others, first))
    least = np.where(first.columns != PADDING, first.probabilities, 1).min(axis=1, keepdims=True)
    below = np.nextafter(least, 0, dtype=np.float32)
    # Scaled, not cut off: what is equal would be ordered by column.
    scale = below / np.maximum(rest.probabilities[:, :1], below).clip(min=LEAST)
    columns = np.hstack([first.columns, rest.columns])
    p = np.hstack([first.probabilities, np.minimum(rest.probabilities * scale, below)])
    return Ranking.sort(columns, p, others.k)


def in_ranking(ranking: Ranking, other: Ranking) -> NDArray[np.bool_]:
    """Which answers of a ranking are answers of the other about the same document."""
    width = max(ranking.columns.max(initial=0), other.columns.max(initial=0)) + 1
    rows = np.arange(len(ranking), dtype=np.int64)[:, None] * width
    filled = other.columns != PADDING
    found = np.isin(rows + ranking.columns, (rows + other.columns)[filled])
    return np.asarray(found & (ranking.columns != PADDING))


def _mean_odds(one: Ranking, other: Ranking) -> Ranking:
    """A label that one of them does not name is there as likely as the least it names."""
    parts = []
    for start in range(0, max(len(one), 1), 1_024):
        rows = np.arange(start, min(start + 1_024, len(one)))
        a, b = one.take(rows), other.take(rows)
        same = (a.columns[:, :, None] == b.columns[:, None, :]) & (a.columns >= 0)[:, :, None]
        of_a = _odds(a) + _odds_there(b, same)
        of_b = _odds(b) + _odds_there(a, same.transpose(0, 2, 1))
        only_b = np.where(same.any(axis=1), PADDING, b.columns)
        columns = np.hstack([a.columns, only_b])
        parts.append(Ranking.sort(columns, expit(np.hstack([of_a, of_b]) / 2), one.k))
    return Ranking.join(parts, one.k)


def _odds(ranking: Ranking) -> NDArray[np.float64]:
    return np.asarray(logit(np.clip(ranking.probabilities.astype(np.float64), LEAST, 1 - LEAST)))


def _odds_there(ranking: Ranking, same: NDArray[np.bool_]) -> NDArray[np.float64]:
    """(n, c): the log-odds that a ranking gives to c labels, which are its own where `same`
    (n, c, k) says so."""
    odds = _odds(ranking)
    least = np.where(ranking.columns >= 0, odds, np.inf).min(axis=1, keepdims=True, initial=np.inf)
    least = np.where(np.isfinite(least), least, logit(LEAST))
    found = np.take_along_axis(odds, same.argmax(axis=2), axis=1)
    return np.where(same.any(axis=2), found, least)


def best_moves(
    rankings: Sequence[Ranking], gold: csr_array, thresholds: Thresholds
) -> NDArray[np.float64]:
    """How far to move the log-odds of each level, for the highest micro-F of all levels together
    with these thresholds, where labels that no level has are missed: one level at a time until none
    moves, the least of equals. Thresholds are learned from networks that saw fewer documents, and
    are less sure, than the one that answers; and a level that most documents have no labels at may
    be better silent."""
    found = [_by_move(ranking, gold, thresholds) for ranking in rankings]
    moves = [0.0] * len(found)

    def reached(moves: Sequence[float]) -> float:
        hit, kept = np.sum([of[by] for of, by in zip(found, moves, strict=True)], axis=0)
        return float(2 * hit / max(1, kept + gold.nnz))

    settled = gold.nnz == 0
    while not settled:
        before = list(moves)
        for place in range(len(moves)):
            tried = {by: reached([*moves[:place], by, *moves[place + 1 :]]) for by in MOVES}
            moves[place] = max(MOVES, key=tried.__getitem__)
        settled = moves == before
    return np.array(moves)


def _by_move(ranking: Ranking, gold: csr_array, thresholds: Thresholds) -> dict[float, Hits]:
    """For each move, how many answers are true, and how many there are."""
    found = {}
    for by in MOVES:
        answers = moved(ranking, by)
        counts = count_by_document(gold, answers.keep(above(answers, thresholds)))
        found[by] = (int(counts.hit.sum()), int(counts.predicted.sum()))
    return found


def matching_moves(
    train: Sequence[Ranking], new: Sequence[Ranking], thresholds: Thresholds
) -> NDArray[np.float64]:
    """How far to move the log-odds of new documents at each level, so that they get as many labels
    as training documents do: what reads these labels has learned from such."""
    moves = []
    for learned, ranking in zip(train, new, strict=True):
        wanted = _kept(learned, thresholds)
        moves.append(min(MOVES, key=lambda by: abs(_kept(moved(ranking, by), thresholds) - wanted)))
    return np.array(moves)


def _kept(ranking: Ranking, thresholds: Thresholds) -> float:
    """Labels above their thresholds, in the mean of documents."""
    return float(above(ranking, thresholds).sum() / max(1, len(ranking)))


def stream_curve(
    config: LevelwiseConfig, ranking: Ranking, gold: csr_array
) -> dict[str, list[float]]:
    """Macro precision, recall and F of OFO's decisions on the documents so far, at even steps of
    the first pass over those that have a label (Figure 5)."""
    ranking, truth = with_gold(ranking, gold)
    _, chosen = _fresh(config, ranking, truth).stream(ranking, truth)
    counts = count_by_document(truth, ranking.keep(chosen))
    curve: dict[str, list[float]] = {"documents": [], "MaP": [], "MaR": [], "MaF": []}
    steps = np.unique(np.linspace(0, len(ranking), CURVE_POINTS + 1).astype(int))
    for n in steps[1:].tolist():
        curve["documents"].append(n)
        so_far = Counts(counts.hit[:n], counts.predicted[:n], counts.gold[:n])
        for name, value in macro(so_far).items():
            curve[name].append(round(value, 5))
    return curve


def level_curves(
    config: LevelwiseConfig,
    levels: Sequence[Level],
    rankings: Sequence[Ranking],
    golds: Mapping[int, csr_array],
) -> dict[str, dict[str, list[float]]]:
    """Figure 5: a curve for each level, by its number."""
    return {
        str(level.number): stream_curve(config, ranking, golds[level.number])
        for level, ranking in zip(levels, rankings, strict=True)
    }


@dataclass(frozen=True, eq=False)
class Sampling:
    """How many labels a document gets, by the sum of its labels' probabilities: the quantiles of
    the training documents' sums are those of their numbers of gold labels."""

    sums: NDArray[np.float64]
    counts: NDArray[np.float64]

    @classmethod
    def fit(cls, union: Ranking, gold: csr_array) -> Sampling:
        at = np.linspace(0, 1, 101)
        if not len(union):
            return cls(np.zeros(1), np.ones(1))
        sums = union.probabilities.sum(axis=1, dtype=np.float64)
        sizes = np.diff(gold.indptr)
        return cls(np.quantile(sums, at), np.quantile(sizes, at))

    def merge(self, union: Ranking) -> Ranking:
        """Of the levels' predictions, the most probable, as many as the sum asks for."""
        sums = union.probabilities.sum(axis=1, dtype=np.float64)
        sizes = np.rint(np.interp(sums, self.sums, self.counts)).astype(np.int64)
        return union.keep(np.arange(union.k) < sizes[:, None])

    def to_json(self) -> dict[str, Any]:
        return {"sums": self.sums.tolist(), "counts": self.counts.tolist()}

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> Sampling:
        return cls(np.array(table["sums"], float), np.array(table["counts"], float))

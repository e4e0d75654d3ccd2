"""OFO thresholds and logit shifts of the levels (Deep Level-wise XMLC, section 2.1.4, Eq. 2).

    out-of-fold predictions ─ OFO ─ one threshold lambda per label ─ label sets
    dev predictions ─ one logit shift per level (ours)

`Sampling` is the paper's baseline for the pointer generator: of the labels above their thresholds
it keeps the most probable ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import expit, logit

from ontodex.decide.entries import list_entries, mask_above
from ontodex.decide.ofo import OFO
from ontodex.decide.threshold import tune_threshold
from ontodex.evaluation.sets import Counts, count_by_document, macro
from ontodex.io.json_schema import parse_record
from ontodex.models.levelwise.config import LevelsConfig
from ontodex.models.levelwise.levels import Level
from ontodex.types import PADDING, Ranking
from ontodex.types.answers import Illustration, Panel

Thresholds = NDArray[np.float64]
Hits = tuple[int, int]  # true predictions, and all predictions

DEPTH = 30  # labels per level that are kept for each document
CURVE_POINTS = 40
MIN_PROBABILITY = 1e-6  # probabilities are clipped to this before logit
LOGIT_SHIFTS = tuple(
    sorted((float(by) for by in np.linspace(-4, 2, 25)), key=abs)
)  # the least first


def learn_thresholds(config: LevelsConfig, ranking: Ranking, gold: csr_array) -> OFO:
    """Return the lambda of each column after `ofo_passes` passes over these documents."""
    return _start_ofo(config, ranking, gold).run_passes(ranking, gold, config.ofo_passes)


def _start_ofo(config: LevelsConfig, ranking: Ranking, gold: csr_array) -> OFO:
    first = config.first_lambda
    if config.ofo_prior:
        first = tune_threshold(list_entries(ranking, gold), gold.nnz).value
    return OFO.start(gold.shape[1], first, prior=config.ofo_prior)


def learn_level_thresholds(
    config: LevelsConfig,
    levels: Sequence[Level],
    rankings: Sequence[Ranking],
    golds: Mapping[int, csr_array],
) -> Thresholds:
    """Return the lambda of each column, learned level by level as in the paper.

    Each level uses the documents that have a label there, and the labels of the level only.
    """
    found = np.empty(sum(map(len, levels)))
    for level, ranking in zip(levels, rankings, strict=True):
        learned = learn_thresholds(config, *select_labelled(ranking, golds[level.number]))
        found[level.columns] = learned.thresholds[level.columns]
    return found


def select_labelled(ranking: Ranking, gold: csr_array) -> tuple[Ranking, csr_array]:
    """Return predictions and gold of the documents that have a label."""
    own = np.diff(gold.indptr) > 0
    return ranking.take(own), csr_array(gold[own])


def apply_thresholds(rankings: Sequence[Ranking], thresholds: Thresholds) -> list[Ranking]:
    """Return, for each level, the predictions above their thresholds."""
    return [ranking.keep(mask_above(ranking, thresholds)) for ranking in rankings]


def shift_logits(ranking: Ranking, by: float) -> Ranking:
    """Return the same labels with `by` added to their logits."""
    p = expit(logit(ranking.probabilities.astype(np.float64)) + by)
    return Ranking(ranking.columns, p.astype(np.float32))


def average_logits(ones: Sequence[Ranking], others: Sequence[Ranking]) -> list[Ranking]:
    """Return, for each level, the best `DEPTH` labels of both passes by the mean of their logits.

    Where `others` has more labels, the rest follows with lower probabilities.
    """
    return [
        _append_rest(_average_logits(*(r.cut(min(r.k, DEPTH)) for r in both)), both[1])
        for both in zip(ones, others, strict=True)
    ]


def _append_rest(first: Ranking, others: Ranking) -> Ranking:
    """Append the other labels, so that the first ones do not depend on the depth."""
    if others.k <= first.k:
        return first
    rest = others.keep(~is_in_ranking(others, first))
    least = np.where(first.columns != PADDING, first.probabilities, 1).min(axis=1, keepdims=True)
    below = np.nextafter(least, 0, dtype=np.float32)
    # Scaled, not clipped: equal probabilities would be ordered by column.
    scale = below / np.maximum(rest.probabilities[:, :1], below).clip(min=MIN_PROBABILITY)
    columns = np.hstack([first.columns, rest.columns])
    p = np.hstack([first.probabilities, np.minimum(rest.probabilities * scale, below)])
    return Ranking.sort(columns, p, others.k)


def is_in_ranking(ranking: Ranking, other: Ranking) -> NDArray[np.bool_]:
    """Return which labels of a ranking the other ranking has for the same document, (n, k)."""
    width = max(ranking.columns.max(initial=0), other.columns.max(initial=0)) + 1
    rows = np.arange(len(ranking), dtype=np.int64)[:, None] * width
    filled = other.columns != PADDING
    found = np.isin(rows + ranking.columns, (rows + other.columns)[filled])
    return np.asarray(found & (ranking.columns != PADDING))


def _average_logits(one: Ranking, other: Ranking) -> Ranking:
    """Average the logits of two rankings. A label that one ranking lacks gets its lowest logit."""
    parts = []
    for start in range(0, max(len(one), 1), 1_024):
        rows = np.arange(start, min(start + 1_024, len(one)))
        a, b = one.take(rows), other.take(rows)
        same = (a.columns[:, :, None] == b.columns[:, None, :]) & (a.columns >= 0)[:, :, None]
        of_a = _logits(a) + _look_up_logits(b, same)
        of_b = _logits(b) + _look_up_logits(a, same.transpose(0, 2, 1))
        only_b = np.where(same.any(axis=1), PADDING, b.columns)
        columns = np.hstack([a.columns, only_b])
        parts.append(Ranking.sort(columns, expit(np.hstack([of_a, of_b]) / 2), one.k))
    return Ranking.join(parts, one.k)


def _logits(ranking: Ranking) -> NDArray[np.float64]:
    return _clip_and_logit(ranking.probabilities.astype(np.float64))


def _clip_and_logit(p: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(logit(np.clip(p, MIN_PROBABILITY, 1 - MIN_PROBABILITY)))


def _look_up_logits(ranking: Ranking, same: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the logits (n, c) of c labels in a ranking; `same` (n, c, k) marks equal labels.

    A label that the ranking lacks gets its lowest logit.
    """
    odds = _logits(ranking)
    least = np.where(ranking.columns >= 0, odds, np.inf).min(axis=1, keepdims=True, initial=np.inf)
    least = np.where(np.isfinite(least), least, logit(MIN_PROBABILITY))
    found = np.take_along_axis(odds, same.argmax(axis=2), axis=1)
    return np.where(same.any(axis=2), found, least)


def find_best_shifts(
    rankings: Sequence[Ranking], gold: csr_array, thresholds: Thresholds
) -> NDArray[np.float64]:
    """Return the logit shift of each level with the highest micro-F of all levels together.

    Coordinate ascent: one level at a time, until no shift changes; the smallest of equal shifts.
    Gold labels that no level predicts count as missed. Shifts correct two things. Thresholds are
    learned from the networks of the folds, which saw fewer documents and are less confident. And
    a level without labels for most documents may do better to predict none.
    """
    found = [_count_by_shift(ranking, gold, thresholds) for ranking in rankings]
    shifts = [0.0] * len(found)

    def compute_micro_f(shifts: Sequence[float]) -> float:
        hit, kept = np.sum([of[by] for of, by in zip(found, shifts, strict=True)], axis=0)
        return float(2 * hit / max(1, kept + gold.nnz))

    is_stable = gold.nnz == 0
    while not is_stable:
        before = list(shifts)
        for place in range(len(shifts)):
            tried = {
                by: compute_micro_f([*shifts[:place], by, *shifts[place + 1 :]])
                for by in LOGIT_SHIFTS
            }
            shifts[place] = max(LOGIT_SHIFTS, key=tried.__getitem__)
        is_stable = shifts == before
    return np.array(shifts)


def _count_by_shift(ranking: Ranking, gold: csr_array, thresholds: Thresholds) -> dict[float, Hits]:
    """Return, for each shift, the true predictions and all predictions."""
    found = {}
    for by in LOGIT_SHIFTS:
        answers = shift_logits(ranking, by)
        counts = count_by_document(gold, answers.keep(mask_above(answers, thresholds)))
        found[by] = (int(counts.hit.sum()), int(counts.predicted.sum()))
    return found


def find_matching_shifts(
    train: Sequence[Ranking], new: Sequence[Ranking], thresholds: Thresholds
) -> NDArray[np.float64]:
    """Return the logit shift of each level that gives new documents as many labels as training
    documents have. Pass 2 was trained to read that many."""
    shifts = []
    for learned, ranking in zip(train, new, strict=True):
        wanted = _mean_set_size(learned, thresholds)
        shifts.append(
            min(
                LOGIT_SHIFTS,
                key=lambda by: abs(_mean_set_size(shift_logits(ranking, by), thresholds) - wanted),
            )
        )
    return np.array(shifts)


def _mean_set_size(ranking: Ranking, thresholds: Thresholds) -> float:
    """Return the mean number of labels above their thresholds."""
    return float(mask_above(ranking, thresholds).sum() / max(1, len(ranking)))


def trace_ofo(config: LevelsConfig, ranking: Ranking, gold: csr_array) -> dict[str, list[float]]:
    """Return macro precision, recall and F of OFO over the documents seen so far (Figure 5).

    Points are at even steps of the first pass over the documents that have a label.
    """
    ranking, truth = select_labelled(ranking, gold)
    _, chosen = _start_ofo(config, ranking, truth).choose_and_learn(ranking, truth)
    counts = count_by_document(truth, ranking.keep(chosen))
    curve: dict[str, list[float]] = {"documents": [], "MaP": [], "MaR": [], "MaF": []}
    steps = np.unique(np.linspace(0, len(ranking), CURVE_POINTS + 1).astype(int))
    for n in steps[1:].tolist():
        curve["documents"].append(n)
        so_far = Counts(counts.hit[:n], counts.predicted[:n], counts.gold[:n])
        for name, value in macro(so_far).items():
            curve[name].append(round(value, 5))
    return curve


def trace_ofo_by_level(
    config: LevelsConfig,
    levels: Sequence[Level],
    rankings: Sequence[Ranking],
    golds: Mapping[int, csr_array],
) -> dict[str, dict[str, list[float]]]:
    """Return the curves of Figure 5 by the number of the level."""
    return {
        str(level.number): trace_ofo(config, ranking, golds[level.number])
        for level, ranking in zip(levels, rankings, strict=True)
    }


def draw_ofo(curves: Mapping[str, Any]) -> Illustration:
    """Return Figure 5 from the curves of all levels."""
    shown = ("MaP", "MaR", "MaF")
    panels = [
        Panel(f"level {level}", curve["documents"], {name: curve[name] for name in shown})
        for level, curve in curves.items()
    ]
    return Illustration(
        "Thresholds during training",
        "Precision, recall and F of the predicted labels of each level, over the training "
        "documents seen so far. OFO updates the thresholds after every document; the "
        "predictions are out-of-fold.",
        "documents",
        panels,
    )


@dataclass(frozen=True, eq=False)
class Sampling:
    """The paper's baseline: keep the most probable labels, as many as documents usually have.

    The size of a set depends on the sum of its probabilities. The quantiles of these sums over the
    training documents are mapped to the quantiles of the numbers of gold labels.
    """

    sums: NDArray[np.float64]  # quantiles of the sums of probabilities
    counts: NDArray[np.float64]  # quantiles of the numbers of gold labels

    @classmethod
    def fit(cls, union: Ranking, gold: csr_array) -> Sampling:
        """Measure the quantiles on training documents."""
        at = np.linspace(0, 1, 101)
        if not len(union):
            return cls(np.zeros(1), np.ones(1))
        sums = union.probabilities.sum(axis=1, dtype=np.float64)
        sizes = np.diff(gold.indptr)
        return cls(np.quantile(sums, at), np.quantile(sizes, at))

    def merge(self, union: Ranking) -> Ranking:
        """Return the most probable predictions of each document, as many as its sum maps to."""
        sums = union.probabilities.sum(axis=1, dtype=np.float64)
        sizes = np.rint(np.interp(sums, self.sums, self.counts)).astype(np.int64)
        return union.keep(np.arange(union.k) < sizes[:, None])

    def to_json(self) -> dict[str, Any]:
        return {"sums": self.sums.tolist(), "counts": self.counts.tolist()}

    @classmethod
    def from_json(cls, table: Any) -> Sampling:
        stored = parse_record(_SamplingJson, table, "sampling")
        return cls(np.array(stored.sums), np.array(stored.counts))


@dataclass(frozen=True)
class _SamplingJson:
    """The quantiles as JSON: as many sums as counts, both rising."""

    sums: tuple[float, ...]
    counts: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.sums or len(self.sums) != len(self.counts):
            raise ValueError("there must be as many sums as counts, at least one")
        for values in (self.sums, self.counts):
            if list(values) != sorted(values) or not 0 <= values[0] <= values[-1] < 2**53:
                raise ValueError("sums and counts must rise from 0 or more")

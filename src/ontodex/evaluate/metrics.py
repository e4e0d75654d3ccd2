"""Every metric of a run at once: `evaluate(...) -> Metrics`, which is what metrics.json holds."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.errors import DataError
from ontodex.evaluate import compare, groups, hierarchical, sets
from ontodex.evaluate.calibration import Reliability, reliability
from ontodex.evaluate.ranking import (
    Numbers,
    gold_sizes,
    hits,
    ndcg,
    precision,
    propensity_gains,
    propensity_of_columns,
    psndcg,
    psp,
    r_precision,
    recall,
)
from ontodex.types import LabelSpace, Ranking

log = logging.getLogger(__name__)

RANKED = {"P": precision, "nDCG": ndcg, "R": recall, "RP": r_precision}
PROPENSITY_SCORED = {"PSP": psp, "PSnDCG": psndcg}


@dataclass(frozen=True)
class Metrics:
    """The figures of one system on one corpus."""

    values: Mapping[str, float]  # "P@1", "nDCG@5", "MiF", "ECE" ...
    intervals: Mapping[str, compare.Interval]  # 95 %, for those with a bootstrap
    documents: int  # counted
    without_gold: int  # left out
    labels: int  # distinct true labels
    unknown_labels: int  # of these, outside the label space: always missed
    by_frequency: Sequence[groups.GroupScores] = ()
    by_level: Sequence[groups.GroupScores] = ()
    by_occurrence: Sequence[groups.OccurrenceGroup] = ()
    reliability: Reliability | None = field(default=None, repr=False)
    curve: sets.ThresholdCurve | None = field(default=None, repr=False)

    def __getitem__(self, name: str) -> float:
        return self.values[name]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, the figures by name at the top; one that does not exist is null."""
        rest = [field.name for field in dataclasses.fields(self) if field.name != "values"]
        return _plain(self.values) | {name: _plain(getattr(self, name)) for name in rest}

    def text(self) -> str:
        """The figures for a terminal, in percent, with their 95 % intervals where there are any."""
        lines = [f"{self.documents:,} documents counted, {self.without_gold:,} without labels"]
        if self.unknown_labels:
            lines.append(f"{self.unknown_labels:,} of {self.labels:,} true labels are unknown here")
        for name, value in self.values.items():
            line = f"{name:12} {100 * value:6.2f}"
            if name in self.intervals:
                interval = self.intervals[name]
                line += f"   ({100 * interval.low:.2f} to {100 * interval.high:.2f})"
            lines.append(line)
        for title, scores in (("frequency", self.by_frequency), ("level", self.by_level)):
            for group in scores:
                shown = "  ".join(f"{k} {100 * v:.1f}" for k, v in group.values.items())
                lines.append(f"by {title}: {group.name}: {shown}")
        return "\n".join(lines)


def evaluate(
    gold: csr_array,
    ranking: Ranking,
    decided: Ranking | None,
    labels: LabelSpace,
    *,
    levels: NDArray[np.integer] | None = None,
    ancestors: csr_array | None = None,
    ks: Sequence[int] = (1, 3, 5),
    propensity: tuple[float, float] = (0.55, 1.5),
    replicates: int = compare.REPLICATES,
    seed: int = 0,
) -> Metrics:
    """All metrics of a ranking and, where given, of the label sets decided from it.

    `levels` is the ontology level of each label (0 = none), `ancestors` the matrix that
    `hierarchical` describes; both by column of `labels`. `replicates` = 0 leaves intervals out.
    """
    counted = gold_sizes(gold) > 0
    left_out = int(len(counted) - counted.sum())
    if left_out == len(counted):
        raise DataError(
            f"none of the {left_out:,} documents has a label, so nothing can be measured",
            hint="evaluate on a labelled corpus",
        )
    if left_out:
        log.info("%s of %s documents have no labels and are left out", left_out, len(counted))
        gold, ranking = gold[counted], ranking.take(counted)
        decided = decided.take(counted) if decided is not None else None

    found = hits(gold, ranking)
    sizes = gold_sizes(gold)
    bins = reliability(gold, ranking, found, k=max(ks))
    per_document = {
        f"{name}@{k}": formula(k, found, sizes) for name, formula in RANKED.items() for k in ks
    }
    values = {name: float(numbers.mean()) for name, numbers in per_document.items()}
    values |= _propensity_scored(gold, ranking, labels, ks, propensity)
    values["ECE"] = bins.error()
    if decided is not None:
        values |= sets.set_metrics(gold, decided)
        if ancestors is not None:
            values |= _hierarchical(gold, decided, ancestors)

    def by_group(group: NDArray[np.int64], names: Sequence[str]) -> list[groups.GroupScores]:
        return groups.scores_by_group(
            gold, ranking, decided, group=group, names=names, ks=ks, found=found
        )

    n_columns = gold.shape[1]
    true = np.flatnonzero(np.bincount(gold.indices))
    return Metrics(
        values,
        _intervals(per_document, gold, decided, replicates, seed) if replicates else {},
        documents=int(counted.sum()),
        without_gold=left_out,
        labels=len(true),
        unknown_labels=int(np.sum(true >= len(labels))),
        by_frequency=by_group(*_frequency_groups(labels, n_columns)),
        by_level=by_group(*_level_groups(levels, n_columns)) if levels is not None else (),
        by_occurrence=groups.auc_by_occurrence(gold, ranking, found),
        reliability=bins,
        curve=sets.threshold_curve(gold, ranking, found),
    )


def _propensity_scored(
    gold: csr_array,
    ranking: Ranking,
    labels: LabelSpace,
    ks: Sequence[int],
    constants: tuple[float, float],
) -> dict[str, float]:
    a, b = constants
    propensity = propensity_of_columns(labels, gold.shape[1], a=a, b=b)
    gains, best = propensity_gains(max(ks), gold, ranking, propensity)
    return {
        f"{name}@{k}": float(formula(k, gains, best).mean())
        for name, formula in PROPENSITY_SCORED.items()
        for k in ks
    }


def _hierarchical(gold: csr_array, decided: Ranking, ancestors: csr_array) -> dict[str, float]:
    wrong = (decided.columns >= 0) & ~hits(gold, decided)
    near = hierarchical.near_misses(gold, decided, ancestors)
    share = float(near.sum() / max(int(wrong.sum()), 1))
    return hierarchical.hierarchical_metrics(gold, decided, ancestors) | {"near misses": share}


def _intervals(
    per_document: Mapping[str, Numbers],
    gold: csr_array,
    decided: Ranking | None,
    replicates: int,
    seed: int,
) -> dict[str, compare.Interval]:
    intervals = {
        name: compare.bootstrap_mean(numbers, replicates=replicates, seed=seed)
        for name, numbers in per_document.items()
    }
    if decided is not None:
        counts = sets.count_by_document(gold, decided)
        intervals["MiF"] = compare.bootstrap_micro_f(counts, replicates=replicates, seed=seed)
        intervals["MaF"] = compare.bootstrap_macro_f(counts, replicates=replicates, seed=seed)
    return intervals


def _frequency_groups(labels: LabelSpace, n_columns: int) -> tuple[NDArray[np.int64], list[str]]:
    """Labels outside the label space were never seen in training."""
    unknown = np.zeros(n_columns - len(labels), dtype=np.int64)
    return groups.frequency_bins(np.concatenate([labels.frequency, unknown]))


def _level_groups(
    levels: NDArray[np.integer], n_columns: int
) -> tuple[NDArray[np.int64], list[str]]:
    """Level 1 is group 0; labels without a level, or outside the label space, are in none."""
    group = np.full(n_columns, -1, dtype=np.int64)
    group[: len(levels)] = np.maximum(levels, 0) - 1
    return group, [f"level {number + 1}" for number in range(int(group.max(initial=-1)) + 1)]


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, np.ndarray):
        return [_plain(inner) for inner in value.tolist()]
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and math.isnan(value):
        return None
    return value

"""Every metric of a run at once: `evaluate(...) -> Metrics`, the content of metrics.json."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.errors import DataError
from ontodex.evaluation import auc, groups, hierarchical, sets, significance
from ontodex.evaluation.ranking import (
    Numbers,
    compute_propensities,
    compute_propensity_gains,
    count_gold_labels,
    f1,
    find_hits,
    ndcg,
    precision,
    psndcg,
    psp,
    r_precision,
    recall,
)
from ontodex.evaluation.reliability import Reliability, measure_reliability
from ontodex.io.counts import format_count
from ontodex.types import LabelSpace, Ranking

log = logging.getLogger(__name__)

RANKING_METRICS = {"P": precision, "nDCG": ndcg, "R": recall, "F1": f1, "RP": r_precision}
PROPENSITY_METRICS = {"PSP": psp, "PSnDCG": psndcg}
SUMMARY = ("P@1", "P@3", "P@5", "nDCG@5", "R@5", "PSP@5", "MiF", "ECE")


@dataclass(frozen=True)
class Metrics:
    """The metrics of one system on one corpus."""

    values: Mapping[str, float]  # "P@1", "nDCG@5", "MiF", "ECE" ...
    intervals: Mapping[str, significance.Interval]  # 95 %, for those with a bootstrap
    documents: int  # counted
    without_gold: int  # left out
    labels: int  # distinct true labels
    unknown_labels: int  # of these, outside the label space: always missed
    # The highest possible P@k: a document with fewer than k labels cannot have k hits.
    ceilings: Mapping[str, float] = field(default_factory=dict)
    by_frequency: Sequence[groups.GroupScores] = ()
    by_level: Sequence[groups.GroupScores] = ()
    by_occurrence: Sequence[auc.OccurrenceGroup] = ()
    reliability: Reliability | None = field(default=None, repr=False)
    curve: sets.ThresholdCurve | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        shown = (f"{name}={self.values[name]:.3f}" for name in SUMMARY if name in self.values)
        return f"Metrics({', '.join(shown)}, {format_count(self.documents, 'document')})"

    def __getitem__(self, name: str) -> float:
        return self.values[name]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, the metrics by name first; an undefined one is null."""
        rest = [field.name for field in dataclasses.fields(self) if field.name != "values"]
        return _plain(self.values) | {name: _plain(getattr(self, name)) for name in rest}

    def to_summary(self) -> str:
        """Return the metrics that most people need, as about ten lines for a terminal."""
        shown = [name for name in SUMMARY if name in self.values]
        return "\n".join([*self._describe_corpus(), *map(self._format_line, shown)])

    def to_text(self) -> str:
        """Return lines for a terminal, in percent, with 95 % intervals where there are any."""
        lines = [*self._describe_corpus(), *map(self._format_line, self.values)]
        for title, scores in (("frequency", self.by_frequency), ("level", self.by_level)):
            for group in scores:
                shown = "  ".join(f"{k} {100 * v:.1f}" for k, v in group.values.items())
                lines.append(f"by {title}: {group.name}: {shown}")
        return "\n".join(lines)

    def _describe_corpus(self) -> Iterator[str]:
        counted = format_count(self.documents, "document")
        yield f"{counted} counted, {self.without_gold:,} without labels; in percent"
        if self.unknown_labels:
            total = format_count(self.labels, "true label")
            yield f"unknown here: {self.unknown_labels:,} of {total}"

    def _format_line(self, name: str) -> str:
        line = f"{name:12} {100 * self.values[name]:6.2f}"
        if name in self.intervals:
            interval = self.intervals[name]
            line += f"   ({100 * interval.low:.2f} to {100 * interval.high:.2f})"
        if self.ceilings.get(name, 1.0) < 1.0:
            line += f"   at most {100 * self.ceilings[name]:.2f}: some documents have fewer labels"
        return line


def evaluate(
    gold: csr_array,
    ranking: Ranking,
    label_sets: Ranking | None,
    labels: LabelSpace,
    *,
    levels: NDArray[np.integer] | None = None,
    ancestors: csr_array | None = None,
    ks: Sequence[int] = (1, 3, 5),
    propensity: tuple[float, float] = (0.55, 1.5),
    replicates: int = significance.REPLICATES,
    seed: int = 0,
) -> Metrics:
    """Return all metrics of a ranking and, where given, of the label sets predicted from it.

    `levels` is the ontology level of each label (0 = none), `ancestors` the matrix that
    `hierarchical` describes; both by column of `labels`. `replicates` = 0 leaves intervals out.
    """
    has_gold = count_gold_labels(gold) > 0
    gold, ranking, label_sets = _keep_documents(has_gold, gold, ranking, label_sets)
    found, sizes = find_hits(gold, ranking), count_gold_labels(gold)
    bins = measure_reliability(gold, ranking, found, k=max(ks))
    per_document = {
        f"{name}@{k}": metric(k, found, sizes)
        for name, metric in RANKING_METRICS.items()
        for k in ks
    }
    values = {name: float(numbers.mean()) for name, numbers in per_document.items()}
    values |= _score_propensity(gold, ranking, labels, ks, propensity)
    values["ECE"] = bins.expected_error()
    if label_sets is not None:
        values |= sets.set_metrics(gold, label_sets)
        if ancestors is not None:
            values |= _score_hierarchy(gold, label_sets, ancestors)

    def by_group(group: NDArray[np.int64], names: Sequence[str]) -> list[groups.GroupScores]:
        return groups.score_groups(
            gold, ranking, label_sets, group=group, names=names, ks=ks, found=found
        )

    n_columns = gold.shape[1]
    true = np.flatnonzero(np.bincount(gold.indices))
    return Metrics(
        values,
        _bootstrap_intervals(per_document, gold, label_sets, replicates, seed),
        documents=int(has_gold.sum()),
        without_gold=int((~has_gold).sum()),
        labels=len(true),
        unknown_labels=int(np.sum(true >= len(labels))),
        ceilings={f"P@{k}": float(np.minimum(sizes, k).mean() / k) for k in ks},
        by_frequency=by_group(*_group_by_frequency(labels, n_columns)),
        by_level=by_group(*_group_by_level(levels, n_columns)) if levels is not None else (),
        by_occurrence=auc.auc_by_occurrence(gold, ranking, found),
        reliability=bins,
        curve=sets.compute_threshold_curve(gold, ranking, found),
    )


def _keep_documents(
    has_gold: NDArray[np.bool_], gold: csr_array, ranking: Ranking, label_sets: Ranking | None
) -> tuple[csr_array, Ranking, Ranking | None]:
    """Leave out the documents without gold labels."""
    left_out = int((~has_gold).sum())
    if left_out == len(has_gold):
        raise DataError(
            f"no document (of {left_out:,}) has a label, so nothing can be measured",
            hint="evaluate on a labelled corpus",
        )
    if not left_out:
        return gold, ranking, label_sets
    total = format_count(len(has_gold), "document")
    log.info("left out, because they have no labels: %s of %s", f"{left_out:,}", total)
    kept_sets = label_sets.take(has_gold) if label_sets is not None else None
    return gold[has_gold], ranking.take(has_gold), kept_sets


def _score_propensity(
    gold: csr_array,
    ranking: Ranking,
    labels: LabelSpace,
    ks: Sequence[int],
    constants: tuple[float, float],
) -> dict[str, float]:
    """Return the propensity-scored metrics by name."""
    a, b = constants
    propensity = compute_propensities(labels, gold.shape[1], a=a, b=b)
    gains, best = compute_propensity_gains(max(ks), gold, ranking, propensity)
    return {
        f"{name}@{k}": float(metric(k, gains, best).mean())
        for name, metric in PROPENSITY_METRICS.items()
        for k in ks
    }


def _score_hierarchy(
    gold: csr_array, label_sets: Ranking, ancestors: csr_array
) -> dict[str, float]:
    """Return the hierarchical metrics, and the share of near misses among the wrong labels."""
    wrong = (label_sets.columns >= 0) & ~find_hits(gold, label_sets)
    near = hierarchical.find_near_misses(gold, label_sets, ancestors)
    share = float(near.sum() / max(int(wrong.sum()), 1))
    return hierarchical.hierarchical_metrics(gold, label_sets, ancestors) | {"near misses": share}


def _bootstrap_intervals(
    per_document: Mapping[str, Numbers],
    gold: csr_array,
    label_sets: Ranking | None,
    replicates: int,
    seed: int,
) -> dict[str, significance.Interval]:
    """Return the intervals of the metrics per document and of MiF and MaF."""
    if not replicates:
        return {}
    intervals = {
        name: significance.bootstrap_mean(numbers, replicates=replicates, seed=seed)
        for name, numbers in per_document.items()
    }
    if label_sets is not None:
        counts = sets.count_by_document(gold, label_sets)
        intervals["MiF"] = significance.bootstrap_micro_f(counts, replicates=replicates, seed=seed)
        intervals["MaF"] = significance.bootstrap_macro_f(counts, replicates=replicates, seed=seed)
    return intervals


def _group_by_frequency(labels: LabelSpace, n_columns: int) -> tuple[NDArray[np.int64], list[str]]:
    """Return the frequency group of each column; those past the label space have frequency 0."""
    unknown = np.zeros(n_columns - len(labels), dtype=np.int64)
    return groups.bin_frequencies(np.concatenate([labels.frequency, unknown]))


def _group_by_level(
    levels: NDArray[np.integer], n_columns: int
) -> tuple[NDArray[np.int64], list[str]]:
    """Return the group of each column: level 1 is group 0; -1 without a level or unknown."""
    group = np.full(n_columns, -1, dtype=np.int64)
    group[: len(levels)] = np.maximum(levels, 0) - 1
    return group, [f"level {number + 1}" for number in range(int(group.max(initial=-1)) + 1)]


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; NaN becomes null."""
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

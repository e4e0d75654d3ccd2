"""Metrics by group of labels: training frequency, ontology level, and single labels.

A group is measured as if its labels were the whole label space: gold and ranking keep only the
group's labels, in order, and documents without gold in the group are left out (and counted).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from ontodex.evaluate.ranking import Numbers, gold_sizes, hits, ndcg, precision, recall
from ontodex.evaluate.sets import Counts, macro, micro
from ontodex.files import write_text
from ontodex.types import LabelSpace, Ranking

# Lower ends of the training-frequency bins.
FREQUENCY_BINS = (0, 1, 10, 100, 1000)
_BLOCK = 4096  # documents walked at once: their tables stay in cache


@dataclass(frozen=True)
class GroupScores:
    """What a group of labels got, and how much stands behind the figures."""

    name: str
    labels: int  # labels of the group that are true somewhere
    occurrences: int  # how often, in all
    documents: int  # documents with gold in the group: the ones counted
    values: Mapping[str, float]


def frequency_bins(
    frequency: ArrayLike, lower: Sequence[int] = FREQUENCY_BINS
) -> tuple[NDArray[np.int64], list[str]]:
    """The bin of every label by its training frequency, and the bins' names."""
    bins = np.digitize(np.asarray(frequency), lower) - 1
    names = [
        f"{low:,}" if high - low == 1 else f"{low:,} to {high - 1:,}"
        for low, high in pairwise(lower)
    ]
    return bins.astype(np.int64), [*names, f"{lower[-1]:,} or more"]


def scores_by_group(
    gold: csr_array,
    ranking: Ranking,
    decided: Ranking | None,
    *,
    group: NDArray[np.int64],
    names: Sequence[str],
    ks: Sequence[int] = (1, 3, 5),
    found: NDArray[np.bool_] | None = None,
) -> list[GroupScores]:
    """P@k, R@k, nDCG@k and, of decided labels, the micro and macro set metrics of every group.

    `group` numbers the group of each gold column, in the order of `names`; -1 is in none. Groups
    that no document has are left out. `found` is `hits(gold, ranking)` where it is known.
    """
    found = hits(gold, ranking) if found is None else found
    top = _hits_within_groups(ranking.columns, found, group, len(names), max(ks))
    rows_of_gold = np.repeat(np.arange(gold.shape[0]), gold_sizes(gold))
    sizes = _table(rows_of_gold, group[gold.indices], gold.shape[0], len(names))
    true = np.flatnonzero(np.bincount(gold.indices))
    if decided is not None:
        hit, predicted = _decided_by_group(gold, decided, group, len(names))
    scores = []
    for number, name in enumerate(names):
        rows = np.flatnonzero(sizes[:, number])
        if not len(rows):
            continue
        inside, n_gold = top[number, rows], sizes[rows, number]
        values = {
            f"{metric}@{k}": float(formula(k, inside, n_gold).mean())
            for metric, formula in (("P", precision), ("R", recall), ("nDCG", ndcg))
            for k in ks
        }
        if decided is not None:
            counts = Counts(hit[rows, number], predicted[rows, number], n_gold)
            values |= micro(counts) | macro(counts)
        labels = int(np.sum(group[true] == number))
        scores.append(GroupScores(name, labels, int(n_gold.sum()), len(rows), values))
    return scores


def _hits_within_groups(
    columns: NDArray[np.int32],
    found: NDArray[np.bool_],
    group: NDArray[np.int64],
    n_groups: int,
    k: int,
) -> NDArray[np.bool_]:
    """(groups x documents x k): hits at the ranks counted within each group. All groups are
    filled in one walk down the ranks, a block of documents at a time."""
    group_of = np.append(group, -1)  # padding, -1, reads the appended -1: no group
    top = np.zeros((n_groups + 1, len(columns), k + 1), dtype=np.bool_)  # spare group, spare rank
    for start in range(0, len(columns), _BLOCK):
        block = slice(start, start + _BLOCK)
        groups = np.ascontiguousarray(group_of[columns[block]].T)
        here, is_hit = top[:, block], np.ascontiguousarray(found[block].T)
        rows = np.arange(groups.shape[1])
        filled = np.zeros((n_groups + 1, len(rows)), dtype=np.int64)
        for numbers, hit in zip(groups, is_hit, strict=True):
            place = filled[numbers, rows]
            here[numbers, rows, np.minimum(place, k)] = hit
            filled[numbers, rows] = place + 1
    return top[:n_groups, :, :k]


def _decided_by_group(
    gold: csr_array, decided: Ranking, group: NDArray[np.int64], n_groups: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(documents x groups) of hits, and of predictions."""
    tables = []
    for chosen in (hits(gold, decided), decided.columns >= 0):
        rows = np.nonzero(chosen)[0]
        tables.append(_table(rows, group[decided.columns[chosen]], len(decided), n_groups))
    return tables[0], tables[1]


def _table(
    rows: NDArray[np.int64], numbers: NDArray[np.int64], n_rows: int, n_groups: int
) -> NDArray[np.int64]:
    """(rows x groups): how often each pair occurs; group -1 is not counted."""
    cells = rows * (n_groups + 1) + numbers + 1
    counts = np.bincount(cells, minlength=n_rows * (n_groups + 1))
    return counts.reshape(n_rows, n_groups + 1)[:, 1:]


# ------------------------------------------------------------- AUC and AUPR (paper 002, Table 6)


@dataclass(frozen=True)
class OccurrenceGroup:
    """One row of the paper's Table 6."""

    least: int  # test occurrences of its rarest label
    most: int
    labels: int
    share: float  # of all test occurrences, rarer labels' included
    auc: float
    aupr: float


def occurrence_groups(
    occurrences: NDArray[np.int64], *, groups: int = 3, least: int = 5
) -> NDArray[np.int64]:
    """Group of each label, 0 the most frequent, -1 for labels rarer than `least`: cut where the
    groups' total occurrences are as equal as can be while equally frequent labels stay together."""
    counts, n_labels = np.unique(occurrences[occurrences >= least], return_counts=True)
    counts, totals = counts[::-1], np.cumsum((counts * n_labels)[::-1])
    groups = min(groups, len(counts))
    last = -1  # position in `counts` of the rarest count of the group before
    group = np.where(occurrences >= least, 0, -1)
    for cut in range(1, groups):
        nearest = int(np.argmin(np.abs(totals - totals[-1] * cut / groups)))
        last = min(max(nearest, last + 1), len(counts) - 1 - (groups - cut))
        group[(occurrences >= least) & (occurrences < counts[last])] = cut
    return group


def auc_by_occurrence(
    gold: csr_array, ranking: Ranking, found: NDArray[np.bool_] | None = None
) -> list[OccurrenceGroup]:
    """Mean AUC and AUPR of the labels of three groups, most frequent first. Labels a ranking does
    not hold are tied at 0 for that document: compare only with numbers made the same way."""
    occurrences = np.bincount(gold.indices, minlength=gold.shape[1])
    group = occurrence_groups(occurrences)
    columns = np.flatnonzero(group >= 0)
    auc, aupr = auc_and_aupr(gold, ranking, columns, found)
    rows = []
    for number in range(int(group.max(initial=-1)) + 1):
        inside = group[columns] == number
        counts = occurrences[columns[inside]]
        mean_auc = float(np.nanmean(auc[inside])) if not np.isnan(auc[inside]).all() else np.nan
        rows.append(
            OccurrenceGroup(
                int(counts.min()),
                int(counts.max()),
                len(counts),
                float(counts.sum() / gold.nnz),
                mean_auc,
                float(aupr[inside].mean()),
            )
        )
    return rows


def auc_and_aupr(
    gold: csr_array,
    ranking: Ranking,
    columns: NDArray[np.int64],
    found: NDArray[np.bool_] | None = None,
) -> tuple[Numbers, Numbers]:
    """Area under the ROC curve and average precision of each of `columns` (labels that are true
    somewhere), over all documents; unranked documents score 0. Ties count half in the AUC, and are
    one step of the precision-recall curve. The AUC of a label that all documents have is NaN.
    """
    found = hits(gold, ranking) if found is None else found
    n_docs = gold.shape[0]
    positives = np.bincount(gold.indices, minlength=gold.shape[1])[columns].astype(np.float64)
    negatives = n_docs - positives
    keys = _sorted_keys(ranking, found, columns, gold.shape[1])

    # A block is what one label has at one score. Only blocks with hits add to either area.
    block, hit = np.unique(keys[keys & 1 == 1] >> 1, return_counts=True)
    label = block >> 31
    start, end = np.searchsorted(keys, block << 1), np.searchsorted(keys, (block + 1) << 1)
    label_start = np.searchsorted(keys, np.arange(len(columns) + 1) << 32)
    hits_before = np.append(0, np.cumsum(hit))[np.searchsorted(label, np.arange(len(columns) + 1))]
    ranked, ranked_hits = np.diff(label_start), np.diff(hits_before)

    so_far = end - label_start[label]
    hits_so_far = np.cumsum(hit) - hits_before[label]
    misses_below = negatives[label] - (so_far - hits_so_far)
    misses_tied = end - start - hit
    won = np.bincount(label, hit * (misses_below + misses_tied / 2), minlength=len(columns))
    area = np.bincount(label, hit * hits_so_far / so_far, minlength=len(columns))

    unranked_hits = positives - ranked_hits
    unranked_misses = negatives - (ranked - ranked_hits)
    pairs = positives * negatives
    auc = np.full(len(columns), np.nan)
    np.divide(won + unranked_hits * unranked_misses / 2, pairs, out=auc, where=pairs > 0)
    return auc, (area + unranked_hits * positives / n_docs) / positives


def _sorted_keys(
    ranking: Ranking, found: NDArray[np.bool_], columns: NDArray[np.int64], width: int
) -> NDArray[np.int64]:
    """Entries as sorted integers (label, falling probability, hit). A non-negative float's bits
    rise with its value, so that one plain integer sort orders everything."""
    number = np.full(width + 1, -1, dtype=np.int32)  # the last is read by padding, -1
    number[columns] = np.arange(len(columns))
    label = number[ranking.columns]
    kept = (label >= 0) & (ranking.probabilities > 0)
    one = int(np.float32(1).view(np.int32))
    # In place where it can be: at 30 million entries every temporary array costs 240 MB and time.
    bits = one - ranking.probabilities.astype(np.float32, copy=False)[kept].view(np.int32)
    bits <<= 1  # still below 2**31, as no probability is above one
    bits |= found[kept]
    keys = label[kept].astype(np.int64)
    keys <<= 32
    keys |= bits
    keys.sort()
    return keys


# ------------------------------------------------------------------------------------ every label


def write_label_table(path: Path, labels: LabelSpace, counts: Counts) -> None:
    """TSV of every label that is true or predicted somewhere: id, name, training frequency, gold,
    predicted, tp, P, R, F. Labels outside the label space have no id here and are left out."""
    lines = ["id\tname\tfrequency\tgold\tpredicted\ttp\tP\tR\tF"]
    precision, recall, f = counts.precision(), counts.recall(), counts.f()
    met = np.flatnonzero((counts.gold + counts.predicted)[: len(labels)])
    for column in met.tolist():
        name = " ".join(labels.name(column).split())
        numbers = (labels.frequency, counts.gold, counts.predicted, counts.hit)
        shares = (precision, recall, f)
        cells = [str(a[column]) for a in numbers] + [f"{a[column]:.4f}" for a in shares]
        lines.append("\t".join([" ".join(labels.ids[column].split()), name, *cells]))
    write_text(path, "\n".join(lines) + "\n")

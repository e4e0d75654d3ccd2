"""AUC and AUPR of labels, by how often they occur (AttentionXML, Table 6)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.evaluation.ranking import Numbers, find_hits
from ontodex.types import Ranking


@dataclass(frozen=True)
class OccurrenceGroup:
    """A group of labels that occur about equally often: one row of the table."""

    least: int  # test occurrences of its rarest label
    most: int
    labels: int
    share: float  # of all test occurrences, rarer labels' included
    auc: float
    aupr: float


def group_by_occurrence(
    occurrences: NDArray[np.int64], *, groups: int = 3, least: int = 5
) -> NDArray[np.int64]:
    """Return the group of each label: 0 the most frequent, -1 for labels rarer than `least`.

    The total occurrences of the groups are as equal as possible; equally frequent labels stay
    together.
    """
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
    """Return the mean AUC and AUPR of the labels of three groups, most frequent first.

    Labels outside a document's ranking are tied at 0: compare only with numbers made the same way.
    """
    occurrences = np.bincount(gold.indices, minlength=gold.shape[1])
    group = group_by_occurrence(occurrences)
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
    """Return the area under the ROC curve and the average precision of each of `columns`.

    The labels must be true somewhere. All documents count; where a label is not ranked its score is
    0. Ties count half in the AUC and are one step of the precision-recall curve. The AUC of a label
    that all documents have is NaN.
    """
    found = find_hits(gold, ranking) if found is None else found
    n_docs = gold.shape[0]
    positives = np.bincount(gold.indices, minlength=gold.shape[1])[columns].astype(np.float64)
    negatives = n_docs - positives
    keys = _sort_entries(ranking, found, columns, gold.shape[1])

    # A block is the entries of one label at one score. Only blocks with hits add to either area.
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


def _sort_entries(
    ranking: Ranking, found: NDArray[np.bool_], columns: NDArray[np.int64], width: int
) -> NDArray[np.int64]:
    """Return the entries as sorted integers (label, falling probability, hit).

    The bits of a non-negative float rise with its value, so one sort of integers is enough.
    """
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

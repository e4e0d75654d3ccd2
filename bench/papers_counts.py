"""Counts of each document, from which the claims of Deep Level-wise XMLC are judged.

For each level, over all documents: hits of the K most probable labels (K = 1 to 10), hits and
number of the labels above their OFO thresholds, and the number of true labels of that level. For
label sets of all levels: hits, predicted, true. All are small numbers: 16 bits in a .npz file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.decide.entries import mask_above
from ontodex.evaluation.ranking import find_hits
from ontodex.evaluation.sets import count_by_document
from ontodex.models.levelwise.levels import Level, select_gold
from ontodex.models.levelwise.thresholds import DEPTH, Thresholds
from ontodex.types import Ranking

MOST_K = 10
Numbers = NDArray[np.uint16]


def count_sets(gold: csr_array, label_sets: Ranking) -> Numbers:
    """Return (documents, 3): hits, predicted and true labels."""
    counts = count_by_document(gold, label_sets)
    return np.stack([counts.hit, counts.predicted, counts.gold], axis=1).astype(np.uint16)


def count_level(gold: csr_array, ranking: Ranking, level: Level, at_level: Thresholds) -> Numbers:
    """Return (documents, 13): hits of K = 1 to 10, hits and predictions of OFO, true labels."""
    own = select_gold(gold, level.columns)
    ranking = ranking.cut(DEPTH)
    hits = np.cumsum(find_hits(own, ranking.cut(MOST_K)), axis=1)  # (n, 10)
    ofo = count_sets(own, ranking.keep(mask_above(ranking, at_level)))
    return np.hstack([hits, ofo]).astype(np.uint16)


def count_levels(
    gold: csr_array, rankings: Sequence[Ranking], levels: Sequence[Level], at_level: Thresholds
) -> Numbers:
    """Return (levels, documents, 13), as `count_level`."""
    pairs = zip(rankings, levels, strict=True)
    return np.stack([count_level(gold, ranking, level, at_level) for ranking, level in pairs])


def write_counts(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write the counts of a job."""
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)

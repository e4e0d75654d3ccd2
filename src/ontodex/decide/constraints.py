"""Columns that must be in a label set, columns that must not, and the most labels it may have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ontodex.types import Ranking


def exclude_columns(ranking: Ranking, columns: Sequence[int]) -> Ranking:
    """Return the ranking without these columns."""
    return ranking.keep(~np.isin(ranking.columns, columns)) if len(columns) else ranking


def include_columns(label_sets: Ranking, columns: Sequence[int], ranking: Ranking) -> Ranking:
    """Return the sets with these columns in each, with their probability in `ranking` (else 0)."""
    wanted = np.unique(np.asarray(columns, dtype=np.int32))
    if not len(wanted):
        return label_sets
    others = exclude_columns(label_sets, columns)
    found = ranking.columns[:, :, None] == wanted
    probabilities = np.where(found, ranking.probabilities[:, :, None], 0).max(axis=1, initial=0)
    return Ranking.sort(
        np.hstack([others.columns, np.broadcast_to(wanted, (len(others), len(wanted)))]),
        np.hstack([others.probabilities, probabilities]),
        max(ranking.k, int((others.columns >= 0).sum(axis=1).max(initial=0)) + len(wanted)),
    )


def limit_size(label_sets: Ranking, limit: int, first: Sequence[int]) -> Ranking:
    """Cut the sets to `limit` labels; the columns of `first` take their places before others."""
    if limit >= label_sets.k:
        return label_sets
    if not len(first):
        return label_sets.cut(limit)
    wanted = np.isin(label_sets.columns, first)
    # The wanted ones leave room for the others, and both count from the best down.
    room = limit - np.minimum(wanted.sum(axis=1, keepdims=True), limit)
    kept = np.where(wanted, np.cumsum(wanted, axis=1) <= limit, np.cumsum(~wanted, axis=1) <= room)
    return label_sets.keep(kept).cut(limit)

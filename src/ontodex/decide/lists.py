"""Columns that must be in a label set, columns that must not, and the most labels it may have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ontodex.types import Ranking


def without(ranking: Ranking, columns: Sequence[int]) -> Ranking:
    """The ranking with these columns taken out."""
    return ranking.keep(~np.isin(ranking.columns, columns)) if len(columns) else ranking


def including(chosen: Ranking, columns: Sequence[int], ranking: Ranking) -> Ranking:
    """The sets with these columns in every one, with their probability in `ranking` (else 0)."""
    wanted = np.unique(np.asarray(columns, dtype=np.int32))
    if not len(wanted):
        return chosen
    kept = without(chosen, columns)
    found = ranking.columns[:, :, None] == wanted
    probabilities = np.where(found, ranking.probabilities[:, :, None], 0).max(axis=1, initial=0)
    return Ranking.sort(
        np.hstack([kept.columns, np.broadcast_to(wanted, (len(kept), len(wanted)))]),
        np.hstack([kept.probabilities, probabilities]),
        max(ranking.k, int((kept.columns >= 0).sum(axis=1).max(initial=0)) + len(wanted)),
    )


def at_most(chosen: Ranking, limit: int, first: Sequence[int]) -> Ranking:
    """The sets cut to `limit` labels; the columns of `first` keep their places before others."""
    if limit >= chosen.k:
        return chosen
    if not len(first):
        return chosen.cut(limit)
    wanted = np.isin(chosen.columns, first)
    # The room for the others is what the wanted ones leave, and both count from the best down.
    room = limit - np.minimum(wanted.sum(axis=1, keepdims=True), limit)
    kept = np.where(wanted, np.cumsum(wanted, axis=1) <= limit, np.cumsum(~wanted, axis=1) <= room)
    return chosen.keep(kept).cut(limit)

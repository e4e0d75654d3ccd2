"""The time of a search: what is spent, what is left, and what a trial will cost."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from ontodex.config import Table
from ontodex.models.auto.trials import Trial

_EXPONENT = 1.3  # cost ~ documents ^ exponent, until two rungs of a system have been timed
_MOST_EXPONENT = 1.8


class Budget:
    """Seconds from the beginning of the search; those before a kill count too."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._started = time.monotonic()

    def spend(self, seconds: float) -> None:
        """Count time that was spent before this process began."""
        self._started -= seconds

    @property
    def spent(self) -> float:
        return time.monotonic() - self._started

    @property
    def left(self) -> float:
        return self.seconds - self.spent


def estimate_seconds(
    trials: Sequence[Trial],
    system: str,
    settings: Table,
    documents: int,
    splits: int = 1,
    *,
    exponent: float = _EXPONENT,
) -> float:
    """Return what training on so many documents will take; infinite for an untried system.

    The nearest trial of the same settings, else of the system, is scaled to the documents, as the
    trials of the default settings grew from one rung to the next. Until two sizes have been timed
    the cost grows with this power of the documents.
    """
    own = [trial for trial in trials if trial.system == system and not trial.failure]
    if not own:
        return math.inf
    same = [trial for trial in own if trial.settings == settings] or own
    nearest = max(same, key=lambda trial: (trial.documents <= documents, trial.documents))
    growth = _estimate_growth(own, nearest.documents, documents, exponent)
    return float(nearest.seconds / nearest.splits * growth * splits)


def _estimate_growth(trials: Sequence[Trial], before: int, after: int, exponent: float) -> float:
    """Return the cost of `after` documents as a multiple of that of `before`.

    Of the two largest sizes it takes a power, where the cost grew at least as the documents did.
    Else a part of the cost is fixed: to collect names, or to wait for a machine that other work
    has slowed down. That part does not grow.
    """
    seconds = {t.documents: max(t.seconds / t.splits, 1e-3) for t in trials if not t.settings}
    if len(seconds) > 1:
        small, large = sorted(seconds)[-2:]
        exponent = math.log(seconds[large] / seconds[small]) / math.log(large / small)
        if exponent < 1:
            each = max(seconds[large] - seconds[small], 0.0) / (large - small)
            fixed = seconds[large] - each * large
            return (fixed + each * after) / (fixed + each * before)
    return float((after / before) ** min(exponent, _MOST_EXPONENT))

"""The time of a search: what is spent, what is left, and what a trial will cost."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from ontodex.config import Table
from ontodex.models.auto.trials import Trial

_EXPONENT = 1.3  # cost ~ documents ^ exponent, until two rungs of a system have been timed
_LEAST_EXPONENT, _MOST_EXPONENT = 1.0, 1.8


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
    trials: Sequence[Trial], system: str, settings: Table, documents: int, splits: int = 1
) -> float:
    """Return what training on so many documents will take; infinite for an untried system.

    The nearest trial of the same settings, else of the system, is scaled to the documents.
    """
    own = [trial for trial in trials if trial.system == system and not trial.failure]
    if not own:
        return math.inf
    same = [trial for trial in own if trial.settings == settings] or own
    nearest = max(same, key=lambda trial: (trial.documents <= documents, trial.documents))
    growth = (documents / nearest.documents) ** _fit_exponent(own)
    return float(nearest.seconds / nearest.splits * growth * splits)


def _fit_exponent(trials: Sequence[Trial]) -> float:
    """Return how fast the cost grows with the documents, from trials of the default settings."""
    seconds = {t.documents: t.seconds / t.splits for t in trials if not t.settings}
    if len(seconds) < 2:
        return _EXPONENT
    small, large = sorted(seconds)[-2:]
    ratio = max(seconds[large], 1e-3) / max(seconds[small], 1e-3)
    exponent = math.log(ratio) / math.log(large / small)
    return min(max(exponent, _LEAST_EXPONENT), _MOST_EXPONENT)

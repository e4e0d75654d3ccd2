"""Successive halving: many settings on few documents, the best third of them on more.

The start is tried on every rung, so that the result is never worse than it on held-out documents.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ontodex.config import Table
from ontodex.errors import RunError
from ontodex.models.auto.candidates import Alternatives
from ontodex.models.auto.search import Search
from ontodex.models.auto.trials import Trial

_KEPT = 1 / 3  # share of the settings that reach the next rung
_SHARE = 0.4  # of the time that is left, for a rung that is not the last
_COMBINATIONS = 12  # random ones, beside each alternative by itself


def list_configurations(start: Table, alternatives: Alternatives, *, seed: int) -> list[Table]:
    """Return the start, the start with one alternative each, and random combinations."""
    found = [start, *({**start, name: value} for name, value in alternatives)]
    choices: dict[str, list[Any]] = {}
    for name, value in alternatives:
        choices.setdefault(name, [None]).append(value)  # None: as in the start
    rng = np.random.default_rng(seed)
    for _ in range(_COMBINATIONS if len(choices) > 1 else 0):
        drawn = {name: values[rng.integers(len(values))] for name, values in choices.items()}
        found.append(start | {name: value for name, value in drawn.items() if value is not None})
    return [one for number, one in enumerate(found) if one not in found[:number]]


def halve(search: Search, system: str, configurations: Sequence[Table]) -> Trial:
    """Return the best trial of the last rung that the budget reaches."""
    kept = list(configurations)
    best: Trial | None = None
    for rung in search.rungs:
        is_last = rung is search.rungs[-1]
        until = 0.0 if is_last else (1 - _SHARE) * search.usable
        trials: list[Trial] = []
        for settings in kept:
            cost = search.estimate(system, settings, rung)
            rest = max(until, search.estimate_final(system, settings))
            is_needed = best is None and not trials  # the start, on the first rung
            if not is_needed and search.usable - cost < rest:
                continue
            trial = search.try_settings(system, settings, rung)
            if not trial.failure:
                trials.append(trial)
        if len(trials) > 1 or best is None:  # one trial alone says nothing against the rung below
            trials.sort(key=lambda trial: -trial.ndcg)
            best = trials[0] if trials else best
        n_kept = math.ceil(len(trials) * _KEPT)
        start = configurations[0]
        kept = [start, *(t.settings for t in trials[:n_kept] if t.settings != start)]
    if best is None:
        raise RunError(f"no trial could be finished: {search.trials[-1].failure}")
    return best

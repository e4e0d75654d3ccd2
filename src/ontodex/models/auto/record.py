"""The record of a search, as plain values: what was tried, what was chosen and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ontodex.config import Table
from ontodex.evaluation.ranking import f1
from ontodex.io.counts import format_count
from ontodex.io.durations import format_clock
from ontodex.models.auto.rungs import Rung
from ontodex.models.auto.search import SearchResult
from ontodex.models.auto.trials import average_score
from ontodex.types import Ranking

_JOINS = {
    "any": "the probability that any of them is right (Eq. 9)",
    "odds": "the weighted mean of log-odds",
    "mean": "the weighted mean of probabilities",
}


def make_record(
    result: SearchResult,
    joined: Ranking,
    rung: Rung,
    *,
    left_out: Mapping[str, str],
    budget: float,
    seconds: float,
) -> Table:
    """Return the record. `joined` is what the consensus ranks for the held-out documents."""
    selection = result.selection
    members = [
        {
            "system": trial.system,
            "settings": trial.settings,
            "weight": weight,
            "ndcg": alone,
            "f1": trial.f1,
            "adds": selection.score - without,
            "milliseconds": 1000 * trial.latency,
        }
        for trial, weight, alone, without in zip(
            result.candidates, selection.weights, selection.alone, selection.without, strict=True
        )
    ]
    n_docs = rung.gold.shape[0]
    is_dev = "fold" not in rung.name
    return {
        "budget": budget,
        "seconds": round(seconds, 1),
        "measured_on": format_count(n_docs, "dev document") if is_dev else rung.name,
        "ndcg": selection.score,
        "f1": average_score(f1, rung.gold, joined),
        "join": selection.join,
        "candidates": sorted(members, key=lambda one: -one["weight"]),
        "too_slow": [result.candidates[number].system for number in selection.too_slow],
        "trials": [trial.to_json() for trial in result.trials],
        "left_out": {**left_out, **result.left_out},
        "remarks": [],
    }


def name_candidate(candidate: Mapping[str, Any]) -> str:
    """Return the system with its settings, for people."""
    return " ".join([candidate["system"], *(f"{k}={v}" for k, v in candidate["settings"].items())])


def describe_choice(record: Table) -> list[str]:
    """Return the choice and its reasons as sentences."""
    chosen = [one for one in record["candidates"] if one["weight"] > 0]
    best = max(record["candidates"], key=lambda one: one["ndcg"])
    figures = f"nDCG@5 {100 * record['ndcg']:.2f}, F1@5 {100 * record['f1']:.2f}"
    measured = f"on {record['measured_on']}"
    if len(chosen) == 1:
        lines = [f"chosen: {name_candidate(chosen[0])}, {figures} {measured}; no other adds to it"]
    else:
        names = ", ".join(f"{name_candidate(one)} (weight {one['weight']:g})" for one in chosen)
        lines = [
            f"chosen: {names}",
            f"joined by {_JOINS[record['join']]}: {figures} {measured}",
            f"the best single system is {name_candidate(best)}: nDCG@5 {100 * best['ndcg']:.2f}",
        ]
    spent, budget = format_clock(record["seconds"]), format_clock(record["budget"])
    return [*lines, f"{format_count(len(record['trials']), 'trial')} in {spent} of {budget}"]

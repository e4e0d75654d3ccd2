"""Result files of bench/levelwise.py: read, by row and seed, and what of them tables and claims ask
for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

FORMAT = 4  # changes where figures would not come out the same any more
MICRO, MACRO = ("MiP", "MiR", "MiF"), ("MaP", "MaR", "MaF")
# The inputs of Tables 2 and 3, our row and pass; {} is what the stream of keywords holds.
BLOCKS = (
    ("words", "words", 0),
    ("words, {}", "full", 0),
    ("words, {}, levels", "full", 1),
)
DEFAULT_BLOCKS = (  # the same of the default, which answers by the mean of both passes
    ("words, {}", "attentive", 0),
    ("words, {}, levels, both passes", "attentive", 1),
)
RARE_ROWS = ("keywords", "threshold")  # pass 1 and pass 2, both OFO's union, tuned alike on dev

Block = tuple[str, str, int]
Results = Mapping[str, Sequence[Mapping[str, Any]]]  # by row, a result a seed
Bins = Mapping[str, Mapping[str, int]]  # of rare labels, by training documents
Beside = Mapping[str, Mapping[str, float]]  # figures of other systems
BySeed = Mapping[int, float]


def read_results(out: Path) -> Results:
    """The result files below a folder, by row; a file of `--beside` may lie among them."""
    by_row: dict[str, list[Any]] = {}
    for path in sorted(out.glob("*-*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        if "row" in result:
            by_row.setdefault(result["row"], []).append(result)
    return by_row


def by_seed(results: Results, row: str) -> dict[int, Mapping[str, Any]]:
    return {run["seed"]: run for run in results.get(row, ())}


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def spread(values: Sequence[float]) -> str:
    """The mean, and the range of several seeds."""
    if len(values) == 1:
        return f"{values[0]:.2f}"
    return f"{mean(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def title_of(block: Block, stream: str) -> str:
    return block[0].format(stream)


def stream_name(results: Results) -> str:
    """What the stream of keywords holds: keywords, or phrases that stand in for them."""
    kinds = [run["keywords"] for runs in results.values() for run in runs]
    return next((kind for kind in kinds if kind != "none"), "keywords")


def blocks_of(
    results: Results, blocks: Sequence[Block]
) -> dict[Block, dict[int, Mapping[str, Any]]]:
    """For each block that was measured, by seed the figures of each level."""
    found = {block: levels_of(results, *block[1:]) for block in blocks}
    return {block: runs for block, runs in found.items() if runs}


def levels_of(results: Results, row: str, number: int) -> dict[int, Mapping[str, Any]]:
    """By seed, the figures of each level of a row after a pass (0 or 1)."""
    return {
        seed: run["passes"][number]["levels"]
        for seed, run in by_seed(results, row).items()
        if len(run["passes"]) > number
    }


def named(seeds: Sequence[int]) -> str:
    """The seeds of a claim; one alone has no spread, and a reader is told."""
    return f"one seed, {seeds[0]}" if len(seeds) == 1 else f"seeds {', '.join(map(str, seeds))}"


def origin(seeds: Iterable[int], *rows: str) -> str:
    """Which rows, each once, and seeds figures of levels are from."""
    return f"{', '.join(f'`{row}`' for row in dict.fromkeys(rows))}, {named(sorted(seeds))}"

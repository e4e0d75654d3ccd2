"""Read the result files of bench/levelwise.py by row and seed, for tables and claims."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

FORMAT = 4  # increase when the same row would give other numbers
MICRO, MACRO = ("MiP", "MiR", "MiF"), ("MaP", "MaR", "MaF")
# The inputs of Tables 2 and 3, our row and pass; {} is the content of the keyword stream.
BLOCKS = (
    ("words", "words", 0),
    ("words, {}", "full", 0),
    ("words, {}, levels", "full", 1),
)
DEFAULT_BLOCKS = (  # the same for the default, which averages both passes
    ("words, {}", "attentive", 0),
    ("words, {}, levels, both passes", "attentive", 1),
)
RARE_ROWS = (
    "keywords",
    "threshold",
)  # pass 1 and 2, both with OFO, tuned alike on dev

Block = tuple[str, str, int]
Results = Mapping[str, Sequence[Mapping[str, Any]]]  # by row, one result per seed
Bins = Mapping[str, Mapping[str, int]]  # of rare labels, by training documents
Beside = Mapping[str, Mapping[str, float]]  # metrics of other systems
BySeed = Mapping[int, float]


def read_results(out: Path) -> Results:
    """Return the results in a folder by row; skip a file of `--beside` among them."""
    by_row: dict[str, list[Any]] = {}
    for path in sorted(out.glob("*-*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        if "row" in result:
            by_row.setdefault(result["row"], []).append(result)
    return by_row


def group_by_seed(results: Results, row: str) -> dict[int, Mapping[str, Any]]:
    return {run["seed"]: run for run in results.get(row, ())}


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def format_spread(values: Sequence[float]) -> str:
    """Format the mean, and the range where there are several seeds."""
    if len(values) == 1:
        return f"{values[0]:.2f}"
    return f"{mean(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def format_title(block: Block, stream: str) -> str:
    return block[0].format(stream)


def find_stream_name(results: Results) -> str:
    """Return the content of the keyword stream: keywords, or phrases instead."""
    kinds = [run["keywords"] for runs in results.values() for run in runs]
    return next((kind for kind in kinds if kind != "none"), "keywords")


def select_blocks(
    results: Results, blocks: Sequence[Block]
) -> dict[Block, dict[int, Mapping[str, Any]]]:
    """Return, for each measured block and seed, the metrics of each level."""
    found = {block: select_levels(results, *block[1:]) for block in blocks}
    return {block: runs for block, runs in found.items() if runs}


def select_levels(results: Results, row: str, number: int) -> dict[int, Mapping[str, Any]]:
    """Return, by seed, the metrics of each level of a row after a pass (0 or 1)."""
    return {
        seed: run["passes"][number]["levels"]
        for seed, run in group_by_seed(results, row).items()
        if len(run["passes"]) > number
    }


def format_seeds(seeds: Sequence[int]) -> str:
    """Format the seeds of a claim; a single seed, which has no spread, is named as such."""
    return f"one seed, {seeds[0]}" if len(seeds) == 1 else f"seeds {', '.join(map(str, seeds))}"


def format_origin(seeds: Iterable[int], *rows: str) -> str:
    """Format the rows and seeds that metrics of levels come from."""
    return f"{', '.join(f'`{row}`' for row in dict.fromkeys(rows))}, {format_seeds(sorted(seeds))}"

"""Judge the claims of Deep Level-wise XMLC, and ours: held, not held, or undecided.

A claim is undecided with one seed, or where seeds differ by more than the rows do.
bench/levelwise_tables.py prints them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from levelwise_results import (
    BLOCKS,
    DEFAULT_BLOCKS,
    RARE_ROWS,
    Beside,
    Bins,
    Block,
    BySeed,
    Results,
    find_stream_name,
    format_origin,
    format_seeds,
    format_spread,
    format_title,
    group_by_seed,
    mean,
    select_blocks,
    select_levels,
)

CLAIMS = (  # on test: the metric, the row that should be better, and the other
    ("dynamic pooling beats max pooling", "MaF", "full", "max"),
    ("the pointer generator beats sampling", "MaF", "full", "sampling"),
    ("level-based recalls more than label-based", "MaR", "full", "label"),
    ("label-based is more precise", "MaP", "label", "full"),
    # `full` has pass 2 and the pointer generator too; `keywords` differs from `flat` in its levels
    # alone, as the default's `attentive-keywords` does from `attentive-flat`.
    ("(ours) levels beat one flat network", "MaF", "full", "flat"),
    ("(ours) levels beat one flat network", "MiF", "full", "flat"),
    ("(ours) levels alone beat one flat network", "MaF", "keywords", "flat"),
    ("(ours) levels alone beat one flat network", "MiF", "keywords", "flat"),
    ("(ours) the default's levels beat one flat network", "MaF", "attentive", "attentive-flat"),
    ("(ours) the default's levels beat one flat network", "MiF", "attentive", "attentive-flat"),
    (
        "(ours) the default's levels alone beat one flat network",
        "MaF", "attentive-keywords", "attentive-flat",
    ),
    (
        "(ours) the default's levels alone beat one flat network",
        "MiF", "attentive-keywords", "attentive-flat",
    ),
    ("(ours) the pointer beats OFO's union", "MiF", "full", "threshold"),
    ("(ours) the default's pointer beats OFO's union", "MiF", "attentive", "attentive-threshold"),
    ("(ours) logits shifted by thresholds beat plain ones", "MiF", "logit-shift", "full"),
    (
        "(ours) the default is better with logits shifted by thresholds",
        "MiF", "attentive-logit-shift", "attentive",
    ),
    ("(ours) pass 2 continued beats pass 2 from scratch", "MiF", "full", "from-scratch"),
    ("(ours) pass 2 continued beats pass 2 from scratch", "MaF", "full", "from-scratch"),
    ("(ours) both passes beat the second", "MiF", "averaged", "full"),
    ("(ours) both passes of the default beat the second", "MiF", "attentive", "attentive-last"),
    ("(ours) attention beats pooling", "MiF", "attention", "full"),
)  # fmt: skip
HELD, UNDECIDED, NOT_HELD = "held", "undecided", "not held"


@dataclass(frozen=True)
class Pair:
    """The numbers of two rows for the same seeds: `low` should be below `high`."""

    seeds: Sequence[int]
    low: Sequence[float]
    high: Sequence[float]

    @classmethod
    def of(cls, low: BySeed, high: BySeed) -> Pair:
        """Pair the seeds that both rows have; other seeds may be lucky."""
        seeds = sorted(low.keys() & high.keys())
        return cls(seeds, [low[seed] for seed in seeds], [high[seed] for seed in seeds])

    def verdict(self) -> str:
        gain = mean(self.high) - mean(self.low)
        spread = max(max(side) - min(side) for side in (self.low, self.high))
        if len(self.seeds) == 1 or abs(gain) < spread:
            return UNDECIDED
        return HELD if gain > 0 else NOT_HELD


def list_claims(results: Results, beside: Beside) -> str:
    """Return every claim of the paper, and ours, with its numbers and verdict, as Markdown."""
    stream = find_stream_name(results)
    best = "OFO beats the best fixed K at every level"
    second = "(ours) the default's second pass adds at every level"
    lines = [
        *compare_ofo(results, best, "MaF", BLOCKS),
        *compare_ofo(results, best, "MiF", BLOCKS),
        *compare_ofo(results, f"(ours) with the default {best}", "MaF", DEFAULT_BLOCKS),
        *compare_ofo(results, f"(ours) with the default {best}", "MiF", DEFAULT_BLOCKS),
        *compare_blocks(results, f"{stream} add at every level", "MaF", *BLOCKS[:2]),
        *compare_blocks(results, f"{stream} add at every level", "MiF", *BLOCKS[:2]),
        *compare_blocks(results, "neighbour levels add at every level", "MaF", *BLOCKS[1:]),
        *compare_blocks(results, "neighbour levels add at every level", "MiF", *BLOCKS[1:]),
        *compare_blocks(results, second, "MaF", *DEFAULT_BLOCKS),
        *compare_blocks(results, second, "MiF", *DEFAULT_BLOCKS),
        *(line for claim in CLAIMS for line in compare_rows(results, *claim)),
        *compare_with_others(results, beside),
        *compare_rare_labels(results),
    ]
    head = ("claim", "verdict", "rows and seeds", "figures")
    about = (
        "A claim is undecided with one seed, or where seeds differ by more than the rows do. "
        "Rows are compared by the seeds that both have."
    )
    table = [format_row(*head), format_row(*["---"] * len(head)), *lines]
    return f"## Claims\n\n{about}\n\n" + "\n".join(table)


def format_row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def compare_rows(results: Results, claim: str, metric: str, better: str, worse: str) -> list[str]:
    """Compare two rows on test; empty where no seed was measured of both."""
    low, high = (
        {seed: run["test"][metric] for seed, run in group_by_seed(results, row).items()}
        for row in (worse, better)
    )
    pair = Pair.of(low, high)
    if not pair.seeds:
        return []
    figures = f"{format_spread(pair.high)} of `{better}`, {format_spread(pair.low)} of `{worse}`"
    return [format_row(f"{claim}, {metric}", pair.verdict(), format_seeds(pair.seeds), figures)]


def compare_with_others(results: Results, beside: Beside) -> list[str]:
    """Compare our rows with the systems of `--beside`, whose seeds are unknown."""
    lines = []
    for name, figures in beside.items():
        for row in ("full", "averaged", "attentive"):
            for metric in ("MiF", "MaF"):
                if row in results and metric in figures:
                    own = {s: run["test"][metric] for s, run in group_by_seed(results, row).items()}
                    pair = Pair.of(dict.fromkeys(own, figures[metric]), own)
                    claim = f"(ours) `{row}` beats {name}, {metric}"
                    shown = f"{format_spread(pair.high)}, {figures[metric]:.2f} of {name}"
                    seeds = format_seeds(pair.seeds)
                    lines.append(format_row(claim, pair.verdict(), seeds, shown))
    return lines


def compare_ofo(results: Results, claim: str, metric: str, wanted: Sequence[Block]) -> list[str]:
    """Count the levels of each block where OFO wins; the numbers are those of the last block."""
    blocks, stream = select_blocks(results, wanted), find_stream_name(results)
    if not blocks:
        return []
    pairs = {
        block: pair_levels(metric, runs, "top K", runs, "OFO") for block, runs in blocks.items()
    }
    verdict = worst(pair for found in pairs.values() for pair in found.values())
    origins = "; ".join(
        f"{format_title(block, stream)}: {format_origin(runs, block[1])}"
        for block, runs in blocks.items()
    )
    counts = "; ".join(
        f"{count(found)} with {format_title(block, stream)}" for block, found in pairs.items()
    )
    figures = f"{counts}; the last: {format_levels(next(reversed(pairs.values())))}"
    return [format_row(f"{claim}, {metric}", verdict, origins, figures)]


def compare_blocks(
    results: Results, claim: str, metric: str, less: Block, more: Block
) -> list[str]:
    """Compare a block of Tables 2 and 3 with the one before; empty where no seed has both."""
    low, high = (select_levels(results, *block[1:]) for block in (less, more))
    seeds = low.keys() & high.keys()
    if not seeds:
        return []
    pairs = pair_levels(metric, low, "OFO", high, "OFO")
    origin = format_origin(seeds, less[1], more[1])
    figures = f"{count(pairs)}: {format_levels(pairs)}"
    return [format_row(f"{claim}, {metric}", worst(pairs.values()), origin, figures)]


def worst(pairs: Iterable[Pair]) -> str:
    """Return the verdict on a claim about every level: that of its worst level."""
    return max((pair.verdict() for pair in pairs), key=(HELD, UNDECIDED, NOT_HELD).index)


def count(pairs: Mapping[str, Pair]) -> str:
    verdicts = [pair.verdict() for pair in pairs.values()]
    undecided = verdicts.count(UNDECIDED)
    return f"{verdicts.count(HELD)} of {len(pairs)} levels" + (
        f" ({undecided} undecided)" if undecided else ""
    )


def format_levels(pairs: Mapping[str, Pair]) -> str:
    return ", ".join(
        f"level {level} {mean(pair.low):.2f} -> {mean(pair.high):.2f}"
        for level, pair in pairs.items()
    )


def pair_levels(
    metric: str,
    low: Mapping[int, Mapping[str, Any]],
    low_kind: str,
    high: Mapping[int, Mapping[str, Any]],
    kind: str,
) -> dict[str, Pair]:
    """Return the pairs by level, for levels with labels in test."""
    first = next(iter(high.values()))
    return {
        level: Pair.of(
            {seed: run[level][low_kind][metric] for seed, run in low.items()},
            {seed: run[level][kind][metric] for seed, run in high.items()},
        )
        for level, about in first.items()
        if level.isdigit() and about["OFO"]
    }


def compare_rare_labels(results: Results) -> list[str]:
    """Compare rare labels, the motivation of the paper, with and without neighbour levels.

    By micro-F, because more predictions alone raise recall.
    """
    totals = [
        {seed: sum_rare(run["rare"]) for seed, run in group_by_seed(results, row).items()}
        for row in RARE_ROWS
    ]
    pair = Pair.of(*({seed: one["F"] for seed, one in part.items()} for part in totals))
    if not pair.seeds:
        return []
    some = totals[0][pair.seeds[0]]
    without, with_levels = (
        format_rare(row, [part[seed] for seed in pair.seeds])
        for row, part in zip(RARE_ROWS, totals, strict=True)
    )
    figures = (
        f"{some['true']:,.0f} test occurrences of {some['labels']:,.0f} labels with 10 to 50 "
        f"training documents; without neighbour levels {without}; with them {with_levels}"
    )
    claim = "neighbour levels help rare labels, F"
    return [format_row(claim, pair.verdict(), format_seeds(pair.seeds), figures)]


def format_rare(row: str, totals: Sequence[Mapping[str, float]]) -> str:
    of = {name: mean([total[name] for total in totals]) for name in totals[0]}
    return (
        f"F {of['F']:.1f} (`{row}`: recall {of['recall']:.1f}, precision {of['precision']:.1f}, "
        f"{of['predicted']:,.0f} predictions)"
    )


def sum_rare(bins: Bins) -> dict[str, float]:
    """Return the counts of all rare labels, and their micro recall, precision and F."""
    total = {name: sum(one[name] for one in bins.values()) for name in next(iter(bins.values()))}
    hit, true, predicted = total["hit"], total["true"], total["predicted"]
    return {
        **total,
        "recall": 100 * hit / max(1, true),
        "precision": 100 * hit / max(1, predicted),
        "F": 200 * hit / max(1, true + predicted),
    }

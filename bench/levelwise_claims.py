"""The claims of paper 000, and ours, each with its numbers: held, not held, or within the spread of
seeds. bench/levelwise_tables.py prints them."""

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
    blocks_of,
    by_seed,
    levels_of,
    mean,
    named,
    origin,
    spread,
    stream_name,
    title_of,
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
    ("(ours) odds against thresholds beat plain ones", "MiF", "odds", "full"),
    (
        "(ours) the default is better with odds against thresholds",
        "MiF", "attentive-odds", "attentive",
    ),
    ("(ours) pass 2 continued beats pass 2 anew", "MiF", "full", "anew"),
    ("(ours) pass 2 continued beats pass 2 anew", "MaF", "full", "anew"),
    ("(ours) both passes beat the second", "MiF", "averaged", "full"),
    ("(ours) both passes of the default beat the second", "MiF", "attentive", "attentive-last"),
    ("(ours) attention beats pooling", "MiF", "attention", "full"),
)  # fmt: skip
HELD, WITHIN, NOT_HELD = "**held**", "**within the spread of seeds**", "**not held**"


@dataclass(frozen=True)
class Pair:
    """Figures of the same seeds: `low` should be below `high`."""

    seeds: Sequence[int]
    low: Sequence[float]
    high: Sequence[float]

    @classmethod
    def of(cls, low: BySeed, high: BySeed) -> Pair:
        """Of the seeds that both have: other seeds may be luckier ones."""
        seeds = sorted(low.keys() & high.keys())
        return cls(seeds, [low[seed] for seed in seeds], [high[seed] for seed in seeds])

    def verdict(self) -> str:
        gain = mean(self.high) - mean(self.low)
        if abs(gain) < max(max(side) - min(side) for side in (self.low, self.high)):
            return WITHIN
        return HELD if gain > 0 else NOT_HELD


def claims_list(results: Results, beside: Beside) -> str:
    """Every claim of the paper, and ours, with its numbers: held, not held, or within the spread of
    seeds."""
    stream = stream_name(results)
    best = "OFO beats the best fixed K at every level"
    second = "(ours) the default's second pass adds at every level"
    lines = [
        *ofo_claim(results, best, "MaF", BLOCKS),
        *ofo_claim(results, best, "MiF", BLOCKS),
        *ofo_claim(results, f"(ours) with the default {best}", "MaF", DEFAULT_BLOCKS),
        *ofo_claim(results, f"(ours) with the default {best}", "MiF", DEFAULT_BLOCKS),
        *added_claim(results, f"{stream} add at every level", "MaF", *BLOCKS[:2]),
        *added_claim(results, f"{stream} add at every level", "MiF", *BLOCKS[:2]),
        *added_claim(results, "neighbour levels add at every level", "MaF", *BLOCKS[1:]),
        *added_claim(results, "neighbour levels add at every level", "MiF", *BLOCKS[1:]),
        *added_claim(results, second, "MaF", *DEFAULT_BLOCKS),
        *added_claim(results, second, "MiF", *DEFAULT_BLOCKS),
        *(line for claim in CLAIMS for line in test_claim(results, *claim)),
        *beside_claims(results, beside),
        *rare_sentence(results),
    ]
    return "## Claims\n\n" + "\n".join(lines)


def test_claim(results: Results, claim: str, metric: str, better: str, worse: str) -> list[str]:
    """Nothing where no seed was measured of both rows."""
    low, high = (
        {seed: run["test"][metric] for seed, run in by_seed(results, row).items()}
        for row in (worse, better)
    )
    pair = Pair.of(low, high)
    if not pair.seeds:
        return []
    said = f"{metric} {spread(pair.high)} of `{better}`, {spread(pair.low)} of `{worse}`"
    return [f"- {claim}: {pair.verdict()} ({named(pair.seeds)}): {said}"]


def beside_claims(results: Results, beside: Beside) -> list[str]:
    """Our systems against those of `--beside`, of which no seeds are known."""
    lines = []
    for name, figures in beside.items():
        for row in ("full", "averaged", "attentive"):
            for metric in ("MiF", "MaF"):
                if row in results and metric in figures:
                    own = {s: run["test"][metric] for s, run in by_seed(results, row).items()}
                    pair = Pair.of(dict.fromkeys(own, figures[metric]), own)
                    held = f"{pair.verdict()} ({named(pair.seeds)})"
                    said = f"{metric} {spread(pair.high)}, {figures[metric]:.2f} of {name}"
                    lines.append(f"- (ours) `{row}` beats {name}: {held}: {said}")
    return lines


def ofo_claim(results: Results, claim: str, metric: str, wanted: Sequence[Block]) -> list[str]:
    """At how many levels of each block; the numbers are the last block's."""
    blocks, stream = blocks_of(results, wanted), stream_name(results)
    if not blocks:
        return []
    pairs = {
        block: level_pairs(metric, runs, "top K", runs, "OFO") for block, runs in blocks.items()
    }
    held = worst(pair for found in pairs.values() for pair in found.values())
    counts = ", ".join(
        f"{count(found)} with {title_of(block, stream)} ({origin(blocks[block], block[1])})"
        for block, found in pairs.items()
    )
    last = f"the last: {listed(next(reversed(pairs.values())))}"
    return [f"- {claim}, {metric}: {held}: {counts}; {last}"]


def added_claim(results: Results, claim: str, metric: str, less: Block, more: Block) -> list[str]:
    """A block of Tables 2 and 3 against the one before it; nothing where no seed has both."""
    low, high = (levels_of(results, *block[1:]) for block in (less, more))
    seeds = low.keys() & high.keys()
    if not seeds:
        return []
    pairs = level_pairs(metric, low, "OFO", high, "OFO")
    held = f"{worst(pairs.values())} ({origin(seeds, less[1], more[1])})"
    return [f"- {claim}, {metric}: {held}: {count(pairs)}: {listed(pairs)}"]


def worst(pairs: Iterable[Pair]) -> str:
    """The verdict on a claim about every level: that of the level which speaks most against it."""
    return max((pair.verdict() for pair in pairs), key=(HELD, WITHIN, NOT_HELD).index)


def count(pairs: Mapping[str, Pair]) -> str:
    verdicts = [pair.verdict() for pair in pairs.values()]
    within = verdicts.count(WITHIN)
    return f"{verdicts.count(HELD)} of {len(pairs)} levels" + (
        f" ({within} within the spread)" if within else ""
    )


def listed(pairs: Mapping[str, Pair]) -> str:
    return ", ".join(
        f"level {level} {mean(pair.low):.2f} -> {mean(pair.high):.2f}"
        for level, pair in pairs.items()
    )


def level_pairs(
    metric: str,
    low: Mapping[int, Mapping[str, Any]],
    low_kind: str,
    high: Mapping[int, Mapping[str, Any]],
    kind: str,
) -> dict[str, Pair]:
    """By level, of the levels that test documents have labels at."""
    first = next(iter(high.values()))
    return {
        level: Pair.of(
            {seed: run[level][low_kind][metric] for seed, run in low.items()},
            {seed: run[level][kind][metric] for seed, run in high.items()},
        )
        for level, about in first.items()
        if level.isdigit() and about["OFO"]
    }


def rare_sentence(results: Results) -> list[str]:
    """The paper's motivation: labels that few training documents have. Judged by their micro-F:
    whoever predicts more finds more."""
    totals = [
        {seed: rare_total(run["rare"]) for seed, run in by_seed(results, row).items()}
        for row in RARE_ROWS
    ]
    pair = Pair.of(*({seed: one["F"] for seed, one in part.items()} for part in totals))
    if not pair.seeds:
        return []
    some = totals[0][pair.seeds[0]]
    without, with_levels = (
        rare_figures(row, [part[seed] for seed in pair.seeds])
        for row, part in zip(RARE_ROWS, totals, strict=True)
    )
    return [
        f"- neighbour levels help rare labels: {pair.verdict()} ({named(pair.seeds)}): of the "
        f"{some['true']:,.0f} test occurrences of {some['labels']:,.0f} labels with 10 to 50 "
        f"training documents, without neighbour levels {without}, with them {with_levels}"
    ]


def rare_figures(row: str, totals: Sequence[Mapping[str, float]]) -> str:
    of = {name: mean([total[name] for total in totals]) for name in totals[0]}
    return (
        f"F {of['F']:.1f} (`{row}`: recall {of['recall']:.1f}, precision {of['precision']:.1f}, "
        f"{of['predicted']:,.0f} predictions)"
    )


def rare_total(bins: Bins) -> dict[str, float]:
    """The counts of all rare labels together, and their micro recall, precision and F."""
    total = {name: sum(one[name] for one in bins.values()) for name in next(iter(bins.values()))}
    hit, true, predicted = total["hit"], total["true"], total["predicted"]
    return {
        **total,
        "recall": 100 * hit / max(1, true),
        "precision": 100 * hit / max(1, predicted),
        "F": 200 * hit / max(1, true + predicted),
    }

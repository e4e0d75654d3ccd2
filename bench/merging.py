"""What the pointer generator's settings are worth, on the answers of any run and with dev alone.

    python bench/merging.py RUN dev.jsonl --max-level 4 --rows paper forward share odds

The run's ranking of each document stands for what levels would say. Of the documents, which the run
must not have learned from, two thirds teach thresholds and pointer generator, a sixth stops its
training and chooses its reward, and the last sixth is measured. Prints micro- and macro-F of the
rules of `decide` and of each row as a Markdown table.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.config import build
from ontodex.decide import DecideConfig, tune
from ontodex.evaluate.sets import set_metrics
from ontodex.models.level_decide import DEPTH, learn_thresholds
from ontodex.models.level_merge import Judged, Merge
from ontodex.models.level_network import LevelwiseConfig
from ontodex.models.level_pieces import Pieces
from ontodex.models.level_plan import place_labels, side_by_side
from ontodex.models.pointer import Hierarchy
from ontodex.ontology.levels import label_ancestors
from ontodex.read import open_corpus
from ontodex.run import load
from ontodex.train.device import pick
from ontodex.types import Ranking

ROWS: dict[str, dict[str, Any]] = {
    "union": {"merge": "threshold"},
    "paper": {"pointer": {"order": "any", "share": 1.0}},
    "forward": {"pointer": {"share": 1.0}},
    "share": {},
    "odds": {"pointer": {"odds": "threshold"}},
    "label": {"pointer": {"unit": "label"}},
}
RULES = (
    DecideConfig(rule="threshold"),
    DecideConfig(rule="per-label"),
    DecideConfig(rule="ofo"),
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--max-level", type=int, default=7)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=list(ROWS))
    arguments = parser.parse_args()
    run, corpus = load(arguments.run), open_corpus(arguments.corpus)
    labels = run.labels
    level = place_labels(
        labels, max_level=arguments.max_level, rule="min", categories="dealt"
    ).level
    n = labels.n_seen
    hierarchy = Hierarchy(
        level[:n].astype(np.int64), csr_array(label_ancestors(labels)[:n, :n]), labels.frequency[:n]
    )
    ranking = run.model.rank(corpus, 100)
    ranking = ranking.keep((ranking.columns >= 0) & (ranking.columns < n))
    gold = labels.gold(corpus)
    shuffled = np.random.default_rng(arguments.seed).permutation(len(corpus))
    learn, check, held = np.split(shuffled, [len(corpus) * 4 // 6, len(corpus) * 5 // 6])

    def judged(rows: NDArray[np.int64]) -> Judged:
        numbers = np.unique(hierarchy.level)
        return Judged([_at(ranking.take(rows), level, m) for m in numbers], csr_array(gold[rows]))

    truth = csr_array(gold[held])
    sys.stdout.write(f"{len(learn):,} documents teach, {len(check):,} stop, {len(held):,} tell\n\n")
    sys.stdout.write("| | MiF | MaF | seconds |\n|---|---:|---:|---:|\n")
    for rule in RULES:
        decision = tune(rule, ranking.take(learn), csr_array(gold[learn]), labels)
        _print(f"rule `{rule.rule}`", truth, decision.apply(ranking.take(held)), 0.0)
    for row in arguments.rows:
        settings = {"pointer": {}, **ROWS[row]}
        training = {"epochs": arguments.epochs, "seed": arguments.seed}
        settings["pointer"] = {**settings["pointer"], "train": training}
        config = build(LevelwiseConfig, settings, "model")
        merge = Merge(config, hierarchy, n, pick("auto"))
        taught = judged(learn)
        known = csr_array(taught.gold[:, :n])
        thresholds = learn_thresholds(config, side_by_side(taught.rankings), known).thresholds
        began = time.monotonic()
        pieces = Pieces(None, {}, {}, 1)
        merge.fit(taught._replace(gold=known), judged(check), thresholds, pieces, None)
        chosen = merge.ranked(judged(held).rankings, thresholds, DEPTH).chosen
        _print(f"`{row}`", truth, chosen, time.monotonic() - began)


def _at(ranking: Ranking, level: NDArray[np.int32], number: int) -> Ranking:
    """The answers at one level, as many as levels keep."""
    return ranking.keep(level[ranking.columns] == number).cut(DEPTH)


def _print(name: str, gold: csr_array, chosen: Ranking, seconds: float) -> None:
    found = set_metrics(gold, chosen)
    shown = " | ".join(f"{100 * found[metric]:.2f}" for metric in ("MiF", "MaF"))
    sys.stdout.write(f"| {name} | {shown} | {seconds:.0f} |\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

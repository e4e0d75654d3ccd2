"""Ablation of the settings of the pointer generator on the predictions of any run.

    python bench/merging.py RUN dev.jsonl --max-level 4 --rows paper forward share
    python bench/merging.py RUN dev.jsonl --max-level 4 --rows share --train train.jsonl

The ranking of the run replaces the predictions of the levels. The run must not have been trained on
the corpus: two thirds of it train thresholds and pointer generator, a sixth is dev, and a sixth is
measured. With `--train`, the training documents of the run train them instead, by out-of-fold
predictions of systems with its settings; half of the corpus is dev and half is measured, and logits
are shifted as in `levelwise`. Prints micro- and macro-F of each row as a Markdown table.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.config import vary
from ontodex.corpora.open import open_corpus
from ontodex.evaluation.sets import set_metrics
from ontodex.io.device import choose_device
from ontodex.models.attentive_levels.config import AttentiveLevelsConfig, OrderedPointerConfig
from ontodex.models.levelwise.cross_fitting import assign_folds
from ontodex.models.levelwise.levels import join_levels
from ontodex.models.levelwise.merge import Merge, Predictions
from ontodex.models.levelwise.pointer import Hierarchy
from ontodex.models.levelwise.stage_cache import StageCache
from ontodex.models.levelwise.thresholds import (
    DEPTH,
    find_best_shifts,
    learn_thresholds,
    shift_logits,
)
from ontodex.ontology.levels import compute_label_ancestors, compute_label_levels
from ontodex.runs.run import Run, load
from ontodex.types import Corpus, LabelSpace, Ranking
from ontodex.types.loop_config import NetworkLoopConfig

RANKS = 100
ROWS: dict[str, dict[str, Any]] = {  # constants of the pointer generator
    "union": {},
    "paper": {"order": "any", "candidate_threshold_ratio": 1.0, "length_reward": False},
    "forward": {"candidate_threshold_ratio": 1.0},
    "share": {},
    "label": {"unit": "label"},
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--train", type=Path)
    parser.add_argument("--max-level", type=int, default=7)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=list(ROWS))
    arguments = parser.parse_args()
    run, corpus = load(arguments.run), open_corpus(arguments.corpus)
    placed = LevelPlan.of(run.labels, arguments.max_level)
    predicted = placed.split_levels(run.model.rank(corpus, RANKS), run.labels.gold(corpus))
    shuffled = np.random.default_rng(arguments.seed).permutation(len(corpus))
    if arguments.train is None:
        parts = np.split(shuffled, [len(corpus) * 4 // 6, len(corpus) * 5 // 6])
        learn, check, held = (take(predicted, rows) for rows in parts)
    else:
        train = open_corpus(arguments.train)
        learn = placed.split_levels(*predict_out_of_fold(run, train, corpus, arguments.seed))
        check, held = (take(predicted, rows) for rows in np.array_split(shuffled, 2))
    sizes = [part.gold.shape[0] for part in (learn, check, held)]
    sys.stdout.write("{:,} training, {:,} dev, {:,} test documents\n\n".format(*sizes))
    sys.stdout.write("| | MiF | MaF | seconds |\n|---|---:|---:|---:|\n")
    for row in arguments.rows:
        pointer = vary(OrderedPointerConfig(), epochs=arguments.epochs, **ROWS[row])
        config = AttentiveLevelsConfig(
            merge="threshold" if row == "union" else "pointer",
            pointer=pointer,
            train=NetworkLoopConfig(seed=arguments.seed),
        )
        began = time.monotonic()
        is_shifted = arguments.train is not None
        chosen = merge_predictions(
            config, placed, learn, check, held.rankings, is_shifted=is_shifted
        )
        found = set_metrics(held.gold, chosen)
        shown = " | ".join(f"{100 * found[metric]:.2f}" for metric in ("MiF", "MaF"))
        sys.stdout.write(f"| `{row}` | {shown} | {time.monotonic() - began:.0f} |\n")
        sys.stdout.flush()


@dataclass(frozen=True, eq=False)
class LevelPlan:
    """The levels of the labels of a run."""

    hierarchy: Hierarchy
    numbers: list[int]

    @classmethod
    def of(cls, labels: LabelSpace, max_level: int) -> LevelPlan:
        n = labels.n_seen
        level = compute_label_levels(labels, max_level=max_level, rule="min")[:n].astype(np.int64)
        above = csr_array(compute_label_ancestors(labels)[:n, :n])
        hierarchy = Hierarchy(level, above, labels.frequency[:n])
        return cls(hierarchy, np.unique(level).tolist())

    def split_levels(self, ranking: Ranking, gold: csr_array) -> Predictions:
        """Return the predictions of each level, as many as levels keep."""
        level = self.hierarchy.level
        known = ranking.keep((ranking.columns >= 0) & (ranking.columns < len(level)))
        return Predictions(
            [known.keep(level[known.columns] == m).cut(DEPTH) for m in self.numbers], gold
        )


def take(predicted: Predictions, rows: NDArray[np.int64]) -> Predictions:
    return Predictions(
        [ranking.take(rows) for ranking in predicted.rankings], csr_array(predicted.gold[rows])
    )


def predict_out_of_fold(
    run: Run, train: Corpus, dev: Corpus, seed: int
) -> tuple[Ranking, csr_array]:
    """Return out-of-fold predictions by systems with the settings of the run."""
    fold = assign_folds(len(train), 2, seed)
    parts = []
    for number in range(2):
        model = run.settings.model_class(run.settings.model, device=choose_device("auto"))
        model.fit(train.select(fold != number), dev, run.labels)
        parts.append(model.rank(train.select(fold == number), RANKS))
    back = np.argsort(np.argsort(fold, kind="stable"))
    return Ranking.join(parts, RANKS).take(back), run.labels.gold(train)


def merge_predictions(
    config: AttentiveLevelsConfig,
    placed: LevelPlan,
    learn: Predictions,
    check: Predictions,
    asked: Sequence[Ranking],
    *,
    is_shifted: bool,
) -> Ranking:
    """Return the label sets of `asked` by thresholds and a pointer generator trained on `learn`."""
    n = len(placed.hierarchy.level)
    learn = learn._replace(gold=csr_array(learn.gold[:, :n]))
    thresholds = learn_thresholds(config, join_levels(learn.rankings), learn.gold).thresholds
    if is_shifted:
        shifts = find_best_shifts(check.rankings, check.gold, thresholds)
        check = check._replace(rankings=list(map(shift_logits, check.rankings, shifts)))
        asked = list(map(shift_logits, asked, shifts))
    merge = Merge(config, placed.hierarchy, choose_device("auto"))
    merge.fit(learn, check, thresholds, StageCache(None, {}, {}, 1), None)
    return merge.predict(asked, thresholds, DEPTH).label_sets


if __name__ == "__main__":
    main()

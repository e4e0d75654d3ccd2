"""What the pointer generator's settings are worth, on the answers of any run and without test.

    python bench/merging.py RUN dev.jsonl --max-level 4 --rows paper forward share odds
    python bench/merging.py RUN dev.jsonl --max-level 4 --rows share odds --train train.jsonl

The run's ranking of each document stands for what levels would say. Of the documents, which the run
must not have learned from, two thirds teach thresholds and pointer generator, a sixth stops its
training and chooses its reward, and the last sixth is measured. With the documents that the run has
learned from (`--train`), these teach: systems with its settings are trained without their fold and
predict them, and half of the others stop, half are measured; log-odds are moved as `levelwise`
moves them. Prints micro- and macro-F of OFO's union and of each row as a Markdown table.
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

from ontodex.config import build
from ontodex.evaluate.sets import set_metrics
from ontodex.models.level_decide import DEPTH, best_moves, learn_thresholds, moved
from ontodex.models.level_merge import Judged, Merge
from ontodex.models.level_network import LevelwiseConfig
from ontodex.models.level_passes import fold_of
from ontodex.models.level_pieces import Pieces
from ontodex.models.level_plan import side_by_side
from ontodex.models.pointer import Hierarchy
from ontodex.ontology.levels import label_ancestors, label_levels
from ontodex.read import open_corpus
from ontodex.run import Run, load
from ontodex.train.device import pick
from ontodex.types import Corpus, LabelSpace, Ranking

RANKS = 100
ROWS: dict[str, dict[str, Any]] = {
    "union": {"merge": "threshold"},
    "paper": {"pointer": {"order": "any", "share": 1.0}},
    "forward": {"pointer": {"share": 1.0}},
    "share": {},
    "odds": {"pointer": {"odds": "threshold"}},
    "label": {"pointer": {"unit": "label"}},
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
    placed = Placed.of(run.labels, arguments.max_level)
    said = placed.judged(run.model.rank(corpus, RANKS), run.labels.gold(corpus))
    shuffled = np.random.default_rng(arguments.seed).permutation(len(corpus))
    if arguments.train is None:
        parts = np.split(shuffled, [len(corpus) * 4 // 6, len(corpus) * 5 // 6])
        learn, check, held = (take(said, rows) for rows in parts)
    else:
        train = open_corpus(arguments.train)
        learn = placed.judged(*out_of_fold(run, train, corpus, arguments.seed))
        check, held = (take(said, rows) for rows in np.array_split(shuffled, 2))
    sizes = [part.gold.shape[0] for part in (learn, check, held)]
    sys.stdout.write("{:,} documents teach, {:,} stop, {:,} tell\n\n".format(*sizes))
    sys.stdout.write("| | MiF | MaF | seconds |\n|---|---:|---:|---:|\n")
    for row in arguments.rows:
        settings = {"pointer": {}, **ROWS[row]}
        training = {"epochs": arguments.epochs, "seed": arguments.seed}
        settings["pointer"] = {**settings["pointer"], "train": training}
        config = build(LevelwiseConfig, settings, "model")
        began = time.monotonic()
        is_moved = arguments.train is not None
        chosen = merged(config, placed, learn, check, held.rankings, is_moved=is_moved)
        found = set_metrics(held.gold, chosen)
        shown = " | ".join(f"{100 * found[metric]:.2f}" for metric in ("MiF", "MaF"))
        sys.stdout.write(f"| `{row}` | {shown} | {time.monotonic() - began:.0f} |\n")
        sys.stdout.flush()


@dataclass(frozen=True, eq=False)
class Placed:
    """The labels of a run in their levels."""

    hierarchy: Hierarchy
    numbers: list[int]

    @classmethod
    def of(cls, labels: LabelSpace, max_level: int) -> Placed:
        n = labels.n_seen
        level = label_levels(labels, max_level=max_level, rule="min")[:n].astype(np.int64)
        above = csr_array(label_ancestors(labels)[:n, :n])
        hierarchy = Hierarchy(level, above, labels.frequency[:n])
        return cls(hierarchy, np.unique(level).tolist())

    def judged(self, ranking: Ranking, gold: csr_array) -> Judged:
        """What each level says, as many labels as levels keep."""
        level = self.hierarchy.level
        known = ranking.keep((ranking.columns >= 0) & (ranking.columns < len(level)))
        return Judged(
            [known.keep(level[known.columns] == m).cut(DEPTH) for m in self.numbers], gold
        )


def take(said: Judged, rows: NDArray[np.int64]) -> Judged:
    return Judged([ranking.take(rows) for ranking in said.rankings], csr_array(said.gold[rows]))


def out_of_fold(run: Run, train: Corpus, dev: Corpus, seed: int) -> tuple[Ranking, csr_array]:
    """What systems like the run's say of training documents that they have not seen."""
    fold = fold_of(len(train), 2, seed)
    parts = []
    for number in range(2):
        model = run.settings.model_class(run.settings.model, device=pick("auto"))
        model.fit(train.select(fold != number), dev, run.labels)
        parts.append(model.rank(train.select(fold == number), RANKS))
    back = np.argsort(np.argsort(fold, kind="stable"))
    return Ranking.join(parts, RANKS).take(back), run.labels.gold(train)


def merged(
    config: LevelwiseConfig,
    placed: Placed,
    learn: Judged,
    check: Judged,
    asked: Sequence[Ranking],
    *,
    is_moved: bool,
) -> Ranking:
    """The sets of what is asked, by thresholds and a pointer generator that learned from others."""
    n = len(placed.hierarchy.level)
    learn = learn._replace(gold=csr_array(learn.gold[:, :n]))
    thresholds = learn_thresholds(config, side_by_side(learn.rankings), learn.gold).thresholds
    if is_moved:
        moves = best_moves(check.rankings, check.gold, thresholds)
        check = check._replace(rankings=list(map(moved, check.rankings, moves)))
        asked = list(map(moved, asked, moves))
    merge = Merge(config, placed.hierarchy, pick("auto"))
    merge.fit(learn, check, thresholds, Pieces(None, {}, {}, 1), None)
    return merge.ranked(asked, thresholds, DEPTH).chosen


if __name__ == "__main__":
    main()

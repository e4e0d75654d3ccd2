"""Join a network's rankings with runs trained here (AttentionXML, Eq. 9), and print its tables.

    python bench/consensus.py out/attentive.npz --runs runs/linear runs/parabel \
        --dev dev.jsonl --test test.jsonl

The .npz is what bench/train_and_rank.py kept of each seed on a GPU machine, where the linear runs
need not be. Prints Markdown: every single system and every consensus with the network (mean over
seeds, lowest and highest behind it; exponents 1 or from dev, sets by one threshold from dev), the
overlap of the first k
(Table 4), AUC and AUPR by how often labels occur (Table 6).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from ontodex.corpora.open import open_corpus
from ontodex.decide.config import DecideConfig
from ontodex.decide.decision import tune_decision
from ontodex.evaluation.auc import auc_by_occurrence
from ontodex.evaluation.metrics import evaluate
from ontodex.evaluation.significance import overlap
from ontodex.models.consensus import Consensus
from ontodex.runs.run import load
from ontodex.types import Corpus, LabelSpace, Ranking

FIGURES = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@5", "MiF", "MaF")


class Kept:
    """A system that was asked elsewhere, or once: it answers from its rankings."""

    def __init__(self, rankings: dict[str, Ranking]) -> None:
        self.rankings = rankings

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        return self.rankings[corpus.key].cut(k)


@dataclass(frozen=True)
class Member:
    folder: Path
    labels: LabelSpace
    model: Any


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rankings", type=Path)
    parser.add_argument("--runs", type=Path, nargs="+", required=True)
    parser.add_argument("--dev", type=Path, required=True)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--weights", choices=["equal", "dev"], default="equal")
    given = parser.parse_args()
    dev, test = open_corpus(given.dev), open_corpus(given.test)
    runs = [load(folder) for folder in given.runs]
    labels = runs[0].labels
    beside = [
        Member(run.folder, run.labels, Kept({c.key: run.rank(c) for c in (dev, test)}))
        for run in runs
    ]
    seeds = read_seeds(given.rankings, dev, test, labels)
    say(f"| system | {' | '.join(FIGURES)} |")
    say("|---" * (len(FIGURES) + 1) + "|")
    for member in beside:
        row(member.folder.name, [figures([member], dev, test, labels)])
    row(given.rankings.stem, [figures([seed], dev, test, labels) for seed in seeds])
    for size in range(1, len(beside) + 1):
        for chosen in combinations(beside, size):
            name = " + ".join([given.rankings.stem, *(m.folder.name for m in chosen)])
            row(
                name, [figures([seed, *chosen], dev, test, labels, given.weights) for seed in seeds]
            )
    tables(given.rankings.stem, seeds[0], beside, test, labels)


def read_seeds(path: Path, dev: Corpus, test: Corpus, labels: LabelSpace) -> list[Member]:
    """The network of each seed, as a member that answers from the file."""
    kept = np.load(path)
    members = []
    for seed in range(len(kept["dev_columns"])):
        rankings = {
            corpus.key: Ranking.sort(
                kept[f"{part}_columns"][seed].astype(np.int64),
                kept[f"{part}_p"][seed].astype(np.float32),
                kept[f"{part}_columns"].shape[2],
            )
            for part, corpus in (("dev", dev), ("test", test))
        }
        members.append(Member(path, labels, Kept(rankings)))
    return members


def figures(
    members: Sequence[Member], dev: Corpus, test: Corpus, labels: LabelSpace, weights: str = "equal"
) -> list[float]:
    """One system's or one consensus's figures on test, its threshold from dev."""
    system = members[0].model if len(members) == 1 else Consensus.of(members, labels)
    if weights == "dev":
        system.fit_weights(dev, labels.gold(dev))
    decision = tune_decision(
        DecideConfig(rule="threshold"), system.rank(dev, 100), labels.gold(dev), labels
    )
    ranking = system.rank(test, 100)
    metrics = evaluate(labels.gold(test), ranking, decision.apply(ranking), labels, replicates=0)
    return [100 * metrics[name] for name in FIGURES]


def row(name: str, seeds: Sequence[Sequence[float]]) -> None:
    cells = []
    for values in zip(*seeds, strict=True):
        spread = f" ({min(values):.2f} to {max(values):.2f})" if len(values) > 1 else ""
        cells.append(f"{np.mean(values):.2f}{spread}")
    say(f"| {name} | {' | '.join(cells)} |")


def tables(
    name: str, network: Member, beside: Sequence[Member], test: Corpus, labels: LabelSpace
) -> None:
    """Table 4 and Table 6 of AttentionXML, with the network's first seed."""
    first = network.model.rank(test, 100)
    say("\n| first k also in that of | 1 | 2 | 3 | 4 | 5 |\n|---|---|---|---|---|---|")
    for member in beside:
        shares = [100 * overlap(first, member.model.rank(test, 100), k) for k in range(1, 6)]
        say(f"| {member.folder.name} | {' | '.join(f'{share:.0f}' for share in shares)} |")
    say("\n| system | test occurrences | labels | share | AUC | AUPR |\n|---|---|---|---|---|---|")
    gold = labels.gold(test)
    for system, ranking in [
        (name, first),
        *((m.folder.name, m.model.rank(test, 100)) for m in beside),
    ]:
        for group in auc_by_occurrence(gold, ranking):
            say(
                f"| {system} | {group.least} to {group.most} | {group.labels} | "
                f"{100 * group.share:.0f} % | {group.auc:.4f} | {group.aupr:.4f} |"
            )


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

"""Join rankings that were kept in files, with each other or with runs trained here.

    python bench/consensus.py out/attentive.npz --runs runs/linear runs/parabel \
        --dev dev.jsonl --test test.jsonl
    python bench/consensus.py rankings/*.npz --train train.jsonl --ontology ontology.json \
        --dev dev.jsonl --test test.jsonl --weights select

An .npz holds columns and probabilities of dev and test: of one training, or a row of arrays for
each seed, as bench/train_and_rank.py keeps them on a GPU machine. Columns are those of the first
run, else of the label space of --train and --ontology.

With `--weights select` every file, seed and run is a candidate: members, join and weights are
chosen on dev as `ontodex train --model consensus --runs` does. Prints each candidate and what it
adds, and the consensus after each addition.

Else the first file is a network, and the tables are those of AttentionXML. The first has every
single system and every consensus with the network: the mean over seeds, the lowest and the highest.
Exponents are 1 or from dev, and sets are made by one threshold from dev. Then come the overlap of
the first k (Table 4), and AUC and AUPR by how often labels occur (Table 6).
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
from ontodex.evaluation.ranking import f1, score_documents
from ontodex.evaluation.significance import overlap
from ontodex.models.consensus.reranker import LabelCounts
from ontodex.models.consensus.system import Consensus
from ontodex.ontology.open import read_ontology
from ontodex.runs.run import load
from ontodex.types import Corpus, LabelSpace, Ranking

FIGURES = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@5", "MiF", "MaF")
SELECTED = ("P@1", "P@3", "P@5", "nDCG@5", "F1@5", "MiF")


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
    parser.add_argument("rankings", type=Path, nargs="*")
    parser.add_argument("--runs", type=Path, nargs="*", default=[])
    parser.add_argument("--train", type=Path, help="of select, and of the labels without runs")
    parser.add_argument("--ontology", type=Path)
    parser.add_argument("--dev", type=Path, required=True)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--weights", choices=["equal", "dev", "select"], default="equal")
    parser.add_argument("--by", default="", help="select: F1@5 by this metadata, e.g. language")
    given = parser.parse_args()
    dev, test = open_corpus(given.dev), open_corpus(given.test)
    runs = [load(folder) for folder in given.runs]
    labels = runs[0].labels if runs else read_labels(given.train, given.ontology)
    beside = [
        Member(run.folder, run.labels, Kept({c.key: run.rank(c) for c in (dev, test)}))
        for run in runs
    ]
    kept = [read_seeds(path, dev, test, labels) for path in given.rankings]
    if given.weights == "select":
        candidates = [*(one for seeds in kept for one in seeds), *beside]
        consensus = print_selection(candidates, open_corpus(given.train), dev, test, labels)
        if given.by:
            print_groups([*candidates, consensus], test, labels, given.by)
    else:
        compare_network(kept[0], beside, dev, test, labels, given.weights)


def read_labels(train: Path, ontology: Path) -> LabelSpace:
    return LabelSpace.of(open_corpus(train), read_ontology(ontology))


def read_seeds(path: Path, dev: Corpus, test: Corpus, labels: LabelSpace) -> list[Member]:
    """The system of each seed, as a member that answers from the file."""
    kept = np.load(path)
    arrays = {name: kept[name] for name in kept.files}
    if arrays["dev_columns"].ndim == 2:
        arrays = {name: values[None] for name, values in arrays.items()}
    members = []
    for seed in range(len(arrays["dev_columns"])):
        rankings = {
            corpus.key: Ranking.sort(
                arrays[f"{part}_columns"][seed].astype(np.int64),
                arrays[f"{part}_p"][seed].astype(np.float32),
                arrays[f"{part}_columns"].shape[2],
            )
            for part, corpus in (("dev", dev), ("test", test))
        }
        name = path.stem if len(arrays["dev_columns"]) == 1 else f"{path.stem}, {seed + 1}"
        members.append(Member(Path(name), labels, Kept(rankings)))
    return members


def print_selection(
    candidates: Sequence[Member], train: Corpus, dev: Corpus, test: Corpus, labels: LabelSpace
) -> Member:
    """Print every candidate and the consensus after each step; return the consensus."""
    names = [str(one.folder.name) for one in candidates]
    joined = Consensus.of(candidates, labels, join="best")
    found = joined.select(dev, labels.gold(dev), LabelCounts.of(labels, labels.gold(train)))
    header = " | ".join([*(f"dev {name}" for name in SELECTED), *SELECTED])
    say(f"| candidate | weight | adds on dev | {header} |")
    say("|---" * (2 * len(SELECTED) + 3) + "|")
    for number, one in enumerate(candidates):
        adds = f"{100 * (found.score - found.without[number]):.2f}"
        cells = [names[number], f"{found.weights[number]:g}", adds]
        say(f"| {' | '.join([*cells, *format_parts(one.model, dev, test, labels)])} |")
    used = list[int]()
    for step in found.steps:
        used.append(step.member)
        partial = Consensus.of(
            [candidates[i] for i in used],
            labels,
            weights=[found.weights[i] or step.weight for i in used],
            join=found.join,
        )
        cells = [f"+ {names[step.member]}", f"{step.weight:g}", f"{100 * step.gain:.2f}"]
        say(f"| {' | '.join([*cells, *format_parts(partial, dev, test, labels)])} |")
    cells = [f"consensus ({found.join})", "", ""]
    say(f"| {' | '.join([*cells, *format_parts(joined, dev, test, labels)])} |")
    return Member(Path("consensus"), labels, joined)


def format_parts(model: Any, dev: Corpus, test: Corpus, labels: LabelSpace) -> list[str]:
    """Return the figures on dev and on test; sets by the default rule, tuned on dev."""
    gold = labels.gold(dev)
    decision = tune_decision(DecideConfig(), model.rank(dev, 100), gold, labels)
    cells = []
    for corpus in (dev, test):
        ranking = model.rank(corpus, 100)
        metrics = evaluate(
            labels.gold(corpus), ranking, decision.apply(ranking), labels, replicates=0
        )
        cells += [f"{100 * metrics[name]:.2f}" for name in SELECTED]
    return cells


def print_groups(members: Sequence[Member], test: Corpus, labels: LabelSpace, key: str) -> None:
    """Print F1@5 on the test documents of each value of a metadata field."""
    own = np.array([str(doc.metadata.get(key, "")) for doc in test])
    groups = np.unique(own).tolist()
    gold = labels.gold(test)
    say(f"\n| F1@5 on test | {' | '.join(groups)} | all |")
    say("|---" * (len(groups) + 2) + "|")
    for member in members:
        scores = 100 * score_documents(f1, 5, gold, member.model.rank(test, 5))
        cells = [f"{np.nanmean(scores[own == one]):.2f}" for one in groups]
        say(f"| {member.folder.name} | {' | '.join(cells)} | {np.nanmean(scores):.2f} |")


def compare_network(
    seeds: Sequence[Member],
    beside: Sequence[Member],
    dev: Corpus,
    test: Corpus,
    labels: LabelSpace,
    weights: str,
) -> None:
    """Print the tables of a network and of its consensus with each choice of the runs."""
    network = seeds[0].folder.name.split(",")[0]
    say(f"| system | {' | '.join(FIGURES)} |")
    say("|---" * (len(FIGURES) + 1) + "|")
    for member in beside:
        row(member.folder.name, [figures([member], dev, test, labels)])
    row(network, [figures([seed], dev, test, labels) for seed in seeds])
    for size in range(1, len(beside) + 1):
        for chosen in combinations(beside, size):
            name = " + ".join([network, *(m.folder.name for m in chosen)])
            row(name, [figures([seed, *chosen], dev, test, labels, weights) for seed in seeds])
    tables(network, seeds[0], beside, test, labels)


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

"""Speed of the pointer generator on synthetic predictions.

    python bench/pointer.py                               the size of EURLEX57K (45,000 documents)
    python bench/pointer.py --docs 500 --labels 300       a quick look on a CPU

The synthetic ontology is a tree of four levels. About five labels a document are true; the levels
predict most of them, often with their parents, and about as many false ones. Prints the micro F of
the best single threshold, and one Markdown row for each unit and gate: training seconds, documents
decoded a second, micro F of the sets, and the length reward that dev chose.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.config import vary
from ontodex.evaluation.sets import count_by_document, micro
from ontodex.models.attentive_levels.config import OrderedPointerConfig
from ontodex.models.levelwise.pointer import CandidateLabels, Hierarchy, Pointer
from ontodex.types import Ranking

SHARES = (0.03, 0.27, 0.45, 0.25)  # of the labels at each level


def make_tree(n_labels: int) -> Hierarchy:
    """Return a random tree of four levels, with frequencies like 1 / rank."""
    random = np.random.default_rng(0)
    level = np.sort(random.choice(4, n_labels, p=SHARES)) + 1
    level[:4] = 1
    parent = np.full(n_labels, -1)
    for depth in range(2, 5):
        upper = np.flatnonzero(level == depth - 1)
        parent[level == depth] = random.choice(upper, int((level == depth).sum()))
    rows, columns = [np.arange(n_labels)], [parent]
    for _ in range(2):
        columns.append(np.where(columns[-1] >= 0, parent[columns[-1]], -1))
        rows.append(np.arange(n_labels))
    row, column = np.concatenate(rows), np.concatenate(columns)
    found = column >= 0
    above = csr_array(
        (np.ones(int(found.sum()), bool), (row[found], column[found])), shape=(n_labels, n_labels)
    )
    frequency = random.permutation(100_000 // np.arange(10, n_labels + 10))
    return Hierarchy(level, above, frequency)


def make_documents(n: int, hierarchy: Hierarchy, seed: int) -> tuple[CandidateLabels, csr_array]:
    """Return the predictions of the levels for n documents, and their gold labels."""
    random = np.random.default_rng([1, seed])
    n_labels = len(hierarchy.level)
    share = hierarchy.frequency / hierarchy.frequency.sum()
    drawn = np.sort(random.choice(n_labels, (n, 5), p=share), axis=1)
    true = np.where(np.diff(drawn, axis=1, prepend=-1) == 0, -1, drawn)
    rows = np.repeat(np.arange(n), (true >= 0).sum(axis=1))
    gold = csr_array((np.ones(len(rows), np.int8), (rows, true[true >= 0])), shape=(n, n_labels))

    # The parents of true labels are often predicted too; those of false ones hardly ever.
    parents = _parents(hierarchy)[np.maximum(true, 0)]
    parents[(true < 0) | (random.random(true.shape) > 0.6)] = -1
    false = random.choice(n_labels, (n, 8), p=share)
    columns = np.concatenate([true, parents, false], axis=1)
    sure = np.concatenate(
        [random.beta(4, 1.5, true.shape), random.beta(1.5, 3, (n, parents.shape[1] + 8))], axis=1
    )
    sure[sure < 0.1] = 0
    return _distinct(columns, sure, hierarchy), gold


def _parents(hierarchy: Hierarchy) -> NDArray[np.int64]:
    """Return the lowest ancestor of each label, -1 for roots."""
    pairs = hierarchy.ancestors.tocoo()
    order = np.argsort(hierarchy.level[pairs.col], kind="stable")
    parents = np.full(len(hierarchy.level), -1)
    parents[pairs.row[order]] = pairs.col[order]
    return parents


def _distinct(
    columns: NDArray[np.int64], sure: NDArray[np.float64], hierarchy: Hierarchy
) -> CandidateLabels:
    """Keep each column of a row once, with its highest probability; drop probability 0."""
    columns = np.where(sure > 0, columns, -1)
    order = np.lexsort((-sure, columns), axis=1)
    columns = np.take_along_axis(columns, order, axis=1)
    sure = np.take_along_axis(sure, order, axis=1)
    again = np.diff(columns, axis=1, prepend=-2) == 0
    return CandidateLabels.of(np.where(again, -1, columns), sure, hierarchy.level)


def score_best_threshold(predicted: CandidateLabels, gold: csr_array) -> float:
    """Return the micro-F of the best single threshold."""
    width = predicted.columns.shape[1]
    return max(
        micro(
            count_by_document(
                gold,
                Ranking.sort(
                    np.where(predicted.probabilities >= t, predicted.columns, -1),
                    predicted.probabilities,
                    width,
                ),
            )
        )["MiF"]
        for t in np.linspace(0.1, 0.9, 17)
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--docs", type=int, default=45_000)
    parser.add_argument("--labels", type=int, default=4_108)
    parser.add_argument("--epochs", type=int, default=OrderedPointerConfig().train.epochs)
    parser.add_argument("--batch", type=int, default=OrderedPointerConfig().train.batch_size)
    parser.add_argument("--width", type=int, default=OrderedPointerConfig().embedding)
    parser.add_argument("--units", nargs="+", default=["level", "label"])
    parser.add_argument("--gates", nargs="+", default=["path"])
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    hierarchy = make_tree(arguments.labels)
    train, train_gold = make_documents(arguments.docs, hierarchy, 0)
    dev, dev_gold = make_documents(max(1, arguments.docs // 8), hierarchy, 1)
    test, test_gold = make_documents(max(1, arguments.docs // 8), hierarchy, 2)
    base = OrderedPointerConfig(embedding=arguments.width, hidden=arguments.width)
    settings = replace(base.train, epochs=arguments.epochs, batch_size=arguments.batch)
    sys.stdout.write(f"{device}, {arguments.docs:,} documents, {arguments.labels:,} labels; ")
    sys.stdout.write(f"best threshold MiF {100 * score_best_threshold(test, test_gold):.2f}\n\n")
    sys.stdout.write("| unit | gate | training s | documents/s decoded | MiF | length reward |\n")
    sys.stdout.write("|---|---|---|---|---|---|\n")
    for unit in arguments.units:
        for gate in arguments.gates:
            chosen = {"unit": unit, "ancestor_gate": gate, "epochs": arguments.epochs}
            config = vary(base, train=settings, **chosen)
            pointer = Pointer(config, hierarchy, device)
            began = time.monotonic()
            pointer.fit(train, train_gold, dev, dev_gold)
            trained = time.monotonic() - began
            began = time.monotonic()
            sets = pointer.decode(test)
            speed = len(test) / (time.monotonic() - began)
            found = 100 * micro(count_by_document(test_gold, sets))["MiF"]
            sys.stdout.write(
                f"| {unit} | {gate} | {trained:.1f} | {speed:,.0f} | {found:.2f} "
                f"| {pointer.length_reward} |\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()

"""Recall of concepts that no training document has.

    python bench/unseen.py CORPUS RUN [RUN ...]

Only documents with such a concept are ranked. An occurrence counts where the concept is among the
first 10 or 100 of all concepts that the run ranks.
"""

from __future__ import annotations

import argparse

import numpy as np

import ontodex
from ontodex.types import Corpus


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus")
    parser.add_argument("runs", nargs="+")
    arguments = parser.parse_args()
    corpus = ontodex.open_corpus(arguments.corpus)
    print("| run | documents | occurrences | concepts | R@10 | R@100 |\n|---|---|---|---|---|---|")
    for folder in arguments.runs:
        print(measure(ontodex.load(folder), corpus), flush=True)


def measure(run: ontodex.Run, corpus: Corpus) -> str:
    """Return the row of a run."""
    unseen = {
        label
        for label, count in zip(run.labels.ids, run.labels.frequency, strict=True)
        if not count
    }
    rows = [row for row, labels in enumerate(corpus.labels()) if unseen & set(labels)]
    some = corpus.select(np.array(rows, np.int64))
    ranking = run.rank(some, 100)
    wanted = [
        (row, run.labels.column[label])
        for row, labels in enumerate(some.labels())
        for label in unseen & set(labels)
    ]
    ranks = [np.flatnonzero(ranking.columns[row] == column) for row, column in wanted]
    recall = [100 * np.mean([len(rank) > 0 and rank[0] < k for rank in ranks]) for k in (10, 100)]
    n_concepts = len({column for _, column in wanted})
    counts = f"{len(some):,} | {len(wanted):,} | {n_concepts:,}"
    return f"| {run.folder.name} | {counts} | {recall[0]:.1f} | {recall[1]:.1f} |"


if __name__ == "__main__":
    main()

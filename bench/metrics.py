"""Time of every metric on synthetic data, beside a plain loop over a few documents.

    python bench/metrics.py [--documents 300000] [--labels 13330] [--ranks 100]

Prints a Markdown table. The loops run on the first --sample documents and are scaled up; "times
faster" compares processor seconds, which other work on the machine disturbs least.
"""

from __future__ import annotations

import argparse
import math
import resource
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ontodex.evaluation import ranking, sets
from ontodex.evaluation.auc import auc_by_occurrence
from ontodex.evaluation.hierarchical import find_near_misses, hierarchical_metrics
from ontodex.evaluation.metrics import evaluate
from ontodex.evaluation.reliability import measure_reliability
from ontodex.types import LabelSpace, Ranking

Rows = list[list[int]]
K = 5


def synthetic(n_docs: int, n_labels: int, ranks: int) -> tuple[csr_array, Ranking, LabelSpace]:
    """Gold with Zipf-like label frequencies, about 13 labels a document, and a ranking that finds
    about two thirds of them, the better ones first."""
    generator = np.random.default_rng(0)
    share = 1 / np.arange(10, n_labels + 10)
    lengths = 1 + generator.poisson(12, n_docs)
    drawn = generator.choice(n_labels, size=int(lengths.sum()), p=share / share.sum())
    rows = np.repeat(np.arange(n_docs), lengths)
    keys = np.unique(rows * n_labels + drawn)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(keys // n_labels, minlength=n_docs))])
    indices = (keys % n_labels).astype(np.int32)
    gold = csr_array((np.ones(len(keys), np.int8), indices, indptr), shape=(n_docs, n_labels))

    # A true label takes its place with falling chance; all other ranks walk through the labels in
    # steps of 7 from a random start (labels met on that walk anyway are not placed twice).
    start = generator.integers(0, n_labels, size=(n_docs, 1))
    columns = ((start + 7 * np.arange(ranks)) % n_labels).astype(np.int32)
    place = np.arange(len(keys)) - indptr[keys // n_labels]
    kept = (generator.random(len(keys)) < 0.8 * np.exp(-place / 30)) & (place < ranks)
    met_at = (indices - start[keys // n_labels, 0]) * pow(7, -1, n_labels) % n_labels
    kept &= met_at >= ranks
    columns[(keys // n_labels)[kept], place[kept]] = indices[kept]
    noise = generator.random((n_docs, ranks), dtype=np.float32)
    probabilities = np.sort(noise**3, axis=1)[:, ::-1]
    frequency = np.bincount(indices, minlength=n_labels).astype(np.int64)
    labels = LabelSpace(tuple(f"L{i}" for i in range(n_labels)), frequency, n_docs)
    return gold, Ranking(columns, np.ascontiguousarray(probabilities)), labels


def tree_ancestors(n_labels: int, children: int = 10) -> csr_array:
    """Every ancestor of every label in a tree where label i is below label (i - 1) // children."""
    rows, columns = [], []
    label = np.arange(n_labels)
    above = label
    while (above > 0).any():
        label, above = label[above > 0], (above[above > 0] - 1) // children
        rows.append(label)
        columns.append(above)
    pairs = (np.concatenate(rows), np.concatenate(columns))
    return csr_array((np.ones(len(pairs[0]), np.int8), pairs), shape=(n_labels, n_labels))


def loop_precision(gold: Rows, ranked: Rows, weight: list[float]) -> float:
    return sum(len(set(g) & set(r[:K])) / K for g, r in zip(gold, ranked, strict=True)) / len(gold)


def loop_recall(gold: Rows, ranked: Rows, weight: list[float]) -> float:
    shares = [len(set(g) & set(r[:K])) / len(g) for g, r in zip(gold, ranked, strict=True)]
    return sum(shares) / len(gold)


def loop_ndcg(gold: Rows, ranked: Rows, weight: list[float]) -> float:
    total = 0.0
    for true, best in zip(gold, ranked, strict=True):
        gain = sum(1 / math.log2(i + 2) for i, label in enumerate(best[:K]) if label in true)
        total += gain / sum(1 / math.log2(i + 2) for i in range(min(K, len(true))))
    return total / len(gold)


def loop_psp(gold: Rows, ranked: Rows, weight: list[float]) -> float:
    gain = ideal = 0.0
    for true, best in zip(gold, ranked, strict=True):
        gain += sum(weight[label] for label in best[:K] if label in true)
        ideal += sum(sorted((weight[label] for label in true), reverse=True)[:K])
    return gain / ideal


def loop_micro_f(gold: Rows, ranked: Rows, weight: list[float]) -> float:
    hit = sum(len(set(g) & set(r)) for g, r in zip(gold, ranked, strict=True))
    return 2 * hit / (sum(map(len, gold)) + sum(map(len, ranked)))


def time_call(function: Callable[[], Any]) -> tuple[float, float]:
    """Seconds on the clock and of the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - clock, time.process_time() - processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=300_000)
    parser.add_argument("--labels", type=int, default=13_330)
    parser.add_argument("--ranks", type=int, default=100)
    parser.add_argument("--sample", type=int, default=3_000)
    args = parser.parse_args()
    gold, ranked, labels = synthetic(args.documents, args.labels, args.ranks)
    propensity = ranking.compute_propensities(labels, args.labels)
    decided = ranked.cut(10)
    levels = 1 + np.arange(args.labels) % 7
    ancestors = tree_ancestors(args.labels)

    few_gold = np.split(gold.indices, gold.indptr[1:-1])[: args.sample]
    gold_rows = [row.tolist() for row in few_gold]
    ranked_rows = ranked.columns[: args.sample].tolist()
    decided_rows = decided.columns[: args.sample].tolist()
    weight = (1 / propensity).tolist()

    def score_at_k(metric: ranking.Metric) -> ranking.Numbers:
        return ranking.score_documents(metric, K, gold, ranked)

    def score_psp_at_k() -> ranking.Numbers:
        return ranking.psp(K, *ranking.compute_propensity_gains(K, gold, ranked, propensity))

    cases: list[tuple[str, Callable[[], Any], Callable[..., float] | None, Rows]] = [
        ("hits, all ranks", lambda: ranking.find_hits(gold, ranked), None, []),
        ("P@5", lambda: score_at_k(ranking.precision), loop_precision, ranked_rows),
        ("R@5", lambda: score_at_k(ranking.recall), loop_recall, ranked_rows),
        ("nDCG@5", lambda: score_at_k(ranking.ndcg), loop_ndcg, ranked_rows),
        ("PSP@5", score_psp_at_k, loop_psp, ranked_rows),
        ("MiF, 10 labels a document",
         lambda: sets.micro(sets.count_by_document(gold, decided)), loop_micro_f, decided_rows),
        ("ECE, all ranks", lambda: measure_reliability(gold, ranked).expected_error(), None, []),
        ("AUC and AUPR, all ranks", lambda: auc_by_occurrence(gold, ranked), None, []),
        ("hierarchical, 10 labels a document",
         lambda: hierarchical_metrics(gold, decided, ancestors), None, []),
        ("near misses, 10 labels a document",
         lambda: find_near_misses(gold, decided, ancestors), None, []),
    ]  # fmt: skip
    print("| metric | seconds | processor | plain loop, processor | times faster |")
    print("|---|---|---|---|---|")
    for name, fast, loop, rows in cases:
        seconds, processor = time_call(fast)
        if loop is None:
            print(f"| {name} | {seconds:.2f} | {processor:.2f} | | |")
            continue
        slow = (
            time_call(partial(loop, gold_rows, rows, weight))[1] * args.documents / len(gold_rows)
        )
        print(f"| {name} | {seconds:.2f} | {processor:.2f} | {slow:.1f} | {slow / processor:.0f} |")

    seconds, processor = time_call(
        lambda: evaluate(gold, ranked, decided, labels, levels=levels, ancestors=ancestors)
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"| `evaluate`: everything | {seconds:.2f} | {processor:.2f} | | |")
    print(f"\n{args.documents:,} documents, {args.labels:,} labels, {args.ranks} ranks, ", end="")
    print(f"{gold.nnz:,} true labels; peak memory {peak:.2f} GiB")


if __name__ == "__main__":
    main()

"""Label sets: the speed of each rule beside plain loops, and what each rule is worth on a run.

    python bench/decide.py                      speed, on synthetic rankings
    python bench/decide.py RUN DEV TEST         MiF, MaF of every rule, tuned on DEV, on TEST

Prints Markdown tables. The loops run on the first documents and are scaled up.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ontodex.corpora.open import open_corpus
from ontodex.decide.config import DecideConfig
from ontodex.decide.decision import tune_decision
from ontodex.decide.expected_f import best_set_sizes
from ontodex.decide.ofo import OFO
from ontodex.evaluation import sets
from ontodex.runs.run import load
from ontodex.types import LabelSpace, Ranking

RULES: dict[str, dict[str, Any]] = {
    "top 5": {"rule": "top-k", "top_k": 5},
    "top 10": {"rule": "top-k", "top_k": 10},
    "threshold": {"rule": "threshold"},
    "per-label": {"rule": "per-label"},
    "ofo": {"rule": "ofo"},
    "ofo, as in the paper": {"rule": "ofo", "prior": 0.0},
    "expected-f": {"rule": "expected-f"},
}


def synthetic(n_docs: int, n_labels: int, ranks: int) -> tuple[Ranking, csr_array]:
    """Calibrated rankings (a label is true as often as its probability says) of labels whose
    frequencies fall like 1 / rank."""
    rng = np.random.default_rng(0)
    drawn = rng.gumbel(size=(n_docs, n_labels)) - np.log(np.arange(10, n_labels + 10))
    columns = np.argpartition(-drawn, ranks, axis=1)[:, :ranks]
    probabilities = rng.random((n_docs, ranks)) ** 8
    ranking = Ranking.sort(columns, probabilities, ranks)
    true = rng.random(ranking.columns.shape) < ranking.probabilities
    rows = np.repeat(np.arange(n_docs), true.sum(axis=1))
    ones = np.ones(len(rows), np.int8)
    return ranking, csr_array((ones, (rows, ranking.columns[true])), shape=(n_docs, n_labels))


def ofo_loop(ranking: Ranking, gold: csr_array, n_labels: int, *, all_labels: bool) -> list[float]:
    """One pass of Eq. 2, document by document, over all labels or those that can change."""
    threshold, alpha, beta = [0.5] * n_labels, [0] * n_labels, [0] * n_labels
    for i in range(len(ranking)):
        eta = dict(zip(ranking.columns[i].tolist(), ranking.probabilities[i].tolist(), strict=True))
        true = set(gold.indices[gold.indptr[i] : gold.indptr[i + 1]].tolist())
        for j in range(n_labels) if all_labels else eta.keys() | true:
            chosen = eta.get(j, 0.0) > threshold[j]
            alpha[j] += chosen and j in true
            beta[j] += chosen + (j in true)
            if beta[j]:
                threshold[j] = alpha[j] / beta[j]
    return threshold


def expected_f_loop(p: list[float]) -> int:
    """The best size of one document by the same sums, in plain Python."""
    k = len(p)
    hits = [[1.0]]
    for chance in p:
        last = [*hits[-1], 0.0]
        hits.append(
            [(1 - chance) * last[a] + (chance * last[a - 1] if a else 0) for a in range(len(last))]
        )
    inverse = [1 / w for w in range(1, 2 * k + 2)]
    best, size = 0.0, 0
    for s in range(k, 0, -1):
        value = sum(2 * a * hits[s][a] * inverse[s + a - 1] for a in range(1, s + 1))
        if value >= best:
            best, size = value, s
        chance = p[s - 1]
        inverse = [
            chance * inverse[w + 1] + (1 - chance) * inverse[w] for w in range(len(inverse) - 1)
        ]
    return size


def seconds(work: Callable[[], object]) -> float:
    """Processor seconds, which other work on the machine disturbs least; the better of two."""
    times = []
    for _ in range(2):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def speed(n_docs: int, n_labels: int, ranks: int) -> None:
    ranking, gold = synthetic(n_docs, n_labels, ranks)
    p = ranking.probabilities.astype(np.float64)
    few = p[:50].tolist()
    assert [expected_f_loop(row) for row in few] == best_set_sizes(p[:50]).tolist()
    fresh = OFO.start(n_labels, 0.5)
    short, short_gold = ranking.take(np.arange(50)), csr_array(gold[:50])
    slow = ofo_loop(ranking, gold, n_labels, all_labels=False)
    assert fresh.run_passes(ranking, gold, 1).thresholds.tolist() == slow
    by_definition = (
        n_docs / 50 * seconds(lambda: ofo_loop(short, short_gold, n_labels, all_labels=True))
    )
    sparse = seconds(lambda: ofo_loop(ranking, gold, n_labels, all_labels=False))
    once, more = (seconds(lambda n=n: fresh.run_passes(ranking, gold, n)) for n in (1, 21))  # type: ignore[misc]
    rows = [
        ("OFO, first pass; loop over all labels", once, by_definition),
        ("OFO, first pass; loop over ranked labels", once, sparse),
        ("OFO, each further pass; loop over ranked labels", (more - once) / 20, sparse),
        (
            "expected-F sets",
            seconds(lambda: tune("expected-f", ranking, gold).apply(ranking)),
            seconds(lambda: [expected_f_loop(row) for row in few]) * n_docs / len(few),
        ),
    ]
    print(f"{n_docs:,} documents, {n_labels:,} labels, {ranks} ranks; results equal.\n")
    print("| step | seconds | plain loop | times faster |\n|---|---|---|---|")
    for name, ours, plain in rows:
        print(f"| {name} | {ours:.3f} | {plain:.2f} | {plain / ours:.1f} |")
    for name in ("threshold", "per-label"):
        print(f"| {name}: tune | {seconds(lambda: tune(name, ranking, gold)):.2f} | | |")  # noqa: B023


def tune(name: str, ranking: Ranking, gold: csr_array) -> Any:
    n = gold.shape[1]
    labels = LabelSpace(tuple(map(str, range(n))), np.ones(n, np.int64), 1)
    return tune_decision(DecideConfig(**RULES[name]), ranking, gold, labels)


def worth(run_folder: Path, dev_path: Path, test_path: Path) -> None:
    run = load(run_folder)
    dev, test = open_corpus(dev_path), open_corpus(test_path)
    on_dev, on_test = run.rank(dev), run.rank(test)
    dev_gold, gold = run.labels.gold(dev), run.labels.gold(test)
    print("| rule | MiP | MiR | MiF | MaF | labels a document |\n|---|---|---|---|---|---|")
    for rule, table in RULES.items():
        decision = tune_decision(DecideConfig(**table), on_dev, dev_gold, run.labels)
        chosen = decision.apply(on_test)
        known = np.diff(gold.indptr) > 0
        found = sets.set_metrics(csr_array(gold[known]), chosen.take(known))
        row = " | ".join(f"{100 * found[name]:.2f}" for name in ("MiP", "MiR", "MiF", "MaF"))
        print(f"| {rule} | {row} | {(chosen.columns[known] >= 0).sum(axis=1).mean():.2f} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, metavar="RUN DEV TEST")
    parser.add_argument("--documents", type=int, default=6_000)
    parser.add_argument("--labels", type=int, default=4_000)
    parser.add_argument("--ranks", type=int, default=100)
    asked = parser.parse_args()
    if asked.paths:
        worth(*asked.paths)
    else:
        speed(asked.documents, asked.labels, asked.ranks)

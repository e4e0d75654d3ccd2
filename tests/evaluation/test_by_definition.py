"""Every metric against its definition in plain loops, and the properties of all of them."""

from __future__ import annotations

from functools import partial
from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from ontodex.evaluation import ranking as ranked
from ontodex.evaluation.auc import auc_and_aupr
from ontodex.evaluation.groups import score_groups
from ontodex.evaluation.hierarchical import count_with_ancestors, find_near_misses
from ontodex.evaluation.reliability import measure_reliability
from ontodex.evaluation.sets import compute_threshold_curve, count_by_document, set_metrics
from ontodex.evaluation.significance import overlap
from ontodex.types import Ranking

METRICS = {
    name: partial(ranked.score_documents, metric)
    for name, metric in (
        ("P", ranked.precision),
        ("R", ranked.recall),
        ("RP", ranked.r_precision),
        ("nDCG", ranked.ndcg),
    )
}
fast = settings(deadline=None, max_examples=40)


@st.composite
def cases(draw, *, max_labels: int = 7):
    """Gold with at least one label a document, and a ranking whose probabilities often tie."""
    n_labels = draw(st.integers(1, max_labels))
    n_docs = draw(st.integers(1, 6))
    label = st.integers(0, n_labels - 1)
    rows = [draw(st.sets(label, min_size=1)) for _ in range(n_docs)]
    dense = np.zeros((n_docs, n_labels), dtype=np.int8)
    for i, row in enumerate(rows):
        dense[i, list(row)] = 1
    k = draw(st.integers(1, n_labels + 1))
    columns = np.full((n_docs, k), -1, dtype=np.int64)
    scores = np.zeros((n_docs, k))
    for i in range(n_docs):
        chosen = draw(st.lists(label, unique=True, max_size=k))
        columns[i, : len(chosen)] = chosen
        scores[i, : len(chosen)] = [draw(st.integers(0, 4)) / 4 for _ in chosen]
    return csr_array(dense), Ranking.sort(columns, scores, k)


def as_lists(gold, ranking):
    """(true labels, ranked labels) of each document, as Python sees them."""
    dense = gold.toarray()
    return [
        (set(np.flatnonzero(dense[i]).tolist()), [c for c in ranking.columns[i].tolist() if c >= 0])
        for i in range(len(ranking))
    ]


def discount(hits):
    return sum(hit / log2(i + 2) for i, hit in enumerate(hits))


@fast
@given(cases(), st.integers(1, 6))
def test_ranked_metrics_equal_their_definitions_in_loops(case, k):
    for i, (true, best) in enumerate(as_lists(*case)):
        hit = [label in true for label in best[:k]]
        expected = {
            "P": sum(hit) / k,
            "R": sum(hit) / len(true),
            "RP": sum(hit) / min(k, len(true)),
            "nDCG": discount(hit) / discount([1] * min(k, len(true))),
        }
        for name, metric in METRICS.items():
            assert metric(k, *case)[i] == pytest.approx(expected[name]), name


@fast
@given(cases(), st.integers(1, 6), st.randoms(use_true_random=False))
def test_propensity_scored_metrics_equal_their_definitions_in_loops(case, k, random):
    propensity = np.array([random.uniform(0.05, 1) for _ in range(case[0].shape[1])])
    psp_gain = psp_best = dcg_gain = dcg_best = 0.0
    for true, best in as_lists(*case):
        gains = [(label in true) / propensity[label] for label in best[:k]]
        ideal = sorted((1 / propensity[label] for label in true), reverse=True)[:k]
        psp_gain, psp_best = psp_gain + sum(gains), psp_best + sum(ideal)
        dcg_gain, dcg_best = dcg_gain + discount(gains), dcg_best + discount(ideal)
    assert ranked.psp(
        k, *ranked.compute_propensity_gains(k, *case, propensity)
    ).mean() == pytest.approx(psp_gain / psp_best)
    assert ranked.psndcg(
        k, *ranked.compute_propensity_gains(k, *case, propensity)
    ).mean() == pytest.approx(dcg_gain / dcg_best)


@fast
@given(cases())
def test_set_metrics_equal_their_definitions_in_loops(case):
    pairs = as_lists(*case)
    hit = [len(true & set(predicted)) for true, predicted in pairs]
    precision = [
        h / len(predicted) if predicted else 0 for h, (_, predicted) in zip(hit, pairs, strict=True)
    ]
    recall = [h / len(true) for h, (true, _) in zip(hit, pairs, strict=True)]
    f = [2 * h / (len(t) + len(s)) for h, (t, s) in zip(hit, pairs, strict=True)]
    by_label = []
    for label in range(case[0].shape[1]):
        true = {i for i, (t, _) in enumerate(pairs) if label in t}
        predicted = {i for i, (_, s) in enumerate(pairs) if label in s}
        if true or predicted:
            by_label.append(2 * len(true & predicted) / (len(true) + len(predicted)))
    mean_p, mean_r = np.mean(precision), np.mean(recall)
    n_predicted, n_true = sum(len(s) for _, s in pairs), sum(len(t) for t, _ in pairs)
    assert set_metrics(*case) == pytest.approx(
        {
            "MiP": sum(hit) / n_predicted if n_predicted else 0,
            "MiR": sum(hit) / n_true,
            "MiF": 2 * sum(hit) / (n_predicted + n_true),
            "MaP": mean_p,
            "MaR": mean_r,
            "MaF": 2 * mean_p * mean_r / (mean_p + mean_r) if mean_p + mean_r else 0,
            "exampleF": np.mean(f),
            "labelF": np.mean(by_label),
        }
    )


@fast
@given(cases())
def test_auc_and_aupr_equal_their_definitions_in_loops(case):
    gold, ranking = case
    n_labels = gold.shape[1]
    columns = np.flatnonzero(gold.sum(axis=0))
    auc, aupr = auc_and_aupr(gold, ranking, columns)
    scores, dense = ranking.scores(n_labels).toarray(), gold.toarray()
    for i, label in enumerate(columns.tolist()):
        score, true = scores[:, label], dense[:, label] == 1
        pairs = [(p > n) + (p == n) / 2 for p in score[true] for n in score[~true]]
        assert auc[i] == pytest.approx(np.mean(pairs) if pairs else np.nan, nan_ok=True)
        area, recall = 0.0, 0.0
        for threshold in sorted(set(score.tolist()), reverse=True):
            predicted = score >= threshold
            here = (predicted & true).sum() / true.sum()
            area += (here - recall) * (predicted & true).sum() / predicted.sum()
            recall = here
        assert aupr[i] == pytest.approx(area)


@fast
@given(cases(), st.data())
def test_group_scores_equal_metrics_of_gold_and_ranking_cut_to_the_group(case, data):
    gold, ranking = case
    numbers = st.integers(-1, 2)
    group = np.array([data.draw(numbers) for _ in range(gold.shape[1])])
    names = ["a", "b", "c"]
    got = {
        scores.name: scores
        for scores in score_groups(gold, ranking, ranking, group=group, names=names, ks=(1, 2))
    }
    for number, name in enumerate(names):
        dense = gold.toarray() * (group == number)
        rows = np.flatnonzero(dense.sum(axis=1))
        if not len(rows):
            assert name not in got
            continue
        inside = csr_array(dense[rows])
        members = np.append(group == number, False)[ranking.columns]
        cut = ranking.keep(members).take(rows)
        expected = {
            f"{metric}@{k}": METRICS[metric](k, inside, cut).mean()
            for metric in ("P", "R", "nDCG")
            for k in (1, 2)
        }
        sets = set_metrics(inside, cut)
        expected |= {key: sets[key] for key in ("MiP", "MiR", "MiF", "MaP", "MaR", "MaF")}
        assert dict(got[name].values) == pytest.approx(expected)
        assert got[name].documents == len(rows)
        assert got[name].occurrences == dense.sum()
        assert got[name].labels == np.count_nonzero(dense.sum(axis=0))


@fast
@given(cases(), st.data())
def test_hierarchical_counts_and_near_misses_equal_their_definitions_in_loops(case, data):
    gold, ranking = case
    n = gold.shape[1]
    parents = [set(data.draw(st.lists(st.integers(0, i - 1)))) if i else set() for i in range(n)]
    above: list[set[int]] = []
    for i in range(n):
        above.append(set().union(parents[i], *(above[p] for p in parents[i])))
    known = data.draw(st.integers(0, n))  # labels past these are outside the matrix
    above = [up if i < known else set() for i, up in enumerate(above)]
    matrix = np.zeros((known, known), dtype=np.int8)
    for i in range(known):
        matrix[i, list(above[i])] = 1
    counts = count_with_ancestors(gold, ranking, csr_array(matrix))
    near = find_near_misses(gold, ranking, csr_array(matrix))
    for i, (true, predicted) in enumerate(as_lists(gold, ranking)):
        truth = true.union(*(above[t] for t in true))
        answer = set(predicted).union(*(above[s] for s in predicted))
        assert counts.hit[i] == len(truth & answer)
        assert counts.predicted[i] == len(answer)
        assert counts.gold[i] == len(truth)
        expected = [
            s not in true and any(s in above[t] or t in above[s] for t in true) for s in predicted
        ]
        assert near[i, : len(predicted)].tolist() == expected
        assert not near[i, len(predicted) :].any()


@fast
@given(cases())
def test_threshold_curve_equals_cutting_at_each_threshold(case):
    gold, ranking = case
    curve = compute_threshold_curve(gold, ranking, steps=8)
    for i, threshold in enumerate(curve.threshold):
        cut = ranking.keep((ranking.probabilities >= threshold) & (ranking.columns >= 0))
        values = set_metrics(gold, cut)
        got = curve.precision[i], curve.recall[i], curve.f[i]
        assert got == pytest.approx((values["MiP"], values["MiR"], values["MiF"]))


@fast
@given(cases(), st.integers(1, 5))
def test_reliability_equals_its_definition_in_loops(case, k):
    gold, ranking = case
    bins = measure_reliability(gold, ranking, k=k, bins=3)
    entries = [
        (float(ranking.probabilities[i, rank]), label in true)
        for i, (true, predicted) in enumerate(as_lists(gold, ranking))
        for rank, label in enumerate(predicted[:k])
    ]
    error = 0.0
    for b in range(3):
        inside = [(p, hit) for p, hit in entries if min(int(p * 3), 2) == b]
        assert bins.count[b] == len(inside)
        if inside:
            claimed, true = np.mean([p for p, _ in inside]), np.mean([hit for _, hit in inside])
            assert (bins.claimed[b], bins.true[b]) == pytest.approx((claimed, true))
            error += len(inside) / len(entries) * abs(claimed - true)
    assert bins.expected_error() == pytest.approx(error)


@fast
@given(cases(), cases(), st.integers(1, 4))
def test_overlap_equals_its_definition_and_does_not_depend_on_the_order(one, other, k):
    n = min(len(one[1]), len(other[1]))
    first, second = one[1].take(np.arange(n)), other[1].take(np.arange(n))
    shares = [
        len({*a[:k].tolist()} & {*b[:k].tolist()} - {-1}) / k
        for a, b in zip(first.columns, second.columns, strict=True)
    ]
    assert overlap(first, second, k) == pytest.approx(np.mean(shares))
    assert overlap(second, first, k) == pytest.approx(np.mean(shares))


@fast
@given(cases(), st.integers(1, 6))
def test_ndcg_at_1_is_precision_at_1_and_everything_is_between_0_and_1(case, k):
    np.testing.assert_allclose(METRICS["nDCG"](1, *case), METRICS["P"](1, *case))
    for metric in METRICS.values():
        values = metric(k, *case)
        assert np.all((values >= 0) & (values <= 1 + 1e-12))
    assert all(0 <= value <= 1 for value in set_metrics(*case).values())


@fast
@given(cases(), st.integers(1, 6), st.randoms(use_true_random=False))
def test_the_order_of_documents_is_irrelevant(case, k, random):
    gold, ranking = case
    order = np.array(random.sample(range(len(ranking)), len(ranking)))
    for metric in METRICS.values():
        np.testing.assert_allclose(
            metric(k, gold[order], ranking.take(order)), metric(k, gold, ranking)[order]
        )
    assert set_metrics(gold[order], ranking.take(order)) == pytest.approx(set_metrics(*case))


@fast
@given(cases(), st.integers(1, 6))
def test_a_perfect_ranking_has_1_wherever_1_can_be_reached(case, k):
    gold, _ = case
    perfect = Ranking.top(gold.toarray().astype(np.float64), gold.shape[1])
    propensity = np.linspace(0.9, 0.1, gold.shape[1])
    assert METRICS["RP"](k, gold, perfect) == pytest.approx(1)
    assert METRICS["nDCG"](k, gold, perfect) == pytest.approx(1)
    best_first = Ranking.top(gold.toarray() * (1 / propensity / 20), gold.shape[1])
    assert ranked.psp(
        k, *ranked.compute_propensity_gains(k, gold, best_first, propensity)
    ).mean() == pytest.approx(1)
    assert ranked.psndcg(
        k, *ranked.compute_propensity_gains(k, gold, best_first, propensity)
    ).mean() == pytest.approx(1)
    sets = perfect.keep(perfect.probabilities > 0)
    assert set(set_metrics(gold, sets).values()) == {1.0}


@fast
@given(cases(), st.integers(1, 5))
def test_recall_never_falls_and_hits_never_shrink_with_k(case, k):
    assert np.all(METRICS["R"](k + 1, *case) >= METRICS["R"](k, *case))
    more = (k + 1) * METRICS["P"](k + 1, *case)
    assert np.all(more >= k * METRICS["P"](k, *case) - 1e-12)


@fast
@given(cases())
def test_counts_never_exceed_the_predictions_or_the_true_labels(case):
    counts = count_by_document(*case)
    assert np.all(counts.hit <= np.minimum(counts.predicted, counts.gold))

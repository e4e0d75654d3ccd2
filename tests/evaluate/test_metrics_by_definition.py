"""Every metric against its definition in plain loops, and what must hold of any of them."""

from __future__ import annotations

from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from ontodex.evaluate import ranking as ranked
from ontodex.evaluate.calibration import reliability
from ontodex.evaluate.compare import overlap
from ontodex.evaluate.groups import auc_and_aupr, scores_by_group
from ontodex.evaluate.hierarchical import count_with_ancestors, near_misses
from ontodex.evaluate.sets import count_by_document, set_metrics, threshold_curve
from ontodex.types import Ranking

METRICS = {
    "P": ranked.precision_at,
    "R": ranked.recall_at,
    "RP": ranked.r_precision_at,
    "nDCG": ranked.ndcg_at,
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


def discounted(hits):
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
            "nDCG": discounted(hit) / discounted([1] * min(k, len(true))),
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
        dcg_gain, dcg_best = dcg_gain + discounted(gains), dcg_best + discounted(ideal)
    assert ranked.psp_at(k, *case, propensity).mean() == pytest.approx(psp_gain / psp_best)
    assert ranked.psndcg_at(k, *case, propensity).mean() == pytest.approx(dcg_gain / dcg_best)


@fast
@given(cases())
def test_set_metrics_equal_their_definitions_in_loops(case):
    pairs = as_lists(*case)
    hit = [len(true & set(said)) for true, said in pairs]
    precision = [h / len(said) if said else 0 for h, (_, said) in zip(hit, pairs, strict=True)]
    recall = [h / len(true) for h, (true, _) in zip(hit, pairs, strict=True)]
    f = [2 * h / (len(t) + len(s)) for h, (t, s) in zip(hit, pairs, strict=True)]
    by_label = []
    for label in range(case[0].shape[1]):
        true = {i for i, (t, _) in enumerate(pairs) if label in t}
        said = {i for i, (_, s) in enumerate(pairs) if label in s}
        if true or said:
            by_label.append(2 * len(true & said) / (len(true) + len(said)))
    mean_p, mean_r = np.mean(precision), np.mean(recall)
    n_said, n_true = sum(len(s) for _, s in pairs), sum(len(t) for t, _ in pairs)
    assert set_metrics(*case) == pytest.approx(
        {
            "MiP": sum(hit) / n_said if n_said else 0,
            "MiR": sum(hit) / n_true,
            "MiF": 2 * sum(hit) / (n_said + n_true),
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
            said = score >= threshold
            here = (said & true).sum() / true.sum()
            area += (here - recall) * (said & true).sum() / said.sum()
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
        for scores in scores_by_group(gold, ranking, ranking, group=group, names=names, ks=(1, 2))
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
    near = near_misses(gold, ranking, csr_array(matrix))
    for i, (true, said) in enumerate(as_lists(gold, ranking)):
        truth = true.union(*(above[t] for t in true))
        answer = set(said).union(*(above[s] for s in said))
        assert counts.hit[i] == len(truth & answer)
        assert counts.predicted[i] == len(answer)
        assert counts.gold[i] == len(truth)
        expected = [
            s not in true and any(s in above[t] or t in above[s] for t in true) for s in said
        ]
        assert near[i, : len(said)].tolist() == expected
        assert not near[i, len(said) :].any()


@fast
@given(cases())
def test_threshold_curve_equals_cutting_at_each_threshold(case):
    gold, ranking = case
    curve = threshold_curve(gold, ranking, steps=8)
    for i, threshold in enumerate(curve.threshold):
        cut = ranking.keep((ranking.probabilities >= threshold) & (ranking.columns >= 0))
        figures = set_metrics(gold, cut)
        got = curve.precision[i], curve.recall[i], curve.f[i]
        assert got == pytest.approx((figures["MiP"], figures["MiR"], figures["MiF"]))


@fast
@given(cases(), st.integers(1, 5))
def test_reliability_equals_its_definition_in_loops(case, k):
    gold, ranking = case
    bins = reliability(gold, ranking, k=k, bins=3)
    entries = [
        (float(ranking.probabilities[i, rank]), label in true)
        for i, (true, said) in enumerate(as_lists(gold, ranking))
        for rank, label in enumerate(said[:k])
    ]
    error = 0.0
    for b in range(3):
        inside = [(p, hit) for p, hit in entries if min(int(p * 3), 2) == b]
        assert bins.count[b] == len(inside)
        if inside:
            claimed, true = np.mean([p for p, _ in inside]), np.mean([hit for _, hit in inside])
            assert (bins.claimed[b], bins.true[b]) == pytest.approx((claimed, true))
            error += len(inside) / len(entries) * abs(claimed - true)
    assert bins.error() == pytest.approx(error)


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


# ------------------------------------------------------------------------------- what must hold


@fast
@given(cases(), st.integers(1, 6))
def test_ndcg_at_1_is_precision_at_1_and_everything_is_between_0_and_1(case, k):
    np.testing.assert_allclose(ranked.ndcg_at(1, *case), ranked.precision_at(1, *case))
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
    assert ranked.r_precision_at(k, gold, perfect) == pytest.approx(1)
    assert ranked.ndcg_at(k, gold, perfect) == pytest.approx(1)
    best_first = Ranking.top(gold.toarray() * (1 / propensity / 20), gold.shape[1])
    assert ranked.psp_at(k, gold, best_first, propensity).mean() == pytest.approx(1)
    assert ranked.psndcg_at(k, gold, best_first, propensity).mean() == pytest.approx(1)
    decided = perfect.keep(perfect.probabilities > 0)
    assert set(set_metrics(gold, decided).values()) == {1.0}


@fast
@given(cases(), st.integers(1, 5))
def test_recall_never_falls_and_hits_never_shrink_with_k(case, k):
    assert np.all(ranked.recall_at(k + 1, *case) >= ranked.recall_at(k, *case))
    more = (k + 1) * ranked.precision_at(k + 1, *case)
    assert np.all(more >= k * ranked.precision_at(k, *case) - 1e-12)


@fast
@given(cases())
def test_counts_never_exceed_what_was_said_or_what_is_true(case):
    counts = count_by_document(*case)
    assert np.all(counts.hit <= np.minimum(counts.predicted, counts.gold))

"""`evaluate`: every figure under its name, documents without gold left out and counted."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.sparse import csr_array

from ontodex.errors import DataError
from ontodex.evaluation import ranking as ranked
from ontodex.evaluation.hierarchical import hierarchical_metrics
from ontodex.evaluation.metrics import evaluate
from ontodex.evaluation.reliability import measure_reliability
from ontodex.evaluation.sets import set_metrics
from ontodex.types import LabelSpace, Ranking


@pytest.fixture(scope="module")
def case():
    """80 documents, the last 5 without gold; 12 labels and 2 gold columns outside the space."""
    generator = np.random.default_rng(0)
    dense = generator.random((80, 14)) < np.linspace(0.6, 0.05, 14)
    dense[:, 0] |= ~dense.any(axis=1)
    dense[75:] = False
    scores = np.clip(0.4 * dense[:, :12] + 0.6 * generator.random((80, 12)), 0, 1)
    ranking = Ranking.top(scores, 12)
    labels = LabelSpace(
        tuple("abcdefghijkl"), np.array([2000, 900, 500, 200, 90, 50, 20, 9, 5, 2, 1, 0]), 3000
    )
    return csr_array(dense.astype(np.int8)), ranking, ranking.cut(3), labels


@pytest.fixture(scope="module")
def ancestors():
    return csr_array(np.tril(np.ones((12, 12), dtype=np.int8), -1))


@pytest.fixture(scope="module")
def metrics(case, ancestors):
    return evaluate(*case, levels=np.arange(12) % 4, ancestors=ancestors)


def test_documents_without_gold_are_left_out_and_counted(case, metrics):
    gold, ranking, decided, labels = case
    assert (metrics.documents, metrics.without_gold) == (75, 5)
    some = np.arange(75)
    without = evaluate(gold[some], ranking.take(some), decided.take(some), labels)
    assert without.without_gold == 0
    assert {name: metrics[name] for name in without.values} == pytest.approx(dict(without.values))


def test_every_figure_is_that_of_its_function(case, metrics, ancestors):
    gold, ranking, decided, labels = case
    some = np.arange(75)
    gold, ranking, decided = gold[some], ranking.take(some), decided.take(some)
    propensity = ranked.compute_propensities(labels, 14)
    expected = {"ECE": measure_reliability(gold, ranking, k=5).expected_error()}
    for k in (1, 3, 5):
        expected |= {
            f"P@{k}": ranked.score_documents(ranked.precision, k, gold, ranking).mean(),
            f"R@{k}": ranked.score_documents(ranked.recall, k, gold, ranking).mean(),
            f"F1@{k}": ranked.score_documents(ranked.f1, k, gold, ranking).mean(),
            f"RP@{k}": ranked.score_documents(ranked.r_precision, k, gold, ranking).mean(),
            f"nDCG@{k}": ranked.score_documents(ranked.ndcg, k, gold, ranking).mean(),
            f"PSP@{k}": ranked.psp(
                k, *ranked.compute_propensity_gains(k, gold, ranking, propensity)
            ).mean(),
            f"PSnDCG@{k}": ranked.psndcg(
                k, *ranked.compute_propensity_gains(k, gold, ranking, propensity)
            ).mean(),
        }
    expected |= set_metrics(gold, decided) | hierarchical_metrics(gold, decided, ancestors)
    near = metrics.values["near misses"]
    assert 0 < near <= 1
    assert dict(metrics.values) == pytest.approx(expected | {"near misses": near})


def test_intervals_contain_their_metrics(metrics):
    assert {"P@1", "P@3", "P@5", "nDCG@5", "R@5", "MiF", "MaF"} <= metrics.intervals.keys()
    for name, interval in metrics.intervals.items():
        assert interval.estimate == pytest.approx(metrics[name])
        assert interval.low < interval.estimate < interval.high


def test_labels_are_counted_and_those_outside_the_space_named(case, metrics):
    true = np.flatnonzero(case[0].sum(axis=0))
    assert metrics.labels == len(true)
    assert metrics.unknown_labels == np.sum(true >= 12)
    assert metrics.unknown_labels > 0


def test_groups_cover_every_occurrence_but_levels_only_labels_that_have_one(case, metrics):
    gold = case[0]
    assert sum(group.occurrences for group in metrics.by_frequency) == gold.nnz
    assert metrics.by_frequency[0].name == "0"  # label l, and the two outside the label space
    assert metrics.by_frequency[0].labels == 3
    assert [group.name for group in metrics.by_level] == ["level 1", "level 2", "level 3"]
    at_level_1 = gold.toarray()[:, [1, 5, 9]]
    assert metrics.by_level[0].occurrences == at_level_1.sum()
    assert metrics.by_level[1].occurrences == gold.toarray()[:, [2, 6, 10]].sum()
    assert metrics.by_level[0].documents == np.count_nonzero(at_level_1.any(axis=1))


def test_to_dict_is_json_without_nan(metrics):
    text = json.dumps(metrics.to_dict(), allow_nan=False)
    back = json.loads(text)
    assert {name: back[name] for name in metrics.values} == dict(metrics.values)
    assert back["documents"] == 75
    assert back["intervals"]["MiF"].keys() == {"estimate", "low", "high"}
    assert back["by_level"][0]["values"]["MiF"] == metrics.by_level[0].values["MiF"]
    assert len(back["reliability"]["count"]) == 10


def test_the_text_for_a_terminal_has_every_figure_in_percent(metrics):
    lines = metrics.to_text().splitlines()
    assert lines[0] == "75 documents counted, 5 without labels; in percent"
    interval = metrics.intervals["MiF"]
    assert any(
        line.split()[:2] == ["MiF", f"{100 * metrics['MiF']:.2f}"]
        and f"({100 * interval.low:.2f} to {100 * interval.high:.2f})" in line
        for line in lines
    )
    assert {line.rsplit(maxsplit=1)[0].strip() for line in lines} >= {"ECE", "near misses"}
    assert any(line.startswith("by level: level 3: P@1") for line in lines)


def test_the_summary_is_short_and_names_the_ceiling_of_precision():
    # One document has one label, the other two: at most (1 + 2) / 2 of three ranks are hits.
    gold = csr_array(np.array([[1, 0, 0, 0], [1, 1, 0, 0]], dtype=np.int8))
    ranking = Ranking(np.array([[0, 1, 2], [0, 1, 2]], np.int32), np.full((2, 3), 0.5, np.float32))
    labels = LabelSpace(("a", "b", "c", "d"), np.array([2, 1, 1, 1]), 5)
    metrics = evaluate(gold, ranking, ranking.cut(1), labels)
    assert metrics.ceilings == {"P@1": 1.0, "P@3": 0.5, "P@5": pytest.approx(0.3)}
    lines = metrics.to_summary().splitlines()
    assert len(lines) <= 10
    assert next(line for line in lines if line.startswith("P@3")).split()[1] == "50.00"
    assert "at most 50.00" in next(line for line in lines if line.startswith("P@3"))
    assert "at most" not in next(line for line in lines if line.startswith("P@1"))


def test_a_figure_that_does_not_exist_is_null():
    gold = csr_array(np.ones((6, 1), dtype=np.int8))  # a label of all documents has no AUC
    metrics = evaluate(
        gold, Ranking.top(np.full((6, 1), 0.5), 1), None, LabelSpace(("a",), np.array([6]), 6)
    )
    assert metrics.to_dict()["by_occurrence"][0]["auc"] is None


def test_without_label_sets_and_replicates_there_are_only_ranking_metrics(case):
    gold, ranking, _, labels = case
    metrics = evaluate(gold, ranking, None, labels, ks=(1, 2), replicates=0)
    assert metrics.intervals == {}
    assert {"P@2", "PSnDCG@2", "ECE"} <= metrics.values.keys()
    assert not {"MiF", "P@5"} & metrics.values.keys()


def test_a_corpus_without_any_labels_is_an_error_that_says_so(rank, truth):
    labels = LabelSpace(("a",), np.array([1]), 1)
    with pytest.raises(DataError, match=r"no document \(of 2\) has a label"):
        evaluate(truth([], [], n=1), rank([0], [0]), None, labels)

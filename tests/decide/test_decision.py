from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from ontodex.config import build as build_config
from ontodex.decide.config import DecideConfig
from ontodex.decide.decision import Decision, load_decision, tune_decision
from ontodex.decide.per_label import PerLabel
from ontodex.decide.rules import RULES
from ontodex.errors import ConfigError, RunError
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.types import LabelSpace, Ranking

N_LABELS = 8
# 0 is above 1 is above 2; 3 is above 4; the rest stand alone.
ONTOLOGY = build_ontology(
    Concept(str(i), parents={1: ["0"], 2: ["1"], 4: ["3"]}.get(i, [])) for i in range(N_LABELS)
)
LABELS = LabelSpace(ONTOLOGY.ids, np.ones(N_LABELS, np.int64), 10, ONTOLOGY)


def plant_ranking(seed: int, n_docs: int = 60) -> tuple[Ranking, csr_array]:
    """Calibrated probabilities of labels that are frequent and rare, and their truth."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.4, 1.2, (n_docs, N_LABELS)) * np.linspace(1, 0.6, N_LABELS)
    return Ranking.top(p, 6), csr_array((rng.random(p.shape) < p).astype(np.int8))


def micro_f(chosen: Ranking, gold: csr_array) -> float:
    found = (chosen.scores(N_LABELS) > 0).astype(np.int8)
    return float(2 * found.multiply(gold).sum() / (found.sum() + gold.sum()))


def assert_same(one: Ranking, other: Ranking) -> None:
    np.testing.assert_array_equal(one.columns, other.columns)
    np.testing.assert_array_equal(one.probabilities, other.probabilities)


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_beats_all_labels_and_one_label(rule):
    decision = tune_decision(DecideConfig(rule=rule, top_k=2), *plant_ranking(0, 800), LABELS)
    ranking, gold = plant_ranking(1, 800)
    ours = micro_f(decision.apply(ranking), gold)
    assert ours > micro_f(ranking, gold) + 0.05
    assert ours > micro_f(ranking.cut(1), gold) + 0.02


@pytest.mark.parametrize("rule", RULES)
def test_saved_and_loaded_decisions_decide_alike_and_save_the_same_bytes(rule, tmp_path):
    ranking, gold = plant_ranking(0)
    decision = tune_decision(
        DecideConfig(rule=rule, ancestors="add", limit=4), ranking, gold, LABELS
    )
    decision.save(tmp_path / "decision.json")
    again = load_decision(tmp_path / "decision.json", LABELS)
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "decision.json").read_bytes()
    assert again.config == decision.config
    assert_same(again.apply(ranking), decision.apply(ranking))


MORE = LabelSpace((*LABELS.ids, "new"), np.ones(N_LABELS + 1, np.int64), 11)


def test_a_new_label_has_the_common_threshold(tmp_path):
    ranking, gold = plant_ranking(0)
    one = tune_decision(DecideConfig(rule="threshold"), ranking, gold, LABELS).rule.value
    decision = tune_decision(DecideConfig(rule="per-label"), ranking, gold, LABELS)
    assert len(set(decision.rule.thresholds)) == len(LABELS), "all differ: none is the usual one"
    decision.save(tmp_path / "decision.json")
    for known in (decision, load_decision(tmp_path / "decision.json", LABELS)):
        extended = known.for_labels(MORE).rule.thresholds
        assert extended.tolist() == [*decision.rule.thresholds, one]


def test_a_new_label_has_the_initial_state_of_ofo():
    ranking, gold = plant_ranking(0)
    decision = tune_decision(DecideConfig(rule="ofo"), ranking, gold, LABELS)
    old, new = decision.rule, decision.for_labels(MORE).rule
    assert new.thresholds.tolist() == [*old.thresholds, old.first]
    assert new.alpha.tolist() == [*old.alpha, 0]
    assert new.beta.tolist() == [*old.beta, 0]


@pytest.mark.parametrize(
    ("thresholds", "default"), [([0.05, 0.4, 0.6], 0.4), ([0.05, 0.6, 0.7, 0.7], 0.7), ([0.3], 0.3)]
)
def test_an_early_decision_without_a_default_threshold_can_be_read(tmp_path, thresholds, default):
    """Labels without evidence have the default; where there are none, the median replaces it."""
    n, path = len(thresholds), tmp_path / "decision.json"
    few = LabelSpace(LABELS.ids[:n], LABELS.frequency[:n], 10)
    Decision(DecideConfig(), PerLabel(np.array(thresholds), 0.9)).save(path)
    stored = json.loads(path.read_text())
    del stored["values"]["start"]
    path.write_text(json.dumps(stored))
    rule = load_decision(path, few).rule
    assert rule.thresholds.tolist() == thresholds
    assert rule.default == default


@given(
    seed=st.integers(0, 1_000),
    rule=st.sampled_from(list(RULES)),
    ancestors=st.sampled_from(["keep", "add", "drop"]),
    limit=st.none() | st.integers(0, 9),
    own_limit=st.none() | st.integers(1, 9),
    include=st.sets(st.integers(0, 3), max_size=3),
    exclude=st.sets(st.integers(4, 7), max_size=3),
)
@settings(max_examples=50, deadline=None)
def test_sets_contain_what_is_included_and_nothing_excluded_and_never_more_than_asked(
    seed, rule, ancestors, limit, own_limit, include, exclude
):
    config = DecideConfig(rule=rule, ancestors=ancestors, limit=own_limit)
    ranking, gold = plant_ranking(seed, 12)
    decision = tune_decision(config, ranking, gold, LABELS)
    chosen = decision.apply(ranking, limit=limit, include=list(include), exclude=list(exclude))
    most = min(n for n in (limit, own_limit, N_LABELS) if n is not None)
    probability = ranking.scores(N_LABELS).toarray()
    for i, row in enumerate(chosen.columns):
        labels = [int(column) for column in row if column >= 0]
        assert len(labels) == len(set(labels)) <= most
        assert not exclude & set(labels)
        assert include <= set(labels) or len(include) > most
        if ancestors != "add":
            assert chosen.probabilities[i, : len(labels)].tolist() == [
                probability[i, c] for c in labels
            ]


def test_an_included_label_takes_the_place_of_a_better_one():
    ranking = Ranking(np.array([[5, 6, 7]], np.int32), np.array([[0.9, 0.8, 0.1]], np.float32))
    decision = tune_decision(DecideConfig(rule="top-k", top_k=2), *plant_ranking(0), LABELS)
    assert decision.apply(ranking, limit=2, include=[7]).columns.tolist() == [[5, 7]]
    assert decision.apply(ranking, limit=1, include=[7]).columns.tolist() == [[7]]
    chosen = decision.apply(ranking, include=[0])
    assert chosen.columns[0, :3].tolist() == [5, 6, 0]
    assert chosen.probabilities[0, 2] == 0


def test_excluding_a_label_makes_room_for_the_next():
    ranking = Ranking(np.array([[5, 6, 7]], np.int32), np.array([[0.9, 0.8, 0.1]], np.float32))
    decision = tune_decision(DecideConfig(rule="top-k", top_k=2), *plant_ranking(0), LABELS)
    assert decision.apply(ranking, exclude=[5]).columns.tolist() == [[6, 7, -1]]


def test_a_label_cannot_be_both_included_and_excluded():
    decision = tune_decision(DecideConfig(), *plant_ranking(0), LABELS)
    with pytest.raises(ConfigError, match=r"\[3\] are both"):
        decision.apply(plant_ranking(1)[0], include=[3], exclude=[3])


def test_documents_without_gold_do_not_change_the_tuning():
    ranking, gold = plant_ranking(0, 30)
    unlabelled = Ranking(
        np.full((30, 6), 1, np.int32) * np.arange(6, dtype=np.int32), ranking.probabilities
    )
    both = Ranking.join([ranking, unlabelled], 6)
    padded = csr_array(np.vstack([gold.toarray(), np.zeros((30, N_LABELS), np.int8)]))
    for rule in ["threshold", "per-label", "ofo"]:
        config = DecideConfig(rule=rule)
        here, there = (
            tune_decision(config, ranking, gold, LABELS),
            tune_decision(config, both, padded, LABELS),
        )
        assert_same(here.apply(ranking), there.apply(ranking))


@pytest.mark.parametrize("rule", RULES)
def test_an_empty_dev_corpus_still_gives_a_decision(rule):
    ranking, gold = plant_ranking(0, 5)
    none = np.array([], dtype=int)
    decision = tune_decision(
        DecideConfig(rule=rule), ranking.take(none), csr_array(gold[none]), LABELS
    )
    chosen = decision.apply(ranking)
    assert len(chosen) == 5
    assert len(decision.apply(ranking.take(none))) == 0
    if rule in ("threshold", "per-label", "ofo"):
        assert (chosen.columns >= 0).sum() == (ranking.probabilities > 0.5).sum()


@pytest.mark.parametrize("rule", ["threshold", "per-label"])
def test_fewer_labels_after_rejections_and_more_after_acceptances(rule):
    ranking, gold = plant_ranking(0)
    none = csr_array(gold.shape, dtype=np.int8)
    every = csr_array(np.ones(gold.shape, dtype=np.int8))
    before = tune_decision(DecideConfig(rule=rule), ranking, gold, LABELS)
    rejected = before.update(ranking, none, every)
    accepted = before.update(ranking, every, none)
    old = (before.apply(ranking).columns >= 0).sum()
    assert (rejected.apply(ranking).columns >= 0).sum() < old
    assert (accepted.apply(ranking).columns >= 0).sum() > old
    np.testing.assert_array_equal(
        before.update(ranking, none, none).rule.thresholds, before.rule.thresholds
    )


@pytest.mark.parametrize("rule", ["top-k", "expected-f"])
def test_a_rule_without_thresholds_names_the_other_way_to_learn(rule):
    ranking, gold = plant_ranking(0)
    none = csr_array(gold.shape, dtype=np.int8)
    decision = tune_decision(DecideConfig(rule=rule), ranking, gold, LABELS)
    with pytest.raises(RunError, match="has no thresholds") as refused:
        decision.update(ranking, gold, none)
    assert "--retrain" in refused.value.hint


def test_ofo_starts_at_the_common_threshold_with_a_prior_and_at_first_lambda_without():
    ranking, gold = plant_ranking(0)
    one = tune_decision(DecideConfig(rule="threshold"), ranking, gold, LABELS).rule.value
    assert tune_decision(DecideConfig(rule="ofo", prior=2), ranking, gold, LABELS).rule.first == one
    paper = DecideConfig(rule="ofo", prior=0, first_lambda=0.7)
    assert tune_decision(paper, ranking, gold, LABELS).rule.first == 0.7


def test_ancestors_need_an_ontology():
    flat = LabelSpace(LABELS.ids, LABELS.frequency, 10)
    with pytest.raises(ConfigError, match="needs an ontology"):
        tune_decision(DecideConfig(ancestors="drop"), *plant_ranking(0), flat)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"rule": "treshold"}, "rule takes one of 'top-k'"),
        ({"top_k": 0}, "at least 1"),
        ({"first_lambda": 1.5}, r"first_lambda must be in \[0, 1\]"),
        ({"passes": 0}, "passes must be at least 1, not 0"),
        ({"prior": -1}, "prior must be at least 0, not -1"),
        ({"shrink": -1}, "shrink must be at least 0, not -1"),
        ({"limit": 0}, "limit must be at least 1, not 0"),
    ],
)
def test_settings_out_of_range_are_refused_with_a_sentence(table, words):
    with pytest.raises(ConfigError, match=words):
        build_config(DecideConfig, table, "decide")


@pytest.mark.parametrize(
    "change",
    [
        {"format": 99},
        {"values": {}},
        {"config": {"rule": "ofo", "sides": 3}},
        {"values": {"values": {"columns": 3, "usual": 0.5, "at": [], "values": []}}},
        {"values": {"values": {"columns": 8, "usual": -1.0, "at": [], "values": []}}},
        {"values": {"values": {"columns": 8, "usual": 0.5, "at": [99], "values": [0.1]}}},
    ],
)
def test_a_damaged_decision_is_refused(tmp_path, change):
    path = tmp_path / "decision.json"
    tune_decision(DecideConfig(rule="per-label"), *plant_ranking(0), LABELS).save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises((RunError, ConfigError)):
        load_decision(path, LABELS)
    path.write_text("{")
    with pytest.raises(RunError, match=r"decision\.json: cannot be read as JSON"):
        load_decision(path, LABELS)

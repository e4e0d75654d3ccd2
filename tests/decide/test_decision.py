from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from ontodex.config import build as build_config
from ontodex.decide import DecideConfig, Decision, load, tune
from ontodex.decide.threshold import PerLabel
from ontodex.errors import ConfigError, RunError
from ontodex.ontology.graph import Concept, build
from ontodex.types import LabelSpace, Ranking

RULES = ["top", "threshold", "per-label", "ofo", "expected-f"]
N_LABELS = 8
# 0 is above 1 is above 2; 3 is above 4; the rest stand alone.
ONTOLOGY = build(
    Concept(str(i), parents={1: ["0"], 2: ["1"], 4: ["3"]}.get(i, [])) for i in range(N_LABELS)
)
LABELS = LabelSpace(ONTOLOGY.ids, np.ones(N_LABELS, np.int64), 10, ONTOLOGY)


def planted(seed: int, n_docs: int = 60) -> tuple[Ranking, csr_array]:
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
    decision = tune(DecideConfig(rule=rule, top=2), *planted(0, 800), LABELS)
    ranking, gold = planted(1, 800)
    ours = micro_f(decision.apply(ranking), gold)
    assert ours > micro_f(ranking, gold) + 0.05
    assert ours > micro_f(ranking.cut(1), gold) + 0.02


@pytest.mark.parametrize("rule", RULES)
def test_saved_and_loaded_decisions_decide_alike_and_save_the_same_bytes(rule, tmp_path):
    ranking, gold = planted(0)
    decision = tune(DecideConfig(rule=rule, ancestors="add", limit=4), ranking, gold, LABELS)
    decision.save(tmp_path / "decision.json")
    again = load(tmp_path / "decision.json", LABELS)
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "decision.json").read_bytes()
    assert again.config == decision.config
    assert_same(again.apply(ranking), decision.apply(ranking))


MORE = LabelSpace((*LABELS.ids, "new"), np.ones(N_LABELS + 1, np.int64), 11)


def test_a_new_label_has_the_threshold_that_all_labels_started_from(tmp_path):
    ranking, gold = planted(0)
    one = tune(DecideConfig(rule="threshold"), ranking, gold, LABELS).rule.value
    decision = tune(DecideConfig(rule="per-label"), ranking, gold, LABELS)
    assert len(set(decision.rule.values)) == len(LABELS), "all differ: none is the usual one"
    decision.save(tmp_path / "decision.json")
    for known in (decision, load(tmp_path / "decision.json", LABELS)):
        widened = known.for_labels(MORE).rule.values
        assert widened.tolist() == [*decision.rule.values, one]


def test_a_new_label_begins_with_ofo_as_every_label_did():
    ranking, gold = planted(0)
    decision = tune(DecideConfig(rule="ofo"), ranking, gold, LABELS)
    old, new = decision.rule, decision.for_labels(MORE).rule
    assert new.thresholds.tolist() == [*old.thresholds, old.first]
    assert new.alpha.tolist() == [*old.alpha, 0]
    assert new.beta.tolist() == [*old.beta, 0]


@pytest.mark.parametrize(
    ("thresholds", "start"), [([0.05, 0.4, 0.6], 0.4), ([0.05, 0.6, 0.7, 0.7], 0.7), ([0.3], 0.3)]
)
def test_a_decision_that_does_not_say_where_its_thresholds_started_can_be_read(
    tmp_path, thresholds, start
):
    """Labels without evidence have kept it; where there are none, the median stands for it."""
    n, path = len(thresholds), tmp_path / "decision.json"
    few = LabelSpace(LABELS.ids[:n], LABELS.frequency[:n], 10)
    Decision(DecideConfig(), PerLabel(np.array(thresholds), 0.9)).save(path)
    stored = json.loads(path.read_text())
    del stored["values"]["start"]
    path.write_text(json.dumps(stored))
    rule = load(path, few).rule
    assert rule.values.tolist() == thresholds
    assert rule.start == start


@given(
    seed=st.integers(0, 1_000),
    rule=st.sampled_from(RULES),
    ancestors=st.sampled_from(["keep", "add", "drop"]),
    limit=st.none() | st.integers(0, 9),
    own_limit=st.none() | st.integers(1, 9),
    include=st.sets(st.integers(0, 3), max_size=3),
    exclude=st.sets(st.integers(4, 7), max_size=3),
)
@settings(max_examples=50, deadline=None)
def test_sets_hold_what_is_included_and_nothing_excluded_and_never_more_than_asked(
    seed, rule, ancestors, limit, own_limit, include, exclude
):
    config = DecideConfig(rule=rule, ancestors=ancestors, limit=own_limit)
    ranking, gold = planted(seed, 12)
    decision = tune(config, ranking, gold, LABELS)
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
    decision = tune(DecideConfig(rule="top", top=2), *planted(0), LABELS)
    assert decision.apply(ranking, limit=2, include=[7]).columns.tolist() == [[5, 7]]
    assert decision.apply(ranking, limit=1, include=[7]).columns.tolist() == [[7]]
    chosen = decision.apply(ranking, include=[0])
    assert chosen.columns[0, :3].tolist() == [5, 6, 0]
    assert chosen.probabilities[0, 2] == 0


def test_excluding_a_label_makes_room_for_the_next():
    ranking = Ranking(np.array([[5, 6, 7]], np.int32), np.array([[0.9, 0.8, 0.1]], np.float32))
    decision = tune(DecideConfig(rule="top", top=2), *planted(0), LABELS)
    assert decision.apply(ranking, exclude=[5]).columns.tolist() == [[6, 7, -1]]


def test_a_label_cannot_be_both_included_and_excluded():
    decision = tune(DecideConfig(), *planted(0), LABELS)
    with pytest.raises(ConfigError, match=r"\[3\] are both"):
        decision.apply(planted(1)[0], include=[3], exclude=[3])


def test_documents_without_gold_do_not_move_the_tuning():
    ranking, gold = planted(0, 30)
    mute = Ranking(
        np.full((30, 6), 1, np.int32) * np.arange(6, dtype=np.int32), ranking.probabilities
    )
    both = Ranking.join([ranking, mute], 6)
    padded = csr_array(np.vstack([gold.toarray(), np.zeros((30, N_LABELS), np.int8)]))
    for rule in ["threshold", "per-label", "ofo"]:
        config = DecideConfig(rule=rule)
        here, there = tune(config, ranking, gold, LABELS), tune(config, both, padded, LABELS)
        assert_same(here.apply(ranking), there.apply(ranking))


@pytest.mark.parametrize("rule", RULES)
def test_an_empty_dev_corpus_still_gives_a_decision(rule):
    ranking, gold = planted(0, 5)
    none = np.array([], dtype=int)
    decision = tune(DecideConfig(rule=rule), ranking.take(none), csr_array(gold[none]), LABELS)
    chosen = decision.apply(ranking)
    assert len(chosen) == 5
    assert len(decision.apply(ranking.take(none))) == 0
    if rule in ("threshold", "per-label", "ofo"):
        assert (chosen.columns >= 0).sum() == (ranking.probabilities > 0.5).sum()


def test_curators_move_only_ofo():
    ranking, gold = planted(0)
    none = csr_array(gold.shape, dtype=np.int8)
    before = tune(DecideConfig(rule="ofo"), ranking, gold, LABELS)
    after = before.update(ranking, gold, none)
    assert (after.rule.alpha >= before.rule.alpha).all()
    assert after.rule.beta.sum() > before.rule.beta.sum()
    with pytest.raises(RunError, match="'threshold' does not learn"):
        tune(DecideConfig(rule="threshold"), ranking, gold, LABELS).update(ranking, gold, none)


def test_ofo_starts_at_the_one_threshold_when_it_has_a_prior_and_at_first_lambda_when_not():
    ranking, gold = planted(0)
    one = tune(DecideConfig(rule="threshold"), ranking, gold, LABELS).rule.value
    assert tune(DecideConfig(rule="ofo", prior=2), ranking, gold, LABELS).rule.first == one
    paper = DecideConfig(rule="ofo", prior=0, first_lambda=0.7)
    assert tune(paper, ranking, gold, LABELS).rule.first == 0.7


def test_ancestors_need_an_ontology():
    flat = LabelSpace(LABELS.ids, LABELS.frequency, 10)
    with pytest.raises(ConfigError, match="needs an ontology"):
        tune(DecideConfig(ancestors="drop"), *planted(0), flat)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"rule": "treshold"}, "rule takes one of 'top'"),
        ({"top": 0}, "at least 1"),
        ({"first_lambda": 1.5}, r"first_lambda must be in \[0, 1\]"),
        ({"prior": -1}, "shrink and prior"),
        ({"shrink": -1}, "shrink and prior must not be negative"),
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
    tune(DecideConfig(rule="per-label"), *planted(0), LABELS).save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises((RunError, ConfigError)):
        load(path, LABELS)
    path.write_text("{")
    with pytest.raises(RunError, match="not a decision"):
        load(path, LABELS)

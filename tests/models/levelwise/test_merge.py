"""One label set and one ranking from all levels."""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest
from levelwise_planted import CONFIG, DEV, LABELS, TEST, fit_system

from ontodex.config import vary
from ontodex.models.interface import Decides
from ontodex.models.levelwise.merge import Merge
from ontodex.models.levelwise.pointer import CandidateLabels, Pointer
from ontodex.models.levelwise.thresholds import DEPTH
from ontodex.types import Corpus, Ranking


def test_the_pointer_generator_reads_labels_that_reach_a_share_of_their_threshold(system):
    rankings = system.predict_levels(DEV)[-1]
    pointer = vary(CONFIG.pointer, candidate_threshold_ratio=0.2)
    merging = Merge(vary(CONFIG, pointer=pointer), system.merging.hierarchy, "cpu")
    kept = merging.join_predictions(rankings, system.thresholds)
    more = merging.join_candidates(rankings, system.thresholds)
    assert (more.columns >= 0).sum() > (kept.columns >= 0).sum()
    for few, many in zip(kept.columns, more.columns, strict=True):
        assert set(few[few >= 0]) <= set(many)


def test_predicted_labels_have_the_same_probability_in_the_ranking(system):
    ranking, decided = system.rank(TEST, 6), system.decide(TEST)
    chances = ranking.scores(len(LABELS)).toarray()
    for row, columns in enumerate(decided.columns):
        for column, probability in zip(columns, decided.probabilities[row], strict=True):
            assert column < 0 or chances[row, column] == pytest.approx(probability, abs=1e-6)


def test_the_pointer_generator_predicts_sets_and_shows_its_attention(work):
    merged = fit_system(work, merge="pointer")
    assert isinstance(merged, Decides)
    decided, ranking = merged.decide(TEST), merged.rank(TEST, 6)
    for row in range(len(TEST)):
        chosen = set(decided.columns[row][decided.columns[row] >= 0].tolist())
        assert set(ranking.columns[row][: len(chosen)].tolist()) == chosen, "the set comes first"
    seen = merged.explain_set(TEST[0])
    assert seen.coverage.shape[1] == 2
    predicted = {
        column: p
        for ranking in merged.predict_levels(Corpus.of([TEST[0]]))[-1]
        for column, p in zip(ranking.columns[0], ranking.probabilities[0], strict=True)
    }
    shown = zip(seen.predicted, seen.predicted_probabilities, strict=True)
    assert all(predicted[column] == p for column, p in shown)


def test_the_pointer_generator_reads_the_probabilities_of_the_levels(work):
    merged = fit_system(work, merge="pointer")
    rankings = [r.cut(DEPTH) for r in merged.predict_levels(TEST)[-1]]
    candidates = merged.merging.make_candidates(rankings, merged.thresholds)
    predicted = {
        (row, column): p
        for ranking in rankings
        for row in range(len(TEST))
        for column, p in zip(ranking.columns[row], ranking.probabilities[row], strict=True)
    }
    for row, column in np.argwhere(candidates.columns >= 0):
        expected = float(predicted[row, candidates.columns[row, column]])
        assert candidates.probabilities[row, column] == pytest.approx(expected, abs=1e-4)


def test_a_run_without_pointer_generator_has_no_steps_to_show(system):
    assert system.explain_set(TEST[0]) is None


def test_predicting_ranking_and_sets_at_once_equals_ranking_and_deciding(work):
    merged = fit_system(work, merge="pointer")
    assert isinstance(merged, Decides)
    found = merged.predict(TEST, 6)
    alone = merged.rank(TEST, 6), merged.decide(TEST)
    for mine, theirs in zip((found.ranking, found.label_sets), alone, strict=True):
        np.testing.assert_array_equal(mine.columns, theirs.columns)
        np.testing.assert_array_equal(mine.probabilities, theirs.probabilities)


@pytest.mark.parametrize("emits", [True, False])
def test_a_training_warns_where_sets_would_be_better_without_the_pointer_generator(
    work, monkeypatch, caplog, emits
):
    """Copying what the thresholds keep is as good as that; an empty set is not."""
    share = vary(CONFIG.pointer, candidate_threshold_ratio=1.0)

    def copy(_: Pointer, found: CandidateLabels) -> Ranking:
        kept = Ranking.sort(found.columns, found.probabilities, found.columns.shape[1])
        return kept if emits else kept.cut(0)

    monkeypatch.setattr(Pointer, "decode", copy)
    fit_system(work, merge="pointer", pointer=share)
    advice = "--set model.merge=threshold would predict better label sets"
    assert any(advice in predicted for predicted in caplog.messages) != emits


def test_the_rule_with_the_highest_micro_f_on_dev_is_chosen_and_saved(work, tmp_path):
    system = fit_system(work, merge="auto")
    merging = system.merging
    assert merging is not None
    assert set(merging.micro_f) == {"pointer", "sampling", "threshold"}
    assert merging.rule == max(merging.micro_f, key=merging.micro_f.__getitem__)
    system.save(tmp_path)
    again = type(system).load(tmp_path, LABELS)
    assert again.merging is not None
    assert (again.merging.rule, again.merging.micro_f) == (merging.rule, merging.micro_f)
    np.testing.assert_array_equal(again.decide(TEST).columns, system.decide(TEST).columns)
    about = json.loads((tmp_path / "levelwise.json").read_text())
    assert about["pointer_is_trained"] is again.merging.pointer_is_trained
    assert about["pointer_is_trained"] in (True, False)


def test_a_run_records_an_untrained_pointer_generator_where_dev_chose_another_rule(
    work, monkeypatch, caplog, tmp_path
):
    load = Pointer.load.__func__

    def load_untrained(cls, *args, **kwargs):
        pointer = load(cls, *args, **kwargs)
        pointer.is_trained = False
        return pointer

    monkeypatch.setattr(Pointer, "load", classmethod(load_untrained))
    monkeypatch.setattr(Pointer, "decode", lambda _, found: Ranking.sort(
        found.columns, found.probabilities, 0
    ))  # fmt: skip
    with caplog.at_level(logging.INFO, logger="ontodex"):
        system = fit_system(work, merge="auto")
    assert system.merging.pointer is None
    assert "micro-F on dev: pointer (untrained) 0.0" in caplog.text
    system.save(tmp_path)
    assert json.loads((tmp_path / "levelwise.json").read_text())["pointer_is_trained"] is False
    assert type(system).load(tmp_path, LABELS).merging.pointer_is_trained is False

from __future__ import annotations

import dataclasses

import pytest

from ontodex.errors import RunError
from ontodex.models.auto.budget import Budget
from ontodex.models.auto.rungs import make_rungs
from ontodex.models.auto.search import Search
from ontodex.models.auto.trials import TrialRunner
from ontodex.types import LabelSpace


@pytest.fixture
def make_search(make_corpus, ontology, tmp_path):
    train, dev = make_corpus(60, 1), make_corpus(20, 2)

    def make(seconds: float, *, has_names: bool = True, **more: float) -> Search:
        labels = LabelSpace.of(train, ontology if has_names else None)
        rungs = make_rungs(train, dev, labels, folds=2, seed=1)
        runner = TrialRunner(tmp_path / "trials", labels, device="cpu", depth=10)
        budget = Budget(seconds)
        return Search(runner, rungs, budget, documents=80, final_fits=2, **more)

    return make


def test_with_time_enough_every_candidate_and_alternative_is_tried(make_search):
    search = make_search(3_600)
    result = search.run(["lexical", "knn"])
    last = search.rungs[-1].name
    assert {trial.system for trial in result.candidates} == {"lexical", "knn"}
    assert {trial.name for trial in result.trials} >= {"knn min_df=1", "lexical smooth=2.0"}
    for trial in result.candidates:
        same = [t for t in result.trials if t.system == trial.system and t.rung == last]
        assert trial.ndcg == max(t.ndcg for t in same)
    assert result.selection.score >= max(trial.ndcg for trial in result.candidates)
    assert not result.left_out


def test_without_time_one_candidate_is_trained_and_the_budget_is_said_to_be_short(
    make_search, caplog
):
    result = make_search(1e-6).run(["knn", "lexical"])
    assert [trial.system for trial in result.chosen] == ["knn"]
    assert result.left_out == {"lexical": "no time was left to try it"}
    assert "too short: knn alone will take about" in caplog.text


def test_a_search_that_was_killed_takes_its_finished_trials(make_search):
    first = make_search(3_600).run(["knn"])
    again = make_search(3_600)
    second = again.run(["knn"])
    assert second.trials == first.trials
    assert second.selection.weights == first.selection.weights
    assert again.budget.spent >= sum(trial.seconds for trial in first.trials)


def test_a_candidate_that_fails_is_left_out_with_its_message(make_search):
    result = make_search(3_600, has_names=False).run(["lexical", "knn"])
    assert [trial.system for trial in result.chosen] == ["knn"]
    assert "needs an ontology" in result.left_out["lexical"]
    with pytest.raises(RunError, match="no candidate could be trained: lexical: lexical needs"):
        make_search(3_600, has_names=False).run(["lexical"])


def test_the_slower_member_is_left_out_for_the_latency(make_search):
    search = make_search(3_600, max_latency=1e-9)
    result = search.run(["lexical", "knn"])
    assert len(result.chosen) == 1
    fastest = min(result.candidates, key=lambda trial: trial.latency)
    assert result.chosen == [fastest]


def test_where_time_is_short_fewer_folds_decide(make_search):
    search = make_search(3_600)
    search._probe(["knn"])
    search.trials[0] = dataclasses.replace(search.trials[0], fit_seconds=10.0)
    search._drop_folds(["knn"])
    assert [len(rung.splits) for rung in search.rungs] == [1, 2]
    search.budget.spend(search.budget.left - 0.06 * 3_600)  # 36 s are left, beside the reserve
    search._drop_folds(["knn"])
    assert [len(rung.splits) for rung in search.rungs] == [1]

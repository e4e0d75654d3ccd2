from __future__ import annotations

import dataclasses

import pytest

from ontodex.errors import RunError
from ontodex.models.auto import search as search_module
from ontodex.models.auto.budget import Budget
from ontodex.models.auto.rungs import Rung, Split, make_rungs
from ontodex.models.auto.search import Search
from ontodex.models.auto.trials import Trial, TrialRunner
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
    assert again.budget.spent >= sum(trial.spent_seconds for trial in first.trials)


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


def test_settings_are_judged_on_three_hundred_documents_where_there_are_so_many(
    make_corpus, tmp_path
):
    train, dev = make_corpus(1_300, 1), make_corpus(120, 2)
    labels = LabelSpace.of(train)
    rungs = make_rungs(train, dev, labels, folds=0, seed=1)
    runner = TrialRunner(tmp_path, labels, device="cpu", depth=10)
    search = Search(runner, rungs, Budget(3_600), documents=1_420, final_fits=1)
    search.try_settings("knn", {}, rungs[0])
    assert rungs[0].gold.shape[0] == 120
    assert search._choose_rung("knn", share=0.0) is rungs[1]
    assert search.estimate("knn", {}, rungs[1]) < 2 * search.trials[0].seconds
    assert search._choose_rung("knn", share=1e6) is rungs[-1]


class CostedRunner(TrialRunner):
    """Trials that train nothing: each takes what `costs` says of its documents."""

    def __init__(self, folder, labels, costs, budget):
        super().__init__(folder, labels, device="cpu", depth=10)
        self.costs, self.budget, self.done = costs, budget, {}

    def find(self, system, settings, rung):
        return self.done.get((system, str(settings), rung.name))

    def run(self, system, settings, rung):
        seconds = self.costs[system](rung.documents)
        self.budget.spend(seconds)
        splits = len(rung.splits)
        trial = Trial(system, settings, rung.name, rung.documents, splits, fit_seconds=seconds)
        self.done[system, str(settings), rung.name] = trial
        return trial


@pytest.fixture
def make_costed(make_corpus, ontology, tmp_path):
    train, dev = make_corpus(160, 1), make_corpus(20, 2)

    def make(seconds, **costs):
        labels = LabelSpace.of(train, ontology)
        rungs = []
        for size in (10, 40, 160):
            split = Split(train.select(range(size)), dev, labels)
            rungs.append(Rung(f"{size} documents", (split,), labels.gold(dev)))
        budget = Budget(seconds)
        runner = CostedRunner(tmp_path, labels, costs, budget)
        return Search(runner, rungs, budget, documents=180, final_fits=1)

    return make


def test_a_cost_that_hardly_grows_is_found_by_a_second_probe(make_costed):
    """By one trial of 20 s, 160 documents would take 20 * 16 ** 1.3 = 735 s."""
    search = make_costed(1_000, linear=lambda n: 20 + n / 4, knn=lambda n: n / 100)
    search._probe(["linear", "knn"])
    assert [(t.system, t.documents) for t in search.trials] == [
        ("linear", 10), ("knn", 10), ("linear", 40), ("knn", 40), ("linear", 160), ("knn", 160),
    ]  # fmt: skip
    assert search.estimate("linear", {}, search.rungs[-1]) == pytest.approx(60)
    assert sorted(search._plan()) == ["knn", "linear"]


def test_a_fixed_cost_does_not_keep_a_system_from_the_probe_that_shows_it(make_costed):
    """By the growth that a plan assumes, 40 documents would take 45 * 4 ** 1.3 = 273 s."""
    search = make_costed(1_000, lexical=lambda n: 45.0, knn=lambda n: n / 100)
    search._probe(["lexical", "knn"])
    assert ("lexical", 160) in [(t.system, t.documents) for t in search.trials]
    assert "lexical" in search._plan()


def test_a_second_probe_takes_at_most_a_quarter_of_the_time(make_costed):
    search = make_costed(1_000, linear=lambda n: 100.0, knn=lambda n: n / 100)
    search._probe(["linear", "knn"])
    assert ("linear", 40) not in [(t.system, t.documents) for t in search.trials]


def test_what_does_not_leave_time_for_learning_dev_is_still_trained_in_full(make_costed):
    search = make_costed(1_000, linear=lambda n: n * 3.0, knn=lambda n: n / 100)
    search._probe(["linear", "knn"])
    planned = search._plan()
    assert planned == ["knn"], "850 s are left for training linear twice, for 480 and 540 s"
    search._finish(planned)
    assert ("linear", 160) in [(t.system, t.documents) for t in search.trials]
    assert not search.left_out


def test_settings_are_tuned_again_when_the_costs_are_known(make_costed):
    """By its first trials bonsai would take 80 s, so that none were left for tuning it."""
    costs = {"bonsai": lambda n: n / 2 if n < 160 else 6.0, "knn": lambda n: n / 100}
    search = make_costed(150, **costs)
    search._probe(["bonsai", "knn"])
    planned = search._plan()
    search._tune(planned)
    assert not any(t.system == "bonsai" and t.settings for t in search.trials)
    finished = search._finish(planned)
    assert sorted(finished) == ["bonsai", "knn"]
    while search._tune(finished):
        finished = search._finish(finished)
    assert any(t.system == "bonsai" and t.settings for t in search.trials)
    tried = [(t.system, str(t.settings), t.rung) for t in search.trials]
    assert len(tried) == len(set(tried))


def test_a_setting_is_not_judged_by_a_few_hundred_documents(make_costed, monkeypatch):
    search = make_costed(1_000, knn=lambda n: n / 100)
    search._probe(["knn"])
    assert search._choose_rung("knn", 0.0) is search.rungs[0], "no rung has 1,000 documents"
    monkeypatch.setattr(search_module, "_TUNED_DOCUMENTS", 40)
    assert search._choose_rung("knn", 0.0) is search.rungs[1]
    assert search._choose_rung("knn", 100.0) is search.rungs[2]

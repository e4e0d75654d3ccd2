from __future__ import annotations

import pytest

from ontodex.errors import RunError
from ontodex.models.auto.budget import Budget
from ontodex.models.auto.candidates import list_alternatives
from ontodex.models.auto.halving import halve, list_configurations
from ontodex.models.auto.rungs import make_rungs
from ontodex.models.auto.search import Search
from ontodex.models.auto.trials import TrialRunner
from ontodex.types import LabelSpace

ALTERNATIVES = list_alternatives("linear", "text")


@pytest.fixture
def make_search(make_corpus, tmp_path):
    train = make_corpus(60, 1)
    labels = LabelSpace.of(train)
    rungs = make_rungs(train, train.select([]), labels, folds=2, seed=1)

    def make(seconds: float) -> Search:
        runner = TrialRunner(tmp_path, labels, device="cpu", depth=10)
        return Search(runner, rungs, Budget(seconds), documents=60, final_fits=2)

    return make


def test_configurations_begin_with_the_start_and_repeat_nothing():
    found = list_configurations({"prune": 0.1}, ALTERNATIVES, seed=1)
    assert found[0] == {"prune": 0.1}
    assert found[1] == {"prune": 0.1, "lemmas": ""}
    assert all(one["prune"] == 0.1 for one in found)
    assert len(found) == len({str(sorted(one.items())) for one in found})
    assert any(len(one) > 2 for one in found)
    assert found == list_configurations({"prune": 0.1}, ALTERNATIVES, seed=1)


def test_a_third_of_the_settings_reaches_the_last_rung_and_the_start_always_does(make_search):
    search = make_search(3_600)
    configurations = [{}, {"neighbours": 1}, {"neighbours": 5}, {"neighbours": 7}]
    best = halve(search, "knn", configurations)
    on_last = [trial for trial in search.trials if trial.rung == search.rungs[-1].name]
    on_first = [trial for trial in search.trials if trial.rung == search.rungs[0].name]
    assert len(on_first) == 4
    assert 2 <= len(on_last) <= 3
    assert on_last[0].settings == {}
    assert best == max(on_last, key=lambda trial: trial.ndcg)


def test_without_time_only_the_start_is_tried(make_search):
    search = make_search(1e-6)
    assert halve(search, "knn", [{}, {"neighbours": 1}]).settings == {}
    assert len(search.trials) == 1


def test_a_system_that_fails_is_reported(make_search):
    with pytest.raises(RunError, match="no trial could be finished: lexical needs an ontology"):
        halve(make_search(3_600), "lexical", [{}, {"smooth": 2.0}])

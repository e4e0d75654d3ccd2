from __future__ import annotations

import json

import numpy as np
import pytest

import ontodex
from ontodex.errors import ConfigError, RunError
from ontodex.models.auto.config import AutoConfig
from ontodex.models.auto.system import AutoSystem
from ontodex.types import LabelSpace

SMALL = AutoConfig(budget="1h", systems=("knn", "lexical"), folds=2)


def test_a_run_learns_dev_in_the_end_and_says_what_was_tried(make_corpus, ontology, tmp_path):
    train, dev, test = make_corpus(60, 1), make_corpus(20, 2), make_corpus(30, 3)
    run = ontodex.train(
        "auto", train=train, dev=dev, ontology=ontology, out=tmp_path / "run", refit=True,
        budget="1h", systems=["knn", "lexical"],
    )  # fmt: skip
    knn = next(
        member for member in run.model._consensus.members if "knn" in str(type(member.model))
    )
    assert knn.model.memory.shape[0] == 80
    record = json.loads((tmp_path / "run" / "model" / "auto.json").read_text())
    assert {trial["system"] for trial in record["trials"]} == {"knn", "lexical"}
    assert record["measured_on"] == "5 folds of 80 documents"
    page = (tmp_path / "run" / "auto.html").read_text()
    assert "knn min_df=1" in page
    assert not (tmp_path / "run" / "work").exists()
    assert ontodex.evaluate(run, test)["P@1"] > 0.6
    assert run.explain(test[0]).spans
    again = ontodex.load(tmp_path / "run")
    np.testing.assert_array_equal(again.rank(test, 5).columns, run.rank(test, 5).columns)


def test_dev_documents_are_ranked_by_systems_that_have_not_learned_them(make_corpus, ontology):
    train, dev = make_corpus(600, 1), make_corpus(500, 2)
    labels = LabelSpace.of(train, ontology)
    system = AutoSystem(AutoConfig(budget="1h", systems=("knn",)))
    system.fit(train, dev, labels)
    kept = system.rank(dev, 10)
    system._ranked = {}
    fresh = system.rank(dev, 10)
    # `kept` is by models of other folds; the model that ranks the first labels again knows dev.
    assert np.mean(kept.columns == fresh.columns) > 0.9
    np.testing.assert_allclose(kept.probabilities[:, 0], fresh.probabilities[:, 0], atol=0.2)
    before = float(np.mean(labels.gold(dev)[np.arange(500), fresh.columns[:, 0]]))
    system.refit(train.join(dev), LabelSpace.of(train.join(dev), ontology))
    after = float(np.mean(labels.gold(dev)[np.arange(500), system.rank(dev, 1).columns[:, 0]]))
    assert after > before  # only now does it know them


def test_where_dev_is_one_of_the_folds_its_ranking_is_kept(make_corpus, ontology):
    train, dev = make_corpus(300, 1), make_corpus(100, 2)
    system = AutoSystem(AutoConfig(budget="1h", systems=("knn",)))
    system.fit(train, dev, LabelSpace.of(train, ontology))
    assert system.record["measured_on"] == "5 folds of 400 documents"
    kept = system.rank(dev, 10)
    system._ranked = {}
    fresh = system.rank(dev, 10)  # by the member that ranked dev, which has not learned it
    assert len(kept) == 100
    assert np.mean(kept.columns == fresh.columns) > 0.9


def test_a_member_without_time_to_learn_dev_stays_as_it_was(make_corpus, ontology, caplog):
    train, dev = make_corpus(60, 1), make_corpus(20, 2)
    system = AutoSystem(SMALL)
    system.fit(train, dev, LabelSpace.of(train, ontology))
    system._budget.spend(1e6)
    with caplog.at_level("INFO"):
        both = train.join(dev)
        system.refit(both, LabelSpace.of(both, ontology))
    assert "has not learned dev: no time was left" in caplog.text
    assert system.record["remarks"]
    assert len(system.rank(dev, 3)) == 20


def test_a_short_budget_that_is_used_up_still_learns_dev(make_corpus, ontology, caplog):
    train, dev = make_corpus(60, 1), make_corpus(20, 2)
    system = AutoSystem(AutoConfig(budget="1m", systems=("knn",)))
    system.fit(train, dev, LabelSpace.of(train, ontology))
    system._budget.spend(system._budget.left + 2)  # two seconds over
    both = train.join(dev)
    system.refit(both, LabelSpace.of(both, ontology))
    assert system.record["remarks"] == []


def test_the_probabilities_of_a_search_are_calibrated(make_corpus, ontology):
    train, dev = make_corpus(150, 1), make_corpus(50, 2)
    labels = LabelSpace.of(train, ontology)
    system = AutoSystem(SMALL)
    system.fit(train, dev, labels)
    test = make_corpus(200, 3)
    claimed = float(system.rank(test, 4).probabilities.sum())
    assert claimed == pytest.approx(labels.gold(test).nnz, rel=0.15)


def test_an_interrupted_search_continues(make_corpus, ontology, tmp_path, monkeypatch):
    train, dev = make_corpus(60, 1), make_corpus(20, 2)
    arguments = {
        "train": train, "dev": dev, "ontology": ontology, "out": tmp_path / "run", "refit": True,
        "budget": "1h", "systems": ["knn", "lexical"],
    }  # fmt: skip
    save = AutoSystem.save
    monkeypatch.setattr(
        AutoSystem, "save", lambda self, folder: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        ontodex.train("auto", **arguments)
    trials = sorted((tmp_path / "run" / "work" / "trials").glob("*/trial.json"))
    times = [path.stat().st_mtime_ns for path in trials]
    assert len(trials) > 2
    monkeypatch.setattr(AutoSystem, "save", save)
    monkeypatch.setattr("ontodex.runs.recipe.remove_work", lambda out: None)
    ontodex.train("auto", **arguments)
    assert [path.stat().st_mtime_ns for path in trials] == times


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"budget": "soon"}, "budget: a time is a number with ms, s, m or h"),
        ({"budget": "0s"}, "budget must be above 0"),
        ({"max_latency": "50"}, "max_latency: a time"),
        ({"folds": 1}, "folds must be 0"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, message, make_corpus, tmp_path):
    with pytest.raises(ConfigError, match=message):
        ontodex.train("auto", train=make_corpus(5, 1), out=tmp_path / "run", **settings)


def test_a_damaged_record_is_refused(make_corpus, ontology, tmp_path):
    train = make_corpus(40, 1)
    labels = LabelSpace.of(train, ontology)
    system = AutoSystem(SMALL)
    system.fit(train, train.select([]), labels)
    system.save(tmp_path)
    (tmp_path / "auto.json").write_text("[]")
    with pytest.raises(RunError):
        AutoSystem.load(tmp_path, labels)

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ontodex.errors import ConfigError
from ontodex.evaluation.ranking import ndcg, score_documents
from ontodex.models.auto.rungs import make_rungs
from ontodex.models.auto.trials import TrialRunner, make_model, nest_settings
from ontodex.models.baselines.knn import KnnSystem
from ontodex.types import LabelSpace


@pytest.fixture
def runner_and_rungs(make_corpus, tmp_path):
    train, dev = make_corpus(60, 1), make_corpus(20, 2)
    labels = LabelSpace.of(train)
    rungs = make_rungs(train, dev, labels, folds=3, seed=1)
    return TrialRunner(tmp_path, labels, device="cpu", depth=10), rungs


def test_a_trial_is_measured_on_the_ranking_it_keeps(runner_and_rungs):
    runner, (*_, last) = runner_and_rungs
    trial = runner.run("knn", {"min_df": 1}, last)
    assert trial.name == "knn min_df=1"
    assert trial.splits == 3
    ranking = runner.load_ranking(trial)
    assert len(ranking) == 80
    expected = score_documents(ndcg, 5, last.gold, ranking).mean()
    assert trial.ndcg == pytest.approx(expected)
    assert 0.5 < trial.ndcg < 1


def test_a_finished_trial_is_found_again_and_an_unfinished_one_is_not(runner_and_rungs):
    runner, (first, *_) = runner_and_rungs
    assert runner.find("knn", {}, first) is None
    trial = runner.run("knn", {}, first)
    assert runner.find("knn", {}, first) == trial
    assert runner.find("knn", {"min_df": 1}, first) is None
    (Path(trial.folder) / "trial.json").unlink()
    assert runner.find("knn", {}, first) is None


def test_folds_that_an_earlier_trial_has_ranked_are_not_trained_again(
    runner_and_rungs, tmp_path, monkeypatch
):
    runner, (first, second, last) = runner_and_rungs
    before = runner.run("knn", {}, first)
    assert before.reused_seconds == 0
    assert runner.find_part("knn", {}, second).folder == before.folder
    assert runner.find_part("knn", {"min_df": 1}, second) is None
    learned = []
    fit = KnnSystem.fit
    monkeypatch.setattr(KnnSystem, "fit", lambda *args: (learned.append(args[1]), fit(*args)))
    trial = runner.run("knn", {}, last)
    assert learned == [split.train for split in last.splits[1:]]
    assert trial.reused_seconds == before.seconds
    assert trial.spent_seconds == pytest.approx(trial.seconds - before.seconds)
    whole = TrialRunner(tmp_path / "whole", runner.labels, device="cpu", depth=10)
    np.testing.assert_array_equal(
        runner.load_ranking(trial).columns,
        whole.load_ranking(whole.run("knn", {}, last)).columns,
    )


def test_the_model_that_ranked_dev_is_kept_when_more_folds_are_ranked(make_corpus, tmp_path):
    train, dev = make_corpus(300, 1), make_corpus(100, 2)
    labels = LabelSpace.of(train)
    first, *_, last = make_rungs(train, dev, labels, folds=0, seed=1)
    runner = TrialRunner(tmp_path, labels, device="cpu", depth=10)
    runner.run("knn", {}, first)
    trial = runner.run("knn", {}, last)
    assert (Path(trial.folder) / "model").exists()
    again = runner.load_model(trial, train, dev).rank(dev, 10)
    np.testing.assert_array_equal(again.columns, runner.load_ranking(trial).columns[:100])


def test_the_model_of_a_single_split_is_kept_and_loaded(make_corpus, tmp_path):
    train, dev = make_corpus(60, 1), make_corpus(600, 2)
    labels = LabelSpace.of(train)
    (rung,) = make_rungs(train, dev, labels, folds=0, seed=1)
    runner = TrialRunner(tmp_path, labels, device="cpu", depth=10)
    trial = runner.run("knn", {}, rung)
    again = runner.load_model(trial, train, dev).rank(dev, 10)
    np.testing.assert_array_equal(again.columns, runner.load_ranking(trial).columns)


def test_a_trial_that_fails_says_why_and_stops_nothing(runner_and_rungs):
    runner, (first, *_) = runner_and_rungs
    trial = runner.run("lexical", {}, first)
    assert "needs an ontology" in trial.failure
    assert runner.find("lexical", {}, first) == trial


def test_dotted_settings_belong_to_inner_tables():
    assert nest_settings({"train.lr": 0.1, "train.epochs": 2, "width": 4}) == {
        "train": {"lr": 0.1, "epochs": 2}, "width": 4,
    }  # fmt: skip
    assert make_model("attentive", {"train.lr": 0.25}, "cpu").config.train.lr == 0.25
    shared = {"languages": ["de"], "encoder": "minilm"}
    assert make_model("semantic", {"window": 9}, "cpu", shared).config.encoder == "minilm"
    assert make_model("knn", {}, "cpu", shared).config.languages == ("de",)
    with pytest.raises(ConfigError, match="has no setting 'widht'"):
        make_model("kernel", {"widht": 1}, "cpu")

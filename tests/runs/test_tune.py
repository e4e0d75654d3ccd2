from __future__ import annotations

import shutil

import numpy as np
import pytest

import ontodex
from ontodex.errors import ConfigError, RunError
from ontodex.runs.tune import tune
from ontodex.types import Corpus, Doc


def make_corpus(seed: int) -> Corpus:
    """Labels that only pairs of words tell apart: "red fox" is an animal, "fox red" a colour."""
    rng = np.random.default_rng(seed)
    words = ["stone", "water", "cloud", "paper", "light", "night"]
    docs = []
    for i in range(120):
        pair, label = (("red fox", "animal"), ("fox red", "colour"))[i % 2]
        before, after = (" ".join(rng.choice(words, 3)) for _ in range(2))
        docs.append(Doc(f"{seed}-{i}", {"text": f"{before} {pair} {after}"}, labels=(label,)))
    return Corpus.of(docs)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return make_corpus(1)


@pytest.fixture(scope="module")
def start(corpus, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "linear"
    ontodex.train("linear", train=corpus, out=out, prune=0.01)
    return out


def test_tuning_finds_the_setting_that_matters_and_keeps_the_others(start, corpus, tmp_path):
    tuned = tune(start, tmp_path / "tuned", train=corpus, budget="1h")
    assert tuned.settings.model.ngrams == 2
    assert tuned.settings.model.prune == 0.01
    before, after = (ontodex.evaluate(run, make_corpus(2))["P@1"] for run in (start, tuned))
    assert after > before + 0.2
    page = (tmp_path / "tuned" / "tune.html").read_text()
    assert "Chosen: linear prune=0.01 ngrams=2" in page
    assert [path.name for path in tmp_path.iterdir()] == ["tuned"]
    assert ontodex.load(tmp_path / "tuned").settings.name == "linear"


def test_what_cannot_be_tuned_is_refused_before_any_work(start, corpus, tmp_path):
    with pytest.raises(ConfigError, match="--budget: a time is a number"):
        tune(start, tmp_path / "out", train=corpus, budget="soon")
    with pytest.raises(RunError, match="holds a finished run"):
        tune(start, start, train=corpus)
    floor = tmp_path / "floor"
    ontodex.train("popularity", train=corpus, out=floor)
    with pytest.raises(ConfigError, match="no settings to tune for the system 'popularity'"):
        tune(floor, tmp_path / "out", train=corpus)


def test_what_a_kill_left_of_a_finished_search_is_put_in_order(start, corpus, tmp_path):
    out = shutil.copytree(start, tmp_path / "out[1]")
    work = tmp_path / ".out[1].tune-0123456789ab"
    (work / "trial").mkdir(parents=True)
    (work / "tune.html").write_text("what was tried")
    with pytest.raises(RunError, match="holds a finished run"):
        tune(start, out, train=corpus)
    assert (out / "tune.html").read_text() == "what was tried"
    assert not work.exists()

"""The pipe to the models: answers arrive bit for bit."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ontodex.errors import DataError, RunError
from ontodex.runs.run import load
from ontodex.serve.prediction.model_process import (
    ModelProcess,
    RemoteRanker,
    answer_message,
    encode_error,
)
from ontodex.serve.prediction.ranker import LocalRanker
from ontodex.types import Doc, Ranking
from ontodex.types.answers import PredictionResult

DOCS = [Doc("1", {"title": "trout", "body": "in the stream"}), Doc("2", {"text": "old oaks"})]


class Wire(ModelProcess):
    """A model process in this process; messages go through JSON as on the pipe."""

    def __init__(self, runs):
        self._runs = runs

    def request(self, message):
        return json.loads(json.dumps(answer_message(self._runs, json.loads(json.dumps(message)))))


class DecidingRun:
    """A system that decides itself."""

    def predict(self, docs):
        ranking = Ranking(
            np.array([[1, 0]] * len(docs), np.int32), np.array([[0.1, 0]] * len(docs), np.float32)
        )
        return PredictionResult(ranking, ranking.cut(1), ranking.cut(2))

    def explain(self, doc, label):
        raise RunError("cannot explain", hint="ask another")


def test_rankings_cross_the_pipe_bit_for_bit(run_folder):
    local = LocalRanker(load(run_folder))
    here, there = local.predict(DOCS), RemoteRanker(Wire({"a": local}), "a").predict(DOCS)
    np.testing.assert_array_equal(here.ranking.columns, there.ranking.columns)
    np.testing.assert_array_equal(here.ranking.probabilities, there.ranking.probabilities)
    np.testing.assert_array_equal(here.label_sets.columns, there.label_sets.columns)


def test_a_set_smaller_than_the_ranking_crosses_too():
    there = RemoteRanker(Wire({"a": DecidingRun()}), "a").predict(DOCS)
    assert there.label_sets.columns.tolist() == [[1], [1]]
    assert there.standalone.columns.tolist() == [[1, 0], [1, 0]]


def test_explanations_cross_the_pipe(run_folder):
    local = LocalRanker(load(run_folder))
    here = local.explain(DOCS[0], "fish")
    assert RemoteRanker(Wire({"a": local}), "a").explain(DOCS[0], "fish") == here


def test_only_the_type_of_a_bug_crosses_the_pipe():
    assert encode_error(DataError("line 3", hint="mend it"))["error"] == [
        "DataError",
        "line 3",
        "mend it",
    ]
    assert encode_error(KeyError("a document's words"))["error"] == ["KeyError", "", ""]


@pytest.mark.slow
def test_the_process_answers_and_reports_errors(run_folder):
    worker = ModelProcess({"a": run_folder})
    try:
        remote, local = RemoteRanker(worker, "a"), LocalRanker(load(run_folder))
        assert (
            remote.predict(DOCS).ranking.columns.tolist()
            == local.predict(DOCS).ranking.columns.tolist()
        )
        with pytest.raises(RunError, match="knows no concept 'whale'"):
            remote.explain(DOCS[0], "whale")
        with pytest.raises(RuntimeError, match="KeyError in the process of the models"):
            RemoteRanker(worker, "none").predict(DOCS)
        assert len(remote.predict(DOCS).ranking) == 2
    finally:
        worker.close()
    assert not worker.is_alive


@pytest.mark.slow
def test_a_run_that_cannot_be_loaded_is_an_error(tmp_path):
    with pytest.raises(RunError, match="the process that loads the runs ended"):
        ModelProcess({"a": tmp_path})

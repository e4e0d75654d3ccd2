"""The pipe to the models: what comes out is what they said, bit for bit."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ontodex.errors import DataError, RunError
from ontodex.models.base import Ranked
from ontodex.run import load
from ontodex.serve.ranked import Local
from ontodex.serve.worker import Remote, Worker, answer, described
from ontodex.types import Doc, Ranking

DOCS = [Doc("1", {"title": "trout", "body": "in the stream"}), Doc("2", {"text": "old oaks"})]


class Wire(Worker):
    """A worker in this process, with everything going through JSON as on the pipe."""

    def __init__(self, runs):
        self._runs = runs

    def ask(self, message):
        return json.loads(json.dumps(answer(self._runs, json.loads(json.dumps(message)))))


class Decided:
    """A system that decides itself."""

    def rank(self, docs):
        ranking = Ranking(
            np.array([[1, 0]] * len(docs), np.int32), np.array([[0.1, 0]] * len(docs), np.float32)
        )
        return Ranked(ranking, ranking.cut(1), ranking.cut(2))

    def explain(self, doc, label):
        raise RunError("cannot explain", hint="ask another")


def test_rankings_cross_the_pipe_bit_for_bit(run_folder):
    local = Local(load(run_folder))
    here, there = local.rank(DOCS), Remote(Wire({"a": local}), "a").rank(DOCS)
    np.testing.assert_array_equal(here.ranking.columns, there.ranking.columns)
    np.testing.assert_array_equal(here.ranking.probabilities, there.ranking.probabilities)
    np.testing.assert_array_equal(here.chosen.columns, there.chosen.columns)


def test_a_set_smaller_than_the_ranking_crosses_too():
    there = Remote(Wire({"a": Decided()}), "a").rank(DOCS)
    assert there.chosen.columns.tolist() == [[1], [1]]
    assert there.apart.columns.tolist() == [[1, 0], [1, 0]]


def test_explanations_cross_the_pipe(run_folder):
    local = Local(load(run_folder))
    here = local.explain(DOCS[0], "fish")
    assert Remote(Wire({"a": local}), "a").explain(DOCS[0], "fish") == here


def test_of_a_bug_only_its_name_is_told():
    assert described(DataError("line 3", hint="mend it"))["error"] == [
        "DataError",
        "line 3",
        "mend it",
    ]
    assert described(KeyError("a document's words"))["error"] == ["KeyError", "", ""]


@pytest.mark.slow
def test_the_process_answers_and_reports_errors(run_folder):
    worker = Worker({"a": run_folder})
    try:
        remote, local = Remote(worker, "a"), Local(load(run_folder))
        assert (
            remote.rank(DOCS).ranking.columns.tolist() == local.rank(DOCS).ranking.columns.tolist()
        )
        with pytest.raises(RunError, match="knows no concept 'whale'"):
            remote.explain(DOCS[0], "whale")
        with pytest.raises(RuntimeError, match="KeyError in the process of the models"):
            Remote(worker, "none").rank(DOCS)
        assert len(remote.rank(DOCS).ranking) == 2
    finally:
        worker.close()
    assert not worker.is_alive


@pytest.mark.slow
def test_a_run_that_cannot_be_loaded_is_said(tmp_path):
    with pytest.raises(RunError, match="the process that loads the runs ended"):
        Worker({"a": tmp_path})

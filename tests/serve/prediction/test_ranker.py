"""The ranker in this process predicts and explains as the run does."""

from __future__ import annotations

import numpy as np

from ontodex.runs.run import RANKS, load
from ontodex.serve.prediction.ranker import LocalRanker
from ontodex.types import Corpus, Doc

DOCS = [Doc("1", {"text": "trout in the stream"}), Doc("2", {"text": "old oaks"})]


def test_a_local_ranker_returns_ranking_and_label_sets_of_the_run(run_folder):
    run = load(run_folder)
    result = LocalRanker(run).predict(DOCS)
    ranking = run.rank(Corpus.of(DOCS), RANKS)
    np.testing.assert_array_equal(result.ranking.columns, ranking.columns)
    np.testing.assert_array_equal(result.label_sets.columns, run.decide(Corpus.of(DOCS)).columns)
    assert LocalRanker(run).explain(DOCS[0], "fish") == run.explain(DOCS[0], "fish")

"""Measurements of a row."""

from __future__ import annotations

import json

import numpy as np
import pytest
from levelwise_made_up import SEA, TINY, row_of
from scipy.sparse import csr_array

from ontodex.config import build
from ontodex.features.prepare import PrepareConfig, prepare
from ontodex.models.levelwise.system import Levelwise
from ontodex.types import Corpus, Doc, LabelSpace, Ranking


@pytest.mark.parametrize("keywords", ["author", "phrases"])
def test_a_result_holds_what_the_tables_ask_for(measures, tables, tmp_path, keywords):
    own = ("sea",) if keywords == "author" else ()
    docs = [Doc(str(i), {"text": "deep water"}, own, ("nature", "water")) for i in range(16)]
    corpora = {name: Corpus.write(docs, tmp_path / name) for name in ("train", "dev", "test")}
    if keywords == "phrases":  # what travels to a GPU machine has no text
        wanted = PrepareConfig(
            stop_words="en", phrases=True, known_phrases=True, phrases_per_doc=20, min_count=1
        )
        corpora = prepare(corpora, tmp_path / "carried", wanted)
    system = Levelwise(build(Levelwise.Config, TINY, "model"))
    labels = LabelSpace.of(corpora["train"], SEA)
    head = {"row": "full", "seed": 1, "made from": {"format": 4}}
    found = {**head, **measures.measure(system, corpora, labels)}
    assert found["keywords"] == {"author": "keywords", "phrases": "phrases"}[keywords]
    assert list(found["share of a step"]) == ["shared", "1", "2"]
    assert sum(found["share of a step"].values()) == pytest.approx(1, abs=0.01)
    assert found["rare"]["15 to 19"]["true"] == 32, "two labels of 16 documents"
    (tmp_path / "full-1.json").write_text(json.dumps(found))
    text = tables.make_level_table(tables.read_results(tmp_path), tables.MACRO, "")
    assert row_of(text, "level 2", "16", "top K")[3] == "1"


def test_kernels_compiled_in_the_first_batch_are_no_part_of_a_step(measures, monkeypatch):
    """Every batch but the first: what is shared takes 2 s, levels 1 and 2 take 1 s each."""
    corpus = Corpus.of([Doc(str(i), {"text": "deep"}, (), ("nature", "water")) for i in range(16)])
    settings = {**TINY, "inputs": "words", "merge": "threshold"}
    system = Levelwise(build(Levelwise.Config, settings, "model"))
    system.fit(corpus, corpus, LabelSpace.of(corpus, SEA))
    times = iter([0, 2, 99, 100, *(s + at for s in (200, 300, 400) for at in (0, 2, 3, 4))])
    monkeypatch.setattr(measures, "read_clock", lambda device: next(times))
    shares = measures.measure_level_shares(system, corpus, [], batches=4)
    assert shares == {"shared": 0.5, "1": 0.25, "2": 0.25}


def test_k_and_the_shift_of_a_level_have_the_highest_f(measures):
    """One document has four labels at 0.4, four others have one at 0.6: to find all eight takes
    K = 4, but most documents are best with one; and with thresholds of 0.5 a move upwards."""
    columns = np.array([[0, 1, 2, 3], *[[4, 5, 6, 7]] * 4])
    p = np.array([[0.4] * 4, *[[0.6, 0.1, 0.1, 0.1]] * 4], np.float32)
    gold = csr_array(np.array([[1] * 4 + [0] * 4, *[[0] * 4 + [1] + [0] * 3] * 4], np.int8))
    ranking = Ranking(columns.astype(np.int32), p)
    assert measures.find_best_k(gold, ranking, "MaF") == 1
    by = measures.find_best_shift(gold, ranking, np.full(8, 0.5), "MiF")
    assert 0.4 < by < 2, "0.4 comes above the threshold, 0.1 does not"
    own = measures.merge_metrics(gold, {"MiF": ranking.cut(1), "MaF": ranking.cut(4)})
    assert own["MiP"] == 100
    assert own["MaR"] == 100
    assert own["MaP"] == 40

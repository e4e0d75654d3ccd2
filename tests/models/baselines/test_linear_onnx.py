"""The ONNX graph of `linear` gives the probabilities of the system."""

from __future__ import annotations

import numpy as np
import pytest

from ontodex.errors import RunError
from ontodex.features.tokens import TokenConfig, tokenise
from ontodex.models.baselines.linear import LinearConfig, LinearSystem
from ontodex.types import Corpus, Doc, LabelSpace

onnxruntime = pytest.importorskip("onnxruntime")

WORDS = {"sea": "wave ship tide", "sky": "cloud wind star", "soil": "root worm clay"}


def make_corpus(n: int, seed: int) -> Corpus:
    rng = np.random.default_rng(seed)
    docs = []
    for i in range(n):
        topics = rng.choice(list(WORDS), size=rng.integers(1, 3), replace=False)
        words = [w for t in topics for w in rng.choice(WORDS[t].split(), 3)] + ["The", "ÉTÉ"]
        docs.append(Doc(str(i), {"text": " ".join(words)}, labels=tuple(topics)))
    return Corpus.of(docs)


TRAIN, DEV = make_corpus(80, 0), make_corpus(40, 1)
TEXTS = [*(doc.text for doc in make_corpus(20, 2)), "wave wave wave ship", "nothing known", ""]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"ngrams": 2},
        {"sublinear_tf": False, "norm": False},
        {"ngrams": 2, "max_length": 3, "stop_words": "en"},
    ],
)
def test_probabilities_are_those_of_the_system(settings):
    model = LinearSystem(LinearConfig(**settings))
    labels = LabelSpace.of(TRAIN)
    model.fit(TRAIN, DEV, labels)
    session = onnxruntime.InferenceSession(model.to_onnx(), providers=["CPUExecutionProvider"])
    made = model.token_settings()
    assert (made.pop("lower"), made.pop("numbers")) == (True, True)
    config = TokenConfig(**made)
    for text in TEXTS:
        tokens = np.array(tokenise(text, config), dtype=object)
        (found,) = session.run(None, {"tokens": tokens})
        ranking = model.rank(Corpus.of([Doc("", {"text": text})]), len(labels))
        expected = np.zeros(len(labels), np.float32)
        expected[ranking.columns[0]] = ranking.probabilities[0]
        np.testing.assert_allclose(found, expected, atol=2e-6)


def test_a_run_that_splits_compounds_is_refused():
    model = LinearSystem(LinearConfig(compounds=True))
    model.fit(TRAIN, DEV, LabelSpace.of(TRAIN))
    with pytest.raises(RunError, match="splits compounds"):
        model.to_onnx()


def test_features_without_text_are_refused():
    rows = [Doc(str(i), features={0: 1.0, i % 3 + 1: 1.0}, labels=(str(i % 3),)) for i in range(30)]
    corpus = Corpus.of(rows)
    model = LinearSystem(LinearConfig())
    model.fit(corpus, corpus, LabelSpace.of(corpus))
    with pytest.raises(RunError, match="trained on text"):
        model.to_onnx()

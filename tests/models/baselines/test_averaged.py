from __future__ import annotations

import numpy as np

from ontodex.config import build
from ontodex.evaluation.ranking import precision, score_documents
from ontodex.models.baselines.averaged import AveragedConfig, AveragedSystem
from ontodex.types import Corpus, LabelSpace

TRAINING = {"epochs": 12, "batch_size": 16, "lr": 0.02, "patience": 0, "ema_rate": 0.05}


def test_dense_features_are_learned_and_refitted():
    rng = np.random.default_rng(4)
    kinds = rng.integers(0, 3, 90)
    matrix = (np.eye(3)[kinds] + 0.1 * rng.normal(size=(90, 3))).astype(np.float32)
    documents = Corpus.of_features(matrix, [[f"k{kind}"] for kind in kinds])
    train, dev = documents.select(np.arange(60)), documents.select(np.arange(60, 90))
    labels = LabelSpace.of(train)
    model = AveragedSystem(build(AveragedConfig, {"size": 8, "train": TRAINING}, "model"))
    model.fit(train, dev, labels)
    assert score_documents(precision, 1, labels.gold(dev), model.rank(dev, 1)).mean() > 0.9
    epochs = model.epochs
    model.refit(documents, labels)
    assert model.epochs == epochs
    assert (
        score_documents(precision, 1, labels.gold(documents), model.rank(documents, 1)).mean()
        > 0.95
    )

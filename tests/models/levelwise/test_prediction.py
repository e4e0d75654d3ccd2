"""Logits of batches."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from levelwise_planted import BRIEF, CONFIG, DEV, LABELS, TRAIN, PlantedLevelwise

from ontodex.config import vary
from ontodex.models.levelwise.prediction import Batch, predict
from ontodex.types import Corpus, Doc


@pytest.mark.parametrize("encoder", ["level", "shared"])
def test_logits_of_some_documents_of_a_batch_equal_those_of_these_documents_alone(encoder):
    config = vary(CONFIG, documents="level", encoder=encoder, train=BRIEF)
    bare = Corpus.of(
        Doc(f"{i}", {"text": "very much roads"}, ("roads",), ("town",)) for i in range(4)
    )
    system = PlantedLevelwise(config)
    system.fit(Corpus.of([*bare, *TRAIN]), DEV, LABELS)
    stage = system.prepare_data(Corpus.of([*bare, *TRAIN]), DEV, LABELS)
    assert stage.targets.is_used[0].all()
    assert not stage.targets.is_used[1][:4].any(), "they have no label at level 2"
    network, rows, inside = system.passes[0].network, np.arange(9), np.array([1, 4, 8])
    some = Batch(network, stage.streams, rows).compute_logits(1, inside)
    alone = Batch(network, stage.streams, rows[inside]).compute_logits(1, np.arange(3))
    torch.testing.assert_close(some, alone)
    none = predict(network, system.levels, stage.streams, rows[:0], 3, torch.device("cpu"))
    assert [(len(ranking), ranking.k) for ranking in none] == [
        (0, min(3, len(level))) for level in system.levels
    ]

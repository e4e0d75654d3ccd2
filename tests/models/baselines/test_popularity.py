from __future__ import annotations

import numpy as np
import pytest

from ontodex.errors import RunError
from ontodex.models.baselines.popularity import PopularityConfig, PopularitySystem
from ontodex.types import Corpus, Doc, LabelSpace

SETS = [("a",), ("a", "b"), ("a",), ("b", "c")]
TRAIN = Corpus.of([Doc(str(i), {"t": "x"}, labels=labels) for i, labels in enumerate(SETS)])


def test_every_document_gets_the_shares_of_training_documents():
    model, labels = PopularitySystem(PopularityConfig()), LabelSpace.of(TRAIN)
    model.fit(TRAIN, TRAIN, labels)
    ranking = model.rank(TRAIN, 2)
    assert [labels.ids[column] for column in ranking.columns[0]] == ["a", "b"]
    np.testing.assert_allclose(ranking.probabilities, [[0.75, 0.5]] * 4)


def test_ranking_before_training_is_refused():
    with pytest.raises(RunError, match="before it was trained"):
        PopularitySystem(PopularityConfig()).rank(TRAIN, 1)

from __future__ import annotations

import numpy as np

from ontodex.decide.top_k import TopK
from ontodex.types import Ranking


def test_top_takes_the_first_labels_and_no_padding():
    ranking = Ranking(
        np.array([[4, 1, 2], [3, -1, -1]], np.int32),
        np.array([[0.9, 0.5, 0.1], [0.2, 0, 0]], np.float32),
    )
    assert TopK(2).choose(ranking).tolist() == [[True, True, False], [True, False, False]]

"""Rankings with known truth, and the micro-F of label sets, for tests of decision rules."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from ontodex.types import Ranking


def plant_ranking(seed: int, n_docs: int, n_labels: int, k: int) -> tuple[Ranking, csr_array]:
    """Rankings with coarse probabilities (many ties) that are right about as often as they say."""
    rng = np.random.default_rng(seed)
    probabilities = rng.integers(0, 6, (n_docs, n_labels)) / 5
    gold = rng.random((n_docs, n_labels)) < 0.6 * probabilities
    return Ranking.top(probabilities, k), csr_array(gold.astype(np.int8))


def micro_f(ranking: Ranking, chosen: np.ndarray, gold: csr_array) -> float:
    found = ranking.keep(chosen).scores(gold.shape[1])
    hits = found.astype(bool).multiply(gold).sum()
    return 2 * hits / (chosen.sum() + gold.nnz)

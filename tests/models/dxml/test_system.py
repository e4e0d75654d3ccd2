"""The choices of `dxml` on dev."""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy.sparse import csr_array

from ontodex.config import build
from ontodex.models.baselines.neighbours import compute_ndcg
from ontodex.models.dxml.clusters import ClusterIndex
from ontodex.models.dxml.system import DxmlConfig, DxmlSystem
from ontodex.types import Corpus, LabelSpace

TRAINING = {"epochs": 10, "batch_size": 16, "patience": 0}


def draw_corpus(n: int, seed: int) -> Corpus:
    """Features of five topics with noise, so that the number of neighbours matters."""
    random = np.random.default_rng(seed)
    topics = random.random((n, 5)) < 0.3
    features = (random.random((n, 20)) < 0.1 + 0.5 * np.repeat(topics, 4, axis=1)) * 1.0
    sets = [[f"l{j}" for j in np.flatnonzero(row)] or ["l0"] for row in topics]
    return Corpus.of_features(csr_array(features.astype(np.float32)), sets)


TRAIN, DEV = draw_corpus(150, 0), draw_corpus(60, 1)
LABELS = LabelSpace.of(TRAIN)


def fit_dxml(**more: object) -> DxmlSystem:
    settings = {"hidden": 16, "label_size": 4, "walk_passes": 1, "train": TRAINING}
    model = DxmlSystem(build(DxmlConfig, {**settings, **more}, "model"))
    model.fit(TRAIN, DEV, LABELS)
    return model


def test_dev_chooses_clusters_and_neighbours_by_the_search_of_prediction():
    """Against every pair, each searched in the nearest cluster only (Algorithm 2)."""
    model = fit_dxml()
    queries, gold = model.embed(DEV), LABELS.gold(DEV)

    def evaluate(n_clusters: int, k: int) -> float:
        index = ClusterIndex.fit(model.memory.vectors, n_clusters, seed=1)
        return compute_ndcg(gold, index.search(queries, k, 1).vote(model.gold, k, 0.0, 5))

    scores = [evaluate(*pair) for pair in product((1, 2, 4, 8, 16, 32, 64), (5, 10, 20, 40, 80))]
    chosen = evaluate(len(model.memory.centres), model.chosen.neighbours)
    assert chosen == max(scores) > min(scores)
    assert (model.chosen.probe, model.chosen.exponent) == (1, 0.0)
    assert 1 <= model.chosen.epochs <= 10


def test_settings_win_over_dev():
    model = fit_dxml(neighbours=7, clusters=3)
    assert (model.chosen.neighbours, len(model.memory.centres)) == (7, 3)


def test_a_refit_has_the_clusters_that_dev_chose():
    model = fit_dxml()
    chosen = len(model.memory.centres)
    everything = TRAIN.join(DEV)
    model.refit(everything, LabelSpace.of(everything))
    assert len(model.memory.centres) == chosen

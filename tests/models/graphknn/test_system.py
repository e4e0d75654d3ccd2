"""`graphknn`: several networks, and what dev chooses."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from topic_documents import DEV, LABELS, TEST, TRAIN

from ontodex.config import build
from ontodex.evaluation.ranking import precision, score_documents
from ontodex.models.baselines.sparse_rows import to_csr
from ontodex.models.graphknn.network import EmbeddingEnsemble
from ontodex.models.graphknn.system import GraphKnnConfig, GraphKnnSystem
from ontodex.models.layers.sparse_input import SparseInput
from ontodex.training.sparse_gradients import find_sparse_tables

TRAINING = {"epochs": 12, "batch_size": 16, "lr": 0.02, "patience": 0, "ema_rate": 0.05}
SMALL = {"networks": 1, "hidden": 32, "label_size": 8, "walk_passes": 1, "train": TRAINING}


def fit_graphknn(**more: object) -> GraphKnnSystem:
    model = GraphKnnSystem(build(GraphKnnConfig, {**SMALL, **more}, "model"))
    model.fit(TRAIN, DEV, LABELS)
    return model


def p_at_1(model: GraphKnnSystem) -> float:
    return float(score_documents(precision, 1, LABELS.gold(TEST), model.rank(TEST, 1)).mean())


def test_dev_chooses_epochs_neighbours_exponent_and_probes():
    model = fit_graphknn()
    assert 1 <= model.chosen.epochs <= 12
    assert model.chosen.neighbours in (10, 20, 40, 80, 160)
    assert model.chosen.exponent in (0.0, 5.0, 10.0, 20.0, 40.0)
    assert 1 <= model.chosen.probe <= len(model.memory.centres) == round(80**0.5)


def test_settings_win_over_dev():
    chosen = fit_graphknn(neighbours=7, exponent=3.0).chosen
    assert (chosen.neighbours, chosen.exponent) == (7, 3.0)


def test_the_embedding_is_the_mean_of_several_networks():
    two = fit_graphknn(networks=2)
    rows = SparseInput(to_csr(two.features.transform(TEST)), torch.device("cpu"))
    data = rows.batch(np.arange(len(TEST)))
    one, other = (part(*data).detach().numpy() for part in two.network.parts)
    assert not np.allclose(one, other)
    mean = (one + other) / np.linalg.norm(one + other, axis=1, keepdims=True)
    np.testing.assert_allclose(two.embed(TEST), mean, atol=1e-5)
    assert p_at_1(two) > 0.9


def test_a_long_table_is_learned_by_row_and_learns_as_well(monkeypatch):
    whole = fit_graphknn()
    monkeypatch.setattr("ontodex.models.layers.sparse_input.ROW_UPDATE_FEATURES", 1)
    by_row = fit_graphknn()
    assert len(find_sparse_tables(by_row.network)) == len(by_row.network.parts)
    assert find_sparse_tables(whole.network) == []
    assert p_at_1(by_row) >= p_at_1(whole) - 0.1


def test_each_network_learns_from_a_part_of_the_features():
    """The loss in training is that of some subset of the features, doubled."""
    torch.manual_seed(9)
    network = EmbeddingEnsemble(1, 3, 6, 4, input_norm=1.0, input_dropout=0.5, dropout=0.0).train()
    x, target = np.array([[1.0, 1.0, 2.0]], np.float32), torch.randn(1, 4)
    device = torch.device("cpu")

    def compute_loss(values: np.ndarray) -> float:
        rows = csr_array((values, np.arange(3), np.array([0, 3])), shape=(1, 3))
        data = SparseInput(rows, device).batch(np.array([0]))
        return round(network.parts[0].loss(*data, target).item(), 4)

    masks = [[2.0 * (mask >> bit & 1) for bit in range(3)] for mask in range(8)]
    subsets = {compute_loss(x[0] * np.float32(mask)) for mask in masks}
    data = SparseInput(csr_array(x), device).batch(np.array([0]))
    found = {round(network.loss(*data, target).item(), 4) for _ in range(40)}
    assert len(found) > 3
    assert found <= subsets


@pytest.mark.parametrize("exponent", [1e6, float("inf"), float("nan")])
def test_an_exponent_beyond_its_range_is_refused_before_training(exponent):
    with pytest.raises(ValueError, match="exponent must be in"):
        GraphKnnConfig(exponent=exponent)

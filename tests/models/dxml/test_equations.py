"""The equations of DXML against loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from ontodex.models.dxml.network import Activation, EmbeddingNetwork, start_small
from ontodex.models.dxml.system import DxmlConfig, DxmlSystem
from ontodex.models.dxml.targets import average_label_vectors, whiten_vectors
from ontodex.models.layers.sparse_input import SparseInput, SparseLinear
from ontodex.types import Corpus, LabelSpace

ROWS = csr_array(
    np.array([[0, 2, 0, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 0, 0], [0, 0, 0, 0, 3]], np.float32)
)
DEVICE = torch.device("cpu")


def network(
    hidden: int = 6, size: int = 3, dropout: float = 0.5, activation: Activation = "relu"
) -> EmbeddingNetwork:
    return EmbeddingNetwork(5, hidden, size, input_norm=1.0, dropout=dropout, activation=activation)


def batch(rows: list[int]) -> tuple[torch.Tensor, ...]:
    return SparseInput(ROWS, DEVICE).batch(np.array(rows))


def test_the_first_layer_on_non_zeros_is_the_dense_layer():
    torch.manual_seed(0)
    layer = SparseLinear(5, 3, input_norm=1.0)
    dense = torch.from_numpy(ROWS.toarray())[[2, 1, 0, 0]]
    torch.testing.assert_close(layer(*batch([2, 1, 0, 0])), dense @ layer.weight + layer.bias)


def test_a_long_table_has_gradients_of_the_rows_that_were_read_and_they_are_the_same():
    torch.manual_seed(0)
    whole = SparseLinear(5, 3, input_norm=1.0)
    by_row = SparseLinear(5, 3, input_norm=1.0, by_row=True)
    by_row.load_state_dict(whole.state_dict())
    for layer in (whole, by_row):
        layer(*batch([0, 2])).square().sum().backward()
    assert by_row.weight.grad.coalesce().indices()[0].tolist() == [0, 1, 2, 3]
    torch.testing.assert_close(by_row.weight.grad.to_dense(), whole.weight.grad)


def test_label_sets_are_the_mean_of_their_vectors():
    """Algorithm 1, line 3: f_y = V y / nnz(y), then of length 1 as f_x is."""
    rng = np.random.default_rng(0)
    gold, v = (rng.random((6, 4)) < 0.5).astype(np.float32), rng.normal(size=(4, 3))
    gold[:, 0], gold[0] = 1, 0
    found = average_label_vectors(csr_array(gold), v.astype(np.float32))
    for row, y in zip(found, gold, strict=True):
        has = [label for label in range(4) if y[label]]
        mean = sum((v[label] for label in has), np.zeros(3)) / max(1, len(has))
        np.testing.assert_allclose(row, mean / max(np.linalg.norm(mean), 1e-12), atol=1e-6)


def h(a: float, b: float) -> float:
    """Eq. 2."""
    return 0.5 * (a - b) ** 2 if abs(a - b) <= 1 else abs(a - b) - 0.5


def test_the_loss_is_equations_1_to_3_in_loops():
    """Eq. 3 is a sum over all documents; a step takes the mean over its batch."""
    torch.manual_seed(1)
    net = network().eval()
    target = 2 * torch.randn(3, 3)  # far enough for the straight part of Eq. 2
    rows = batch([0, 2, 3])
    total = 0.0
    for f_x, f_y in zip(net(*rows).tolist(), target.tolist(), strict=True):
        total += sum(h(a, b) for a, b in zip(f_x, f_y, strict=True))
    assert net.loss(*rows, target).item() == pytest.approx(total / 3, rel=1e-5)


def test_initial_weights_are_small_and_first_outputs_do_not_depend_on_the_length_of_rows():
    torch.manual_seed(5)
    spreads = []
    for length in (1.0, 8.26):
        net = EmbeddingNetwork(400, 200, 50, input_norm=length, dropout=0.5)
        start_small(net, length)
        row = np.full((1, 400), length / 20, np.float32)  # of this length
        data = SparseInput(csr_array(row), DEVICE).batch(np.array([0]))
        spreads.append(net.first(*data).std().item())
        assert net.second.weight.abs().max().item() <= 0.01
    assert spreads == pytest.approx([0.048, 0.048], rel=0.2)
    assert net.first.weight.abs().max().item() == pytest.approx(0.01, rel=0.02)  # as on Bibtex


def test_the_embedding_is_figure_1_with_length_1():
    torch.manual_seed(2)
    embed = network().eval()
    dense = torch.from_numpy(ROWS.toarray())
    z = torch.relu(dense @ embed.first.weight + embed.first.bias) @ embed.second.weight.T
    z = z + embed.second.bias
    f_x = embed(*batch([0, 1, 2, 3]))
    torch.testing.assert_close(f_x, z / z.norm(dim=1, keepdim=True))


def test_in_training_dropout_follows_w2_and_the_norm_follows_dropout():
    """W1, ReLU, W2, dropout, L2 norm. Half of the outputs are 0; the others keep their ratios."""
    torch.manual_seed(8)
    embed = network(size=64).train()
    with torch.no_grad():
        f_x = embed(*batch([0, 2, 3])).numpy()
    w1, b1, w2, b2 = (
        parameter.detach().numpy()
        for parameter in (
            embed.first.weight,
            embed.first.bias,
            embed.second.weight,
            embed.second.bias,
        )
    )
    for found, x in zip(f_x, ROWS.toarray()[[0, 2, 3]], strict=True):
        z = np.maximum(x @ w1 + b1, 0) @ w2.T + b2
        kept = found != 0
        assert 10 < kept.sum() < 54  # of 64
        np.testing.assert_allclose(found[kept], z[kept] / np.linalg.norm(z[kept]), rtol=1e-4)


def test_without_the_non_linearity_the_embedding_is_a_linear_map_up_to_its_length():
    torch.manual_seed(3)
    embed = network(activation="none").eval()
    torch.nn.init.zeros_(embed.second.bias)
    doubled = csr_array(ROWS * 2)
    one = embed(*batch([0, 2]))
    two = embed(*SparseInput(doubled, DEVICE).batch(np.array([0, 2])))
    torch.testing.assert_close(one, two)  # the same direction, whatever the length


def test_gradients_of_the_network():
    torch.manual_seed(4)
    net = network(hidden=4).double().eval()
    columns, starts, values = batch([0, 2, 3])
    weights = values.double().requires_grad_()
    target = torch.randn(3, 3, dtype=torch.double)
    assert torch.autograd.gradcheck(lambda w: net.loss(columns, starts, w, target), weights)


def test_whitened_label_vectors_have_covariance_one_over_label_occurrences():
    rng = np.random.default_rng(5)
    vectors = (rng.normal(size=(30, 4)) @ np.diag([5, 1, 0.1, 2]) + 7).astype(np.float32)
    frequency = rng.integers(1, 50, 30)
    white = whiten_vectors(vectors, frequency)
    occurrences = np.repeat(white, frequency, axis=0)
    np.testing.assert_allclose(occurrences.mean(axis=0), 0, atol=1e-3)
    np.testing.assert_allclose(np.cov(occurrences.T, bias=True), np.eye(4), atol=1e-3)


def test_fewer_labels_than_dimensions_can_be_whitened():
    vectors = np.random.default_rng(6).normal(size=(3, 8)).astype(np.float32)
    white = whiten_vectors(vectors, np.array([5, 3, 2]))
    assert white.shape == (3, 2)  # three points span a plane
    assert np.isfinite(white).all()
    assert np.isfinite(whiten_vectors(vectors[:1], np.array([4]))).all()


def test_prediction_is_algorithm_2_in_loops():
    """Cluster by Eq. 4, k nearest within it, mean of their labels."""
    rng = np.random.default_rng(7)
    matrix = csr_array((rng.random((60, 10)) * (rng.random((60, 10)) < 0.4)).astype(np.float32))
    sets = [[f"l{j}" for j in np.flatnonzero(rng.random(5) < 0.4)] or ["l0"] for _ in range(60)]
    corpus = Corpus.of_features(matrix, sets)
    labels = LabelSpace.of(corpus)
    model = DxmlSystem(DxmlConfig(hidden=8, label_size=4, clusters=4, neighbours=3))
    model.fit(corpus, corpus.select([]), labels)
    f_x, z, keys = model.embed(corpus), model.memory.centres, model.memory.vectors
    gold = labels.gold(corpus).toarray()

    def cluster(f: np.ndarray) -> int:
        return min(range(4), key=lambda i: float(np.square(f - z[i]).sum()))  # Eq. 4

    ranking = model.rank(corpus, 5)
    for row in range(60):
        inside = [i for i in range(60) if cluster(keys[i]) == cluster(f_x[row])]
        near = sorted(inside, key=lambda i: -round(float(f_x[row] @ keys[i]), 4))
        if len(near) > 3 and abs(f_x[row] @ (keys[near[2]] - keys[near[3]])) < 1e-3:
            continue  # a tie at the edge
        mean = gold[near[:3]].mean(axis=0)
        for column, share in zip(ranking.columns[row], ranking.probabilities[row], strict=True):
            assert share == pytest.approx(mean[column] if column >= 0 else 0, abs=1e-5)

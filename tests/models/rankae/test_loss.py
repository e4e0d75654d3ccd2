"""The objective of Rank-AE, each equation against loops."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ontodex.config import build
from ontodex.models.rankae.config import RankAEConfig
from ontodex.models.rankae.loss import (
    compute_cross_entropy,
    compute_margin_loss,
    compute_objective,
)
from ontodex.models.rankae.network import RankAE
from ontodex.models.rankae.system import RankAESystem


def network() -> RankAE:
    torch.manual_seed(1)
    shape = {"width": 4, "reduction": 2, "hidden": 3, "label_hidden": 5}
    return RankAE(9, 6, None, **shape).double().eval()


def random(*shape: int, seed: int = 2) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.double, generator=torch.Generator().manual_seed(seed))


def margin_loss_over_all_pairs(scores: list[float], gold: list[bool], margin: float) -> float:
    """Eq. 2 to 4 word for word: a maximum over pairs for each false and for each true label."""
    true = [s for s, is_true in zip(scores, gold, strict=True) if is_true]
    false = [s for s, is_true in zip(scores, gold, strict=True) if not is_true]
    if not true or not false:
        return 0.0
    l_p = sum(max(max(0.0, margin + n - p) for p in true) for n in false)  # Eq. 3
    l_n = sum(max(max(0.0, margin + n - p) for n in false) for p in true)  # Eq. 4
    return l_p + l_n  # Eq. 2


@settings(deadline=None, max_examples=50)
@given(st.data(), st.integers(1, 8), st.floats(0, 1))
def test_the_margin_loss_in_one_pass_equals_all_pairs(data, n_labels, margin):
    scores = data.draw(st.lists(st.floats(0, 1), min_size=n_labels, max_size=n_labels))
    gold = data.draw(st.lists(st.booleans(), min_size=n_labels, max_size=n_labels))
    beside = random(1, n_labels).sigmoid()  # another document, which must not matter
    together = torch.cat([torch.tensor([scores], dtype=torch.double), beside])
    found = sum(compute_margin_loss(together, torch.tensor([gold, gold]), margin))
    assert found[0].item() == pytest.approx(margin_loss_over_all_pairs(scores, gold, margin))


def test_three_labels_by_hand():
    """True 0.6 and 0.3, false 0.4, margin 0.2. Eq. 3: 0.2 + 0.4 - 0.3 = 0.3 for the false label.
    Eq. 4: 0.2 + 0.4 - 0.6 = 0 and 0.2 + 0.4 - 0.3 = 0.3 for the true ones. Together 0.6."""
    gold = torch.tensor([[True, True, False]])
    l_p, l_n = compute_margin_loss(torch.tensor([[0.6, 0.3, 0.4]]), gold, 0.2)
    assert l_p.tolist() == pytest.approx([0.3])
    assert l_n.tolist() == pytest.approx([0.3])


def test_margin_1_wants_true_labels_at_1_and_false_ones_at_0():
    gold = torch.tensor([[True, False, False]])
    assert sum(compute_margin_loss(gold.double(), gold, 1.0)).item() == 0
    assert sum(compute_margin_loss(torch.tensor([[0.9, 0.0, 0.0]]), gold, 1.0)).item() > 0


def test_margin_0_asks_only_for_the_order():
    gold = torch.tensor([[True, False, True]])
    assert sum(compute_margin_loss(torch.tensor([[0.51, 0.5, 0.52]]), gold, 0.0)).item() == 0


def test_a_document_without_true_labels_adds_no_loss_and_no_gradient():
    scores = random(2, 4).sigmoid().requires_grad_()
    gold = torch.tensor([[False] * 4, [True] * 4])
    loss = sum(compute_margin_loss(scores, gold, 0.5))
    loss.sum().backward()
    assert loss.tolist() == [0, 0]
    assert scores.grad is not None
    assert scores.grad.abs().max() == 0


def test_gradients_of_the_margin_loss():
    gold = torch.tensor([[True, False, True, False], [False, False, True, False]])
    logits = random(2, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: compute_margin_loss(z.sigmoid(), gold, 0.4), logits)


def test_bce_is_summed_over_labels_and_averaged_over_documents():
    logits, gold = random(3, 4), random(3, 4, seed=5) > 0
    expected = 0.0
    for n in range(3):
        for label in range(4):
            p = 1 / (1 + math.exp(-float(logits[n, label])))
            expected -= math.log(p if gold[n, label] else 1 - p)
    found = compute_cross_entropy(logits, gold)
    assert found.item() == pytest.approx(expected / 3)


def batch(n_labels: int = 6) -> tuple[tuple[torch.Tensor, ...], ...]:
    """Two documents: words (ids, lengths, weights), labels (columns, lengths) and gold (n, l)."""
    words = torch.tensor([[3, 7, 2], [5, 4, 0]]), torch.tensor([3, 2]), random(2, 3).abs()
    labels = torch.tensor([[0, 4], [2, 0]]), torch.tensor([2, 1])
    gold = torch.zeros(2, n_labels, dtype=torch.bool)
    gold[0, [0, 4]] = gold[1, 2] = True
    return words, labels, (gold,)


@pytest.mark.parametrize("weight", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("loss", ["margin", "bce"])
def test_the_objective_is_equation_1_in_loops(weight, loss):
    """L_h + lambda L_ae: the squares of x_h - y_h, and every pair of labels or every logarithm."""
    words, labels, (gold,) = batch()
    net, margin = network(), 0.4
    system = RankAESystem(build(RankAEConfig, {"loss": loss, "margin": margin}, "model"))
    with torch.no_grad():
        x = net.embed_words(net.weigh(words[0], words[2]), words[1])
        y = net.encode(*labels)
        scores = net.decode(y).sigmoid().tolist()
        found, embedded = compute_objective(
            net, words, labels, gold, reconstruct=system._reconstruction(), weight=weight
        )
    torch.testing.assert_close(embedded, x)
    squares = [(a - b) ** 2 for a, b in zip(x.ravel().tolist(), y.ravel().tolist(), strict=True)]
    l_h = sum(squares) / len(squares)
    if loss == "margin":
        each = [
            margin_loss_over_all_pairs(row, true, margin)
            for row, true in zip(scores, gold.tolist(), strict=True)
        ]
    else:
        each = [
            -sum(math.log(p if is_true else 1 - p) for p, is_true in zip(row, true, strict=True))
            for row, true in zip(scores, gold.tolist(), strict=True)
        ]
    l_ae = sum(each) / 2
    assert min(l_h, l_ae) > 0.01, "both terms count in this example"
    assert found.item() == pytest.approx(l_h + weight * l_ae, rel=1e-5)

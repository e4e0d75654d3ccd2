"""The objective of Rank-AE, each equation against loops."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ontodex.models.rankae.loss import (
    compute_margin_loss,
    compute_objective,
    compute_reconstruction_loss,
)
from ontodex.models.rankae.network import RankAE, RankAEConfig

SMALL = RankAEConfig(width=4, reduction=2, hidden=3, label_hidden=5, pool="mean")


def network(config: RankAEConfig = SMALL, n_words: int = 9, n_labels: int = 6) -> RankAE:
    torch.manual_seed(1)
    return RankAE(config, n_words, n_labels, None).double().eval()


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


def test_means_over_each_side_are_the_sums_divided_by_how_many_labels_it_has():
    gold = torch.tensor([[True, True, False], [False] * 3])
    logits = torch.tensor([[0.6, 0.3, 0.4], [0.1, 0.2, 0.3]]).logit()
    losses = {
        sides: compute_reconstruction_loss(
            logits, gold, RankAEConfig(margin=0.2, margin_reduction=sides)
        ).item()
        for sides in ("sum", "mean")
    }
    # 0.3 over one false label and 0.3 over two true ones; the other document adds nothing.
    assert losses == pytest.approx({"sum": 0.6 / 2, "mean": (0.3 / 1 + 0.3 / 2) / 2})


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
    found = compute_reconstruction_loss(logits, gold, RankAEConfig(loss="bce"))
    assert found.item() == pytest.approx(expected / 3)


def batch(n_labels: int = 6) -> tuple[tuple[torch.Tensor, ...], ...]:
    """Two documents: words (ids, lengths, weights), labels (columns, lengths) and gold (n, l)."""
    words = torch.tensor([[3, 7, 2], [5, 4, 0]]), torch.tensor([3, 2]), random(2, 3).abs()
    labels = torch.tensor([[0, 4], [2, 0]]), torch.tensor([2, 1])
    gold = torch.zeros(2, n_labels, dtype=torch.bool)
    gold[0, [0, 4]] = gold[1, 2] = True
    return words, labels, (gold,)


def objective_by_terms(config: RankAEConfig) -> tuple[float, dict[str, float]]:
    """The objective, and its three terms computed apart with plain sums."""
    words, labels, (gold,) = batch()
    net = network(config)
    with torch.no_grad():
        total = compute_objective(net, words, labels, gold, config).item()
        x = net.embed_words(net.weigh(words[0], words[2]), words[1])
        y = net.encode(*labels)
        pairs = zip(x.ravel().tolist(), y.ravel().tolist(), strict=True)
        squares = [(a - b) ** 2 for a, b in pairs]
        l_ae = compute_reconstruction_loss(net.decode(y), gold, config).item()
        p = net.decode(x).sigmoid()
    entropy = 0.0
    for n in range(2):
        for label in range(6):
            entropy -= math.log(float(p[n, label] if gold[n, label] else 1 - p[n, label])) / 2
    l_h = sum(squares) / len(squares)
    return total, {"L_h": l_h, "L_ae": l_ae, "entropy": entropy}


@pytest.mark.parametrize("weight", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("direct", [0.0, 0.1, 2.0])
def test_the_objective_is_equation_1_and_the_weighted_cross_entropy_of_the_prediction(
    weight, direct
):
    """L_h + lambda L_ae (Eq. 1), and our own term where it has a weight."""
    config = dataclasses.replace(SMALL, reconstruction_weight=weight, direct_weight=direct)
    total, terms = objective_by_terms(config)
    assert min(terms.values()) > 0.01, "every term counts in this example"
    expected = terms["L_h"] + weight * terms["L_ae"] + direct * terms["entropy"]
    assert total == pytest.approx(expected, rel=1e-5)

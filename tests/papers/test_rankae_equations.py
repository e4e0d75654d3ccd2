"""Paper 004, each equation against loops that anyone can read."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from ontodex.models.rankae import (
    ChannelAttention,
    LabelDecoder,
    LabelEncoder,
    RankAE,
    RankAEConfig,
    margin_loss,
    reconstruction_loss,
)

SMALL = RankAEConfig(width=4, reduction=2, hidden=3, label_hidden=5, pool="mean")


def random(*shape: int, seed: int = 2) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.double, generator=torch.Generator().manual_seed(seed))


def network(config: RankAEConfig = SMALL, n_words: int = 9, n_labels: int = 6) -> RankAE:
    torch.manual_seed(1)
    return RankAE(config, n_words, n_labels, None).double().eval()


# ------------------------------------------------------------------------------- the ranking loss


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
    found = sum(margin_loss(together, torch.tensor([gold, gold]), margin))
    assert found[0].item() == pytest.approx(margin_loss_over_all_pairs(scores, gold, margin))


def test_three_labels_by_hand():
    """True 0.6 and 0.3, false 0.4, margin 0.2. Eq. 3: 0.2 + 0.4 - 0.3 = 0.3 for the false label.
    Eq. 4: 0.2 + 0.4 - 0.6 = 0 and 0.2 + 0.4 - 0.3 = 0.3 for the true ones. Together 0.6."""
    gold = torch.tensor([[True, True, False]])
    l_p, l_n = margin_loss(torch.tensor([[0.6, 0.3, 0.4]]), gold, 0.2)
    assert l_p.tolist() == pytest.approx([0.3])
    assert l_n.tolist() == pytest.approx([0.3])


def test_means_over_each_side_are_the_sums_divided_by_how_many_labels_it_has():
    gold = torch.tensor([[True, True, False], [False] * 3])
    logits = torch.tensor([[0.6, 0.3, 0.4], [0.1, 0.2, 0.3]]).logit()
    losses = {
        sides: reconstruction_loss(logits, gold, RankAEConfig(margin=0.2, sides=sides)).item()
        for sides in ("sum", "mean")
    }
    # 0.3 over one false label and 0.3 over two true ones; the other document adds nothing.
    assert losses == pytest.approx({"sum": 0.6 / 2, "mean": (0.3 / 1 + 0.3 / 2) / 2})


def test_margin_1_wants_true_labels_at_1_and_false_ones_at_0():
    gold = torch.tensor([[True, False, False]])
    assert sum(margin_loss(gold.double(), gold, 1.0)).item() == 0
    assert sum(margin_loss(torch.tensor([[0.9, 0.0, 0.0]]), gold, 1.0)).item() > 0


def test_margin_0_asks_only_for_the_order():
    gold = torch.tensor([[True, False, True]])
    assert sum(margin_loss(torch.tensor([[0.51, 0.5, 0.52]]), gold, 0.0)).item() == 0


def test_a_document_without_true_labels_adds_no_loss_and_no_gradient():
    scores = random(2, 4).sigmoid().requires_grad_()
    gold = torch.tensor([[False] * 4, [True] * 4])
    loss = sum(margin_loss(scores, gold, 0.5))
    loss.sum().backward()
    assert loss.tolist() == [0, 0]
    assert scores.grad is not None
    assert scores.grad.abs().max() == 0


def test_gradients_of_the_margin_loss():
    gold = torch.tensor([[True, False, True, False], [False, False, True, False]])
    logits = random(2, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: margin_loss(z.sigmoid(), gold, 0.4), logits)


def test_bce_is_summed_over_labels_and_averaged_over_documents():
    logits, gold = random(3, 4), random(3, 4, seed=5) > 0
    expected = 0.0
    for n in range(3):
        for label in range(4):
            p = 1 / (1 + math.exp(-float(logits[n, label])))
            expected -= math.log(p if gold[n, label] else 1 - p)
    found = reconstruction_loss(logits, gold, RankAEConfig(loss="bce"))
    assert found.item() == pytest.approx(expected / 3)


# --------------------------------------------------------------------------------- dual attention


def test_channel_attention_equals_equation_5_in_loops():
    attend, v = ChannelAttention(4, 2).double().requires_grad_(False), random(2, 3, 4)
    for n in range(2):
        for t in range(3):
            squeezed = [
                max(0.0, float(attend.squeeze.weight[i] @ v[n, t] + attend.squeeze.bias[i]))
                for i in range(2)
            ]
            for c in range(4):
                excited = sum(float(attend.excite.weight[c, i]) * squeezed[i] for i in range(2))
                a = 1 / (1 + math.exp(-excited - float(attend.excite.bias[c])))
                assert attend(v)[n, t, c].item() == pytest.approx(a * float(v[n, t, c]))


def test_the_features_are_the_mean_of_weighted_attended_words():
    net = network()
    tokens, lengths = torch.tensor([[3, 5, 7], [4, 0, 0]]), torch.tensor([3, 1])
    weights = torch.tensor([[0.5, 2.0, 1.0], [3.0, 0.0, 0.0]], dtype=torch.double)
    found = net.features(net.weighted(tokens, weights), lengths)
    for n in range(2):
        words = [
            net.attend(weights[n, t] * net.words.table.weight[tokens[n, t]])
            for t in range(int(lengths[n]))
        ]
        torch.testing.assert_close(found[n], net.embed(sum(words) / len(words)))


def test_attention_off_leaves_the_mean_of_weighted_words():
    net = network(RankAEConfig(width=4, hidden=3, attention="off", pool="mean"))
    tokens, lengths = torch.tensor([[3, 5]]), torch.tensor([2])
    weights = torch.tensor([[0.5, 2.0]], dtype=torch.double)
    mean = (0.5 * net.words.table.weight[3] + 2 * net.words.table.weight[5]) / 2
    found = net.features(net.weighted(tokens, weights), lengths)[0]
    torch.testing.assert_close(found, net.embed(mean))


@pytest.mark.parametrize("read", ["set", "lstm"])
def test_padding_never_changes_a_logit(read):
    net = network(RankAEConfig(width=4, reduction=2, hidden=3, label_hidden=5, input=read))
    tokens = torch.tensor([[3, 5, 0, 0], [4, 6, 7, 8]])
    weights = torch.tensor([[1.0, 2.0, 0, 0], [1.0, 1.0, 1.0, 1.0]], dtype=torch.double)
    together = net(tokens, torch.tensor([2, 4]), weights)
    alone = net(tokens[:1, :2], torch.tensor([2]), weights[:1, :2])
    torch.testing.assert_close(together[:1], alone)


def test_the_order_of_words_matters_to_the_lstm_and_not_to_the_set():
    tokens, lengths = torch.tensor([[3, 5, 7]]), torch.tensor([3])
    weights = torch.ones(1, 3, dtype=torch.double)
    moved = {}
    for read in ("set", "lstm"):
        net = network(RankAEConfig(width=4, reduction=2, hidden=3, label_hidden=5, input=read))
        forward, back = net(tokens, lengths, weights), net(tokens.flip(1), lengths, weights)
        moved[read] = (forward - back).abs().max().item()
    assert moved["set"] == pytest.approx(0, abs=1e-12)
    assert moved["lstm"] > 1e-6


# ------------------------------------------------------------------------------- the auto-encoder


def test_the_label_encoder_equals_two_dense_layers_on_the_multi_hot_labels():
    encode = LabelEncoder(6, 5, 3).double()
    multi_hot = torch.tensor([[1, 0, 0, 1, 0, 1], [0, 1, 0, 0, 0, 0], [0] * 6], dtype=torch.double)
    columns = torch.tensor([[0, 3, 5], [1, 0, 0], [0, 0, 0]])
    found = encode(columns, torch.tensor([3, 1, 0]))
    torch.testing.assert_close(found, encode.output(F.relu(multi_hot @ encode.rows + encode.bias)))


def test_prediction_decodes_the_features():
    net = network()
    tokens, lengths = torch.tensor([[3, 5]]), torch.tensor([2])
    weights = torch.ones(1, 2, dtype=torch.double)
    x = net.features(net.weighted(tokens, weights), lengths)
    expected = net.decode.output(F.relu(net.decode.inner(x))).float()
    torch.testing.assert_close(net(tokens, lengths, weights), expected)


def test_the_decoder_starts_as_the_encoder_turned_round():
    """So that a label set, encoded and decoded, is above the others before anything is learned."""
    torch.manual_seed(0)
    encode = LabelEncoder(40, 64, 64)
    decode = LabelDecoder(encode, 0.0)
    columns = torch.tensor([[3, 9, 20], [5, 6, 7]])
    logits = decode(encode(columns, torch.tensor([3, 3])))
    for row, true in zip(logits, columns, strict=True):
        assert set(row.topk(3).indices.tolist()) == set(true.tolist())


def test_gradients_of_features_and_label_encoder():
    net = network()
    v = random(1, 2, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda v: net.features(v, torch.tensor([2])), v)
    encode = LabelEncoder(4, 3, 2).double()
    columns, lengths = torch.tensor([[0, 3]]), torch.tensor([2])

    def with_rows(rows: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(encode, {"rows": rows}, (columns, lengths))

    assert torch.autograd.gradcheck(with_rows, encode.rows.detach().clone().requires_grad_())

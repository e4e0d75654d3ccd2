"""The network of Rank-AE against loops."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from ontodex.models.rankae.network import (
    ChannelAttention,
    LabelDecoder,
    LabelEncoder,
    RankAE,
)

SHAPE: dict[str, Any] = {"width": 4, "reduction": 2, "hidden": 3, "label_hidden": 5}


def random(*shape: int, seed: int = 2) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.double, generator=torch.Generator().manual_seed(seed))


def network(**more: Any) -> RankAE:
    torch.manual_seed(1)
    return RankAE(9, 6, None, **{**SHAPE, **more}).double().eval()


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


def test_the_features_are_the_sum_of_weighted_attended_words():
    net = network()
    tokens, lengths = torch.tensor([[3, 5, 7], [4, 0, 0]]), torch.tensor([3, 1])
    weights = torch.tensor([[0.5, 2.0, 1.0], [3.0, 0.0, 0.0]], dtype=torch.double)
    found = net.embed_words(net.weigh(tokens, weights), lengths)
    for n in range(2):
        words = [
            net.attend(weights[n, t] * net.words.table.weight[tokens[n, t]])
            for t in range(int(lengths[n]))
        ]
        torch.testing.assert_close(found[n], net.embed(sum(words)))


def test_attention_off_leaves_the_sum_of_weighted_words():
    net = network(attention="off")
    tokens, lengths = torch.tensor([[3, 5]]), torch.tensor([2])
    weights = torch.tensor([[0.5, 2.0]], dtype=torch.double)
    total = 0.5 * net.words.table.weight[3] + 2 * net.words.table.weight[5]
    found = net.embed_words(net.weigh(tokens, weights), lengths)[0]
    torch.testing.assert_close(found, net.embed(total))


@pytest.mark.parametrize("read", ["set", "lstm"])
def test_padding_never_changes_a_logit(read):
    net = network(input=read)
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
        net = network(input=read)
        forward, back = net(tokens, lengths, weights), net(tokens.flip(1), lengths, weights)
        moved[read] = (forward - back).abs().max().item()
    assert moved["set"] == pytest.approx(0, abs=1e-12)
    assert moved["lstm"] > 1e-6


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
    x = net.embed_words(net.weigh(tokens, weights), lengths)
    expected = net.decode.output(F.relu(net.decode.inner(x))).float()
    torch.testing.assert_close(net(tokens, lengths, weights), expected)


def test_the_decoder_starts_as_the_transposed_encoder():
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
    assert torch.autograd.gradcheck(lambda v: net.embed_words(v, torch.tensor([2])), v)
    encode = LabelEncoder(4, 3, 2).double()
    columns, lengths = torch.tensor([[0, 3]]), torch.tensor([2])

    def with_rows(rows: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(encode, {"rows": rows}, (columns, lengths))

    assert torch.autograd.gradcheck(with_rows, encode.rows.detach().clone().requires_grad_())

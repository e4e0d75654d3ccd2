"""BERT: equal to the slow equations and to the library that most people use."""

from __future__ import annotations

import math

import pytest
import torch

from ontodex.models.layers.bert import Bert, BertConfig

CONFIG = BertConfig(
    vocab_size=40, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20,
    max_position_embeddings=16, layer_norm_eps=1e-6,
)  # fmt: skip
PIECES = torch.tensor([[2, 5, 9, 31, 3, 0], [2, 7, 3, 0, 0, 0], [2, 8, 8, 4, 11, 3]])
LENGTHS = torch.tensor([5, 3, 6])


@pytest.fixture
def network() -> Bert:
    torch.manual_seed(1)
    net = Bert(CONFIG).double().eval()
    for parameter in net.parameters():  # biases and norms too: zeros and ones hide mistakes
        torch.nn.init.normal_(parameter, std=0.4)
    return net


def normalise(x: torch.Tensor, norm: torch.nn.LayerNorm) -> torch.Tensor:
    centred = x - x.mean()
    return centred / (centred.square().mean() + 1e-6).sqrt() * norm.weight + norm.bias


def encode_by_loops(net: Bert, pieces: list[int]) -> torch.Tensor:
    """The published equations for one text without padding."""
    tables = net.embeddings
    x = [
        normalise(
            tables.word_embeddings.weight[piece]
            + tables.position_embeddings.weight[place]
            + tables.token_type_embeddings.weight[0],
            tables.LayerNorm,
        )
        for place, piece in enumerate(pieces)
    ]
    for layer in net.encoder.layer:
        attend, mix = layer.attention.self, layer.attention.output
        q, k, v = ([part(one) for one in x] for part in (attend.query, attend.key, attend.value))
        after = []
        for t in range(len(x)):
            heads = []
            for head in range(3):
                at = slice(4 * head, 4 * head + 4)
                scores = torch.stack([q[t][at] @ k[u][at] / 2 for u in range(len(x))])  # sqrt(4)
                shares = scores.exp() / scores.exp().sum()
                heads.append(sum(share * v[u][at] for u, share in enumerate(shares)))
            mixed = normalise(mix.dense(torch.cat(heads)) + x[t], mix.LayerNorm)
            wide = layer.intermediate.dense(mixed)
            wide = wide * 0.5 * (1 + torch.erf(wide / math.sqrt(2)))
            after.append(normalise(layer.output.dense(wide) + mixed, layer.output.LayerNorm))
        x = after
    return torch.stack(x)


def test_the_states_are_those_of_the_equations_in_loops(network):
    states = network(PIECES, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        expected = encode_by_loops(network, PIECES[row, :length].tolist())
        torch.testing.assert_close(states[row, :length], expected)


def test_padding_changes_no_state(network):
    other = PIECES.clone()
    other[1, 3:] = 39
    torch.testing.assert_close(network(other, LENGTHS)[1, :3], network(PIECES, LENGTHS)[1, :3])


def test_the_states_are_those_of_transformers_and_weights_go_both_ways(network):
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=40, hidden_size=12, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=20, max_position_embeddings=16, layer_norm_eps=1e-6,
    )  # fmt: skip
    theirs = transformers.BertModel(config, add_pooling_layer=False).double().eval()
    mask = torch.arange(6) < LENGTHS[:, None]
    network.load_state_dict(theirs.state_dict(), strict=False)
    expected = theirs(PIECES, attention_mask=mask.long()).last_hidden_state
    torch.testing.assert_close(network(PIECES, LENGTHS)[mask], expected[mask])
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    missing = theirs.load_state_dict(network.state_dict(), strict=False)
    assert not missing.unexpected_keys
    again = theirs(PIECES, attention_mask=mask.long()).last_hidden_state
    torch.testing.assert_close(network(PIECES, LENGTHS)[mask], again[mask])


def test_a_width_that_heads_do_not_divide_is_refused():
    with pytest.raises(ValueError, match="not divisible"):
        BertConfig(10, 10, 1, 3, 8, 8)

"""BERT: equal to the slow equations and to the library that most people use."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from ontodex.models.layers.bert import Bert, BertConfig
from ontodex.models.layers.packed import pack

CONFIG = BertConfig(
    vocab_size=40, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20,
    max_position_embeddings=16, layer_norm_eps=1e-6,
)  # fmt: skip
PIECES = torch.tensor([[2, 5, 9, 31, 3, 0], [2, 7, 3, 0, 0, 0], [2, 8, 8, 4, 11, 3]])
LENGTHS = torch.tensor([5, 3, 6])
INSIDE = torch.arange(6) < LENGTHS[:, None]


@pytest.fixture
def network() -> Bert:
    torch.manual_seed(1)
    net = Bert(CONFIG).double().eval()
    for parameter in net.parameters():  # biases and norms too: zeros and ones hide mistakes
        torch.nn.init.normal_(parameter, std=0.4)
    return net


def encode(net: Bert, pieces: torch.Tensor = PIECES) -> torch.Tensor:
    """Return the states of the padded texts, without those of padding: (14, d)."""
    return net(pack(pieces[INSIDE], LENGTHS.numpy()))


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
    rows = zip(PIECES.tolist(), LENGTHS.tolist(), strict=True)
    expected = torch.cat([encode_by_loops(network, row[:length]) for row, length in rows])
    torch.testing.assert_close(encode(network), expected)


def test_texts_of_a_batch_do_not_see_each_other(network):
    alone = [network(pack(row[:n], np.array([n]))) for row, n in zip(PIECES, LENGTHS, strict=True)]
    torch.testing.assert_close(encode(network), torch.cat(alone))


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_packed_attention_on_a_gpu_equals_the_padded_one_forward_and_backward():
    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=99, hidden_size=64, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=64,
    )  # fmt: skip
    net = Bert(config).cuda().eval()
    lengths = np.array([5, 64, 1, 30])
    packed = pack(torch.randint(0, 99, (100,), device="cuda"), lengths)
    target = torch.randn(100, 64, device="cuda")
    found = []
    for precision in (torch.float32, torch.bfloat16):
        net.zero_grad()
        with torch.autocast("cuda", dtype=precision, enabled=precision == torch.bfloat16):
            h = net(packed)
        (h.float() * target).sum().backward()
        grads = torch.cat([p.grad.flatten() for p in net.parameters() if p.grad is not None])
        found.append((h.float(), grads))
    for exact, rounded in zip(*found, strict=True):
        assert float((exact - rounded).norm() / exact.norm()) < 0.03


def test_the_states_are_those_of_transformers_and_weights_go_both_ways(network):
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=40, hidden_size=12, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=20, max_position_embeddings=16, layer_norm_eps=1e-6,
    )  # fmt: skip
    theirs = transformers.BertModel(config, add_pooling_layer=False).double().eval()
    network.load_state_dict(theirs.state_dict(), strict=False)
    expected = theirs(PIECES, attention_mask=INSIDE.long()).last_hidden_state
    torch.testing.assert_close(encode(network), expected[INSIDE])
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    missing = theirs.load_state_dict(network.state_dict(), strict=False)
    assert not missing.unexpected_keys
    again = theirs(PIECES, attention_mask=INSIDE.long()).last_hidden_state
    torch.testing.assert_close(encode(network), again[INSIDE])


def test_a_width_that_heads_do_not_divide_is_refused():
    with pytest.raises(ValueError, match="not divisible"):
        BertConfig(10, 10, 1, 3, 8, 8)

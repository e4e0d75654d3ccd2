"""The network of `attentive-bert` against plain steps, its explanation and its first queries."""

from __future__ import annotations

import numpy as np
import torch

from ontodex.models.attentive_bert.config import AttentiveBertConfig
from ontodex.models.attentive_bert.network import AttentiveBert
from ontodex.models.attentive_bert.reader import Documents
from ontodex.models.layers.bert import BertConfig
from ontodex.models.layers.packed import pack

SHAPE = BertConfig(
    vocab_size=30, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
    intermediate_size=8, max_position_embeddings=8,
)  # fmt: skip
CONFIG = AttentiveBertConfig(encoder="x", window=4, value_dim=5, bag=3)
# Two documents: the first has two windows (4 + 2 pieces), the second one.
WINDOWS = pack(torch.tensor([2, 7, 9, 3, 2, 3, 2, 8, 3]), np.array([4, 2, 3]))
DOCUMENTS = Documents(torch.tensor([0, 6]), torch.tensor([6, 3]), 6)
WORDS = torch.tensor([[4, 5, 4], [6, 0, 0]])


def make_network(n_labels: int = 4) -> AttentiveBert:
    torch.manual_seed(2)
    return AttentiveBert(CONFIG, SHAPE, 10, torch.randn(n_labels)).double().eval()


def test_logits_are_label_attention_over_all_windows_plus_the_bag():
    net = make_network()
    windows = [[2, 7, 9, 3], [2, 3], [2, 8, 3]]
    states = [net.encode(pack(torch.tensor(w), np.array([len(w)]))) for w in windows]
    documents = [torch.cat(states[:2]), states[2]]
    out = net.read_out
    expected = torch.zeros(2, 4, dtype=torch.double)
    for n, h in enumerate(documents):
        for label in range(4):
            a = (h @ out.queries[label]).softmax(0)
            read = torch.relu(sum(a[t] * out.project(h[t]) for t in range(len(h))))
            expected[n, label] = read @ out.output[label] + out.bias[label]
    found = net(WINDOWS, DOCUMENTS, WORDS) - net.bag(WORDS)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)


def test_contributions_of_pieces_add_up_to_the_logit_of_label_attention():
    net = make_network()
    with torch.no_grad():
        net.read_out.project.bias.zero_()  # its share belongs to no piece
        logits = net(WINDOWS, DOCUMENTS, WORDS) - net.bag(WORDS) - net.read_out.bias
        for column in range(4):
            parts, _ = net.explain_logit(WINDOWS, DOCUMENTS, WORDS, column)
            torch.testing.assert_close(parts.sum(1), logits[:, column], rtol=1e-6, atol=1e-7)
            assert not parts[1, 3:].any()


def test_attention_of_a_label_sums_to_one():
    (parts,) = make_network().compute_attention(WINDOWS, DOCUMENTS, WORDS, 1)
    torch.testing.assert_close(parts.sum(1), torch.ones(2, dtype=torch.double))


def test_a_label_first_attends_to_pieces_like_those_of_its_name():
    net = make_network().float()
    names = pack(torch.tensor([2, 7, 7, 3, 2, 9, 9, 3]), np.array([4, 4]))
    net.start_queries(torch.tensor([3, 1]), names)
    before = make_network().float().read_out.queries
    assert torch.equal(net.read_out.queries[[0, 2]], before[[0, 2]])  # labels without a name
    for label, piece in ((3, 1), (1, 2)):
        (attention,) = net.compute_attention(WINDOWS, DOCUMENTS, WORDS, label)
        assert int(attention[0, 1:3].argmax()) + 1 == piece
    h = net.encode(names).detach()
    assert abs((h @ net.read_out.queries[[3, 1]].T).std().item() - 1) < 1e-4

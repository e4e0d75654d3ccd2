"""Paper 002, each equation against loops that anyone can read."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from torch import nn

from ontodex.errors import ConfigError
from ontodex.models.attentionxml import (
    XMLRNN,
    AttentionXML,
    AttentionXMLConfig,
    BagReadOut,
    LabelReadOut,
)
from ontodex.models.label_attention import (
    attend,
    attend_candidates,
    attention,
    flat_attend,
    flat_logits,
    label_logits,
    tokens_in,
)
from ontodex.models.parts import BiLSTM, WordBag, Words, token_mask, word_weights
from ontodex.models.xmlcnn import XMLCNN, XMLCNNConfig, chunk_max

LENGTHS = torch.tensor([4, 2])
MASK = token_mask(torch.zeros(2, 4), LENGTHS)
SMALL = AttentionXMLConfig(hidden=3, value=2, width=5, bag=4, word_dropout=0.0, dropout=0.0)


@pytest.fixture
def h() -> torch.Tensor:
    return torch.randn(2, 4, 6, dtype=torch.double, generator=torch.Generator().manual_seed(1))


def random(*shape: int, seed: int = 2) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.double, generator=torch.Generator().manual_seed(seed))


def attention_by_loops(h: torch.Tensor, queries: torch.Tensor) -> torch.Tensor:
    """Eq. 4 with no tensor algebra: the m of each document and label."""
    out = torch.zeros(len(h), len(queries), h.shape[2], dtype=h.dtype)
    for n in range(len(h)):
        steps = range(int(LENGTHS[n]))
        for label, query in enumerate(queries):
            powers = [math.exp(float(h[n, t] @ query)) for t in steps]
            for t in steps:
                out[n, label] += powers[t] / sum(powers) * h[n, t]
    return out


@pytest.mark.parametrize("form", [attend, flat_attend])
def test_label_attention_equals_equation_4_in_loops(h, form):
    queries = random(5, 6)
    torch.testing.assert_close(form(h, h, queries, MASK), attention_by_loops(h, queries))


@pytest.mark.parametrize("places", [7, 8, 9])
def test_rows_that_are_filled_up_for_a_gpu_change_nothing(places):
    h, values, queries = random(2, places, 6), random(2, places, 3, seed=3), random(5, 6, seed=4)
    mask = token_mask(h, torch.tensor([places, 2]))
    torch.testing.assert_close(
        flat_attend(h, values, queries, mask), attend(h, values, queries, mask)
    )


def test_tokens_are_projected_in_the_precision_they_come_in(h):
    project = torch.nn.Linear(6, 2)
    expected = h.float() @ project.weight.T + project.bias
    for kind in (torch.float16, torch.float32):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            values = tokens_in(project, h.to(kind))
        assert values.dtype == kind
        torch.testing.assert_close(values.float(), expected, rtol=1e-2, atol=1e-2)


def test_the_candidate_form_is_the_full_form_for_those_labels(h):
    queries, columns = random(5, 6), torch.tensor([[4, 0], [1, 1]])
    full = attention_by_loops(h, queries)
    chosen = attend_candidates(h, h, queries[columns], MASK)
    for n in range(2):
        torch.testing.assert_close(chosen[n], full[n, columns[n]])


@pytest.mark.parametrize("form", [attend, flat_attend])
def test_gradients_of_label_attention(h, form):
    queries = random(3, 6).requires_grad_()
    h.requires_grad_()
    assert torch.autograd.gradcheck(lambda x, q: form(x, x, q, MASK), (h, queries))


def test_gradients_of_the_candidate_form(h):
    queries = random(2, 3, 6).requires_grad_()
    h.requires_grad_()
    assert torch.autograd.gradcheck(lambda x, q: attend_candidates(x, x, q, MASK), (h, queries))


def test_projecting_tokens_first_is_the_paper_with_its_layer_after_attention(h):
    """W1 (sum a h) + b = sum a (W1 h + b), then Eq. 5 with one read-out for all labels."""
    paper = AttentionXMLConfig(hidden=3, value=2, read_out="shared")
    read_out = LabelReadOut(paper, torch.zeros(5)).double()
    m = attention_by_loops(h, read_out.queries.detach())
    layer = torch.relu(m @ read_out.project.weight.T + read_out.project.bias)
    expected = (layer @ read_out.output[0]) + read_out.bias
    torch.testing.assert_close(read_out(h, MASK).double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("form", [label_logits, flat_logits])
def test_logits_are_what_each_label_reads_times_its_own_output_vector(h, form):
    queries, output = random(5, 6), random(5, 6, seed=3)
    m = attention_by_loops(h, queries)
    expected = torch.tensor(
        [
            [
                sum(max(0.0, float(x)) * float(o) for x, o in zip(row, out, strict=True))
                for row, out in pairs
            ]
            for pairs in (list(zip(doc, output, strict=True)) for doc in m)
        ],
        dtype=torch.double,
    )
    torch.testing.assert_close(form(h, h, queries, output, MASK), expected)


@pytest.mark.parametrize("form", [label_logits, flat_logits])
def test_gradients_of_the_logits(h, form):
    queries, output = random(3, 6).requires_grad_(), random(3, 6, seed=3).requires_grad_()
    h.requires_grad_()
    assert torch.autograd.gradcheck(lambda x, q, o: form(x, x, q, o, MASK), (h, queries, output))


def test_blocks_of_labels_do_not_show_in_the_logits(h, monkeypatch):
    queries, output = random(5, 6), random(5, 6, seed=3)
    whole = label_logits(h, h, queries, output, MASK)
    monkeypatch.setattr("ontodex.models.label_attention.LABEL_BLOCK", 2)
    torch.testing.assert_close(label_logits(h, h, queries, output, MASK), whole)


@pytest.mark.gpu
@pytest.mark.filterwarnings("default")  # torch warns of itself as it compiles, each version anew
def test_compiling_costs_no_precision():
    torch.manual_seed(0)
    drawn = torch.randn(7, 50, 64), torch.randn(30, 64) * 0.1, torch.randn(30, 64)
    mask = (torch.arange(50) < torch.randint(5, 51, (7, 1))).cuda()
    half = [x.cuda().bfloat16() for x in drawn]

    def found(form, given):
        h, queries, output = leaves = [x.detach().requires_grad_() for x in given]
        logits = form(h, h, queries, output, mask)
        logits.sum().backward()
        return [x.detach().double() for x in (logits, *(leaf.grad for leaf in leaves))]

    exact = found(flat_logits, [x.double() for x in half])
    plain, compiled = found(flat_logits, half), found(label_logits, half)
    for true, one, other in zip(exact, plain, compiled, strict=True):
        assert (other - true).norm() < 1.2 * (one - true).norm() + 1e-3 * true.norm()


def test_words_of_a_bag_by_hand():
    """3 stands twice, 5 once: weights 1 + log 2 and 1, over their common length."""
    words, weights = word_weights(torch.tensor([[5, 3, 3, 0], [7, 0, 0, 0]]))
    twice, once = 1 + math.log(2), 1.0
    told = [
        {word: weight for word, weight in zip(*row, strict=True) if weight}
        for row in zip(words.tolist(), weights.tolist(), strict=True)
    ]
    length = math.hypot(twice, once)
    assert told[0] == pytest.approx({3: twice / length, 5: once / length})
    assert told[1] == {7: 1.0}


def test_a_bag_adds_what_its_words_say_whatever_their_order():
    torch.manual_seed(0)
    read_out = BagReadOut(SMALL, 20, 3).double().eval()
    once, other = torch.tensor([[4, 9, 2]]), torch.tensor([[2, 4, 9]])
    vectors = read_out.bag.words.weight[[4, 9, 2]].sum(dim=0) / math.sqrt(3)
    expected = torch.relu(4 * vectors + read_out.bag.bias) @ read_out.output.weight.T
    torch.testing.assert_close(read_out(once)[0], expected.float(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(read_out(once), read_out(other))


def test_without_a_bag_the_network_is_the_paper():
    paper = AttentionXMLConfig(hidden=3, value=2, width=5, bag=0)
    torch.manual_seed(0)
    network = AttentionXML(paper, 20, torch.zeros(7), None).eval()
    tokens, lengths = torch.tensor([[3, 7, 2]]), torch.tensor([3])
    h = network.encode(network.words(tokens), lengths)
    read = network.read_out(h, token_mask(tokens, lengths))
    torch.testing.assert_close(network(tokens, lengths), read)


@pytest.mark.parametrize("read_out", ["label", "shared"])
@pytest.mark.parametrize("bag", [0, 4])
def test_what_the_words_add_to_a_logit_is_the_logit_without_its_bias(read_out, bag):
    """A word that stands there twice, and padding, which adds nothing."""
    config = dataclasses.replace(SMALL, read_out=read_out, bag=bag)
    torch.manual_seed(1)
    network = AttentionXML(config, 20, torch.zeros(7), None).double().eval()
    tokens = torch.tensor([[3, 7, 3, 2], [5, 4, 0, 0]])
    logits = network(tokens, LENGTHS) - network.read_out.bias  # the bag's bias starts at 0
    h = network.encode(network.words(tokens), LENGTHS)
    for column in range(7):
        added = network.read_out.contributions(h, MASK, column)
        added = added + network.bag.contributions(tokens, column)  # type: ignore[operator]
        torch.testing.assert_close(
            added.sum(1), logits[:, column], check_dtype=False, rtol=1e-4, atol=1e-6
        )
        assert not added[1, 2:].any()


def test_a_word_that_stands_there_twice_divides_what_it_adds():
    bag = WordBag(20, 4, 0.0).double().eval()
    added = bag.contributions(torch.tensor([[3, 7, 3]]), torch.ones(4, dtype=torch.double))[0]
    twice, once = 1 + math.log(2), 1.0
    shares = torch.tensor([twice / 2, once, twice / 2]).double() / math.hypot(twice, once)
    told = 4 * shares[:, None] * bag.words.weight[[3, 7, 3]]
    passes = told.sum(0) > 0
    torch.testing.assert_close(
        added, told[:, passes].sum(1), check_dtype=False, rtol=1e-5, atol=1e-6
    )


def test_equal_queries_of_zero_are_the_mean_of_the_tokens(h):
    m = attend(h, h, torch.zeros(2, 6, dtype=torch.double), MASK)
    torch.testing.assert_close(m[1, 0], h[1, :2].mean(dim=0))


def test_attention_weights_are_a_distribution_over_real_tokens(h):
    a = attention(h, random(3, 6), MASK)
    torch.testing.assert_close(a.sum(-1), torch.ones(2, 3, dtype=torch.double))
    assert torch.equal(a[1, :, 2:], torch.zeros(3, 2, dtype=torch.double))


def lstm_by_loops(layer: nn.LSTM, x: torch.Tensor) -> torch.Tensor:
    """Eq. 2 for one sequence; torch keeps its gates in the order i, f, g, o."""
    wi, wh = layer.weight_ih_l0, layer.weight_hh_l0
    bias = layer.bias_ih_l0 + layer.bias_hh_l0
    size = wh.shape[1]
    state = cell = torch.zeros(size, dtype=x.dtype)
    out = []
    for step in x:
        gates = wi @ step + wh @ state + bias
        i, f, g, o = (gates[k * size : (k + 1) * size] for k in range(4))
        cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        state = torch.sigmoid(o) * torch.tanh(cell)
        out.append(state)
    return torch.stack(out)


def test_the_encoder_equals_equations_2_and_3_in_loops():
    encoder, x = BiLSTM(5, 3).double(), random(2, 4, 5)
    h = encoder(x, LENGTHS)
    for n, length in enumerate(LENGTHS.tolist()):
        forward = lstm_by_loops(encoder.onward, x[n, :length])
        backward = lstm_by_loops(encoder.backward_, x[n, :length].flip(0)).flip(0)
        torch.testing.assert_close(h[n, :length], torch.cat([forward, backward], dim=1))


@pytest.mark.parametrize("network_class", [AttentionXML, XMLRNN, XMLCNN])
def test_padding_never_changes_a_logit(network_class):
    config = SMALL if network_class is not XMLCNN else XMLCNNConfig(width=5, maps=4, bottleneck=6)
    torch.manual_seed(0)
    network = network_class(config, 20, torch.zeros(7), None).double().eval()
    short = torch.tensor([[3, 7, 2, 9, 4, 0, 0, 0, 0, 0]])
    long = torch.randint(1, 20, (1, 10))
    together = network(torch.cat([short, long]), torch.tensor([5, 10]))[:1]
    alone = network(short[:, :5], torch.tensor([5]))
    torch.testing.assert_close(together, alone, rtol=1e-6, atol=1e-7)


def test_xmlrnn_pools_the_greatest_state_of_each_unit():
    network = XMLRNN(SMALL, 20, torch.zeros(4), None).eval()
    tokens = torch.tensor([[3, 7, 2, 0], [5, 1, 0, 0]])
    lengths = torch.tensor([3, 2])
    h = network.encode(network.words(tokens), lengths)
    m = torch.stack([h[0, :3].max(dim=0).values, h[1, :2].max(dim=0).values])
    expected = network.output(torch.relu(network.project(m)))
    torch.testing.assert_close(network(tokens, lengths), expected)


def test_chunks_by_hand():
    x = torch.tensor([[1.0, 5, 2, 4, 3, 9], [7.0, 6, 9, 9, 9, 9]])[:, :, None]
    pooled = chunk_max(x, torch.tensor([5, 2]), 4)[:, :, 0]
    # Five places in four chunks: place p falls into chunk 4 p // 5, so {0, 1}, {2}, {3}, {4}.
    assert pooled[0].tolist() == [5, 2, 4, 3]
    # Two places in four chunks leave two chunks empty.
    assert pooled[1].tolist() == [7, 0, 6, 0]


def test_one_chunk_is_plain_max_pooling():
    x = torch.rand(3, 6, 2)
    torch.testing.assert_close(chunk_max(x, torch.tensor([6, 6, 6]), 1)[:, 0], x.amax(dim=1))


def test_a_convolution_reads_only_whole_windows_of_real_words():
    network = XMLCNN(
        XMLCNNConfig(width=5, maps=4, windows=(2,), chunks=1), 20, torch.zeros(3), None
    )
    tokens = torch.tensor([[3, 7, 2, 0, 0]])
    x = network.words.eval()(tokens)
    pooled = network.pool(network.convolve[0], x, torch.tensor([3]))
    weight, bias = network.convolve[0].weight, network.convolve[0].bias
    windows = [torch.einsum("mec,ce->m", weight, x[0, i : i + 2]) + bias for i in (0, 1)]
    torch.testing.assert_close(pooled[0, 0], torch.relu(torch.stack(windows)).amax(dim=0))


def test_vectors_longer_than_the_network_is_wide_are_refused_in_words():
    with pytest.raises(ConfigError, match=r"model\.width is 3, the pretrained vectors have 4"):
        Words(5, 3, 0.0, torch.zeros(5, 4))

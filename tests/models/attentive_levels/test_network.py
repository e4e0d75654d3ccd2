"""The network of `attentive-levels` against loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from ontodex.models.attentive_levels.config import AttentiveLevelsConfig
from ontodex.models.attentive_levels.network import (
    AttendedWords,
    AttentiveLevel,
    AttentiveLevels,
    SetBag,
)
from ontodex.models.levelwise.levels import Category, Level
from ontodex.models.levelwise.network import Tables

SMALL = AttentiveLevelsConfig(width=6, hidden=3, value_dim=4, bag=5, word_dropout=0, dropout=0)
LEVELS = [Level(m, np.array([m]), (Category("c", 1, np.array([0])),)) for m in (1, 2)]
WORDS = torch.tensor([[3, 5, 2, 0], [4, 4, 8, 7]]), torch.tensor([3, 4])


def vectors(*lengths: int, t: int = 7, width: int = 6) -> tuple[Tensor, Tensor]:
    x = torch.randn(len(lengths), t, width, dtype=torch.double)
    mask = torch.arange(t) < torch.tensor(lengths)[:, None]
    return x * mask[:, :, None], torch.tensor(lengths)


def level_network() -> AttentiveLevel:
    torch.manual_seed(1)
    level = Level(2, np.array([4, 7, 9]), ())
    made = AttentiveLevel(SMALL, level, ["keywords", "above"], torch.randn(3)).double().eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return made


def networks(**more: object) -> AttentiveLevels:
    torch.manual_seed(1)
    config = replace(SMALL, **more)  # type: ignore[arg-type]
    return AttentiveLevels(config, LEVELS, Tables(9), [torch.zeros(1)] * 2).eval()


def test_a_logit_is_the_sum_of_attention_bags_and_bias_in_loops():
    network = level_network()
    h, lengths = vectors(4, 2)
    bag, sets = (
        torch.randn(2, 5, dtype=torch.double),
        {"keywords": vectors(3, 0), "above": vectors(1, 2)},
    )
    logits = network(AttendedWords(h, lengths, bag), sets)
    with torch.no_grad():
        for row in range(2):
            for label in range(3):
                query, output = network.attend.queries[label], network.attend.output[label]
                states = h[row, : int(lengths[row])]
                powers = torch.stack([(state @ query).exp() for state in states])
                read = sum(p / powers.sum() * s for p, s in zip(powers, states, strict=True))
                expected = float(torch.relu(network.attend.project(read)) @ output)
                expected += float(network.bias[label] + network.bag.weight[label] @ bag[row])
                for name, (x, sizes) in sets.items():
                    part = network.set_bags[name]
                    total = x[row].sum(0) / max(1, int(sizes[row])) ** 0.5
                    hidden = torch.relu(total + part.bias)
                    expected += float(part.output.weight[label] @ hidden)
                assert float(logits[row, label]) == pytest.approx(expected, rel=1e-5)


def test_a_bag_of_keywords_equals_the_sum_of_vectors_in_loops():
    bag = SetBag(6, 3, dropout=0.5).double().eval()
    torch.nn.init.normal_(bag.bias)
    x, lengths = vectors(4, 1, 0, t=5)
    for row, length in enumerate(lengths.tolist()):
        total = sum((x[row, t] for t in range(length)), torch.zeros(6, dtype=torch.double))
        encoded = [max(0.0, v) for v in (total / max(1, length) ** 0.5 + bag.bias).tolist()]
        for label, weights in enumerate(bag.output.weight):
            expected = sum(w * v for w, v in zip(weights.tolist(), encoded, strict=True))
            assert float(bag(x, lengths)[row, label].detach()) == pytest.approx(expected)


def test_gradients_and_padding():
    network = level_network()
    h, lengths = vectors(5, 3, t=5)
    bag, sets = (
        torch.randn(2, 5, dtype=torch.double),
        {"keywords": vectors(2, 0), "above": vectors(1, 3)},
    )

    def logits(x: Tensor) -> Tensor:
        return network(AttendedWords(x, lengths, bag), sets).double()

    assert torch.autograd.gradcheck(logits, h.requires_grad_())
    short = {name: (x[1:, :3], sizes[1:]) for name, (x, sizes) in sets.items()}
    alone = network(AttendedWords(h[1:, :3], lengths[1:], bag[1:]), short)
    torch.testing.assert_close(network(AttendedWords(h, lengths, bag), sets)[1:], alone)


def test_a_shared_encoder_runs_once_for_all_levels_and_others_do_not():
    shared, own = networks(), networks(encoder="level")
    one, other = shared.encode_words_together(WORDS)
    assert one is other
    assert torch.equal(one.h, shared.encode_words(1, WORDS).h)
    assert own.encode_words_together(WORDS) == []
    assert not torch.equal(own.encode_words(0, WORDS).h, own.encode_words(1, WORDS).h)


def test_encoded_words_of_some_documents_equal_those_of_these_documents_alone():
    network = networks()
    encoded = network.encode_words(0, WORDS)
    assert encoded.take(None) is encoded
    alone = network.encode_words(0, (WORDS[0][:1, :3], WORDS[1][:1]))
    torch.testing.assert_close(
        network(1, encoded.take(torch.tensor([0])), {}), network(1, alone, {})
    )


def test_contributions_of_words_add_up_to_the_logit_without_biases():
    network = networks().double()
    added = network.explain_logit(1, 0, WORDS, {})
    with torch.no_grad():
        logits = network(1, network.encode_words(1, WORDS), {})[:, 0] - network.level(1).bias[0]
    torch.testing.assert_close(added.sum(1), logits, check_dtype=False, rtol=1e-4, atol=1e-6)
    assert not added[0, 3:].any(), "padding contributes nothing"

"""The bag of words, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from ontodex.models.layers.bag import WordBag, weigh_words


def test_words_of_a_bag_by_hand():
    """3 stands twice, 5 once: weights 1 + log 2 and 1, over their common length."""
    words, weights = weigh_words(torch.tensor([[5, 3, 3, 0], [7, 0, 0, 0]]))
    twice, once = 1 + math.log(2), 1.0
    found = [
        {word: weight for word, weight in zip(*row, strict=True) if weight}
        for row in zip(words.tolist(), weights.tolist(), strict=True)
    ]
    length = math.hypot(twice, once)
    assert found[0] == pytest.approx({3: twice / length, 5: once / length})
    assert found[1] == {7: 1.0}


def test_a_repeated_word_divides_its_contribution_among_its_tokens():
    bag = WordBag(20, 4, 0.0).double().eval()
    added = bag.explain_logit(torch.tensor([[3, 7, 3]]), torch.ones(4, dtype=torch.double))[0]
    twice, once = 1 + math.log(2), 1.0
    shares = torch.tensor([twice / 2, once, twice / 2]).double() / math.hypot(twice, once)
    found = 4 * shares[:, None] * bag.words.weight[[3, 7, 3]]
    is_active = found.sum(0) > 0
    torch.testing.assert_close(
        added, found[:, is_active].sum(1), check_dtype=False, rtol=1e-5, atol=1e-6
    )

"""The bag of words, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from ontodex.features.vocabulary import EncodedTexts
from ontodex.models.layers.bag import BagReadOut, WordBag, compute_idf, weigh_words
from ontodex.models.layers.ragged import Ragged


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


def test_the_inverse_document_frequency_counts_each_document_once(monkeypatch):
    """Three documents: 2 is in two of them, 3 in one (twice), 4 in none."""
    monkeypatch.setattr("ontodex.models.layers.bag.ROWS", 2)
    texts = EncodedTexts(np.array([2, 3, 3, 2, 1], np.int32), np.array([0, 3, 4, 5]))
    idf = compute_idf(Ragged(texts, torch.device("cpu")), 5)
    expected = [1 + math.log(4 / (1 + documents)) for documents in (0, 1, 2, 1, 0)]
    assert idf.tolist() == pytest.approx(expected)


def test_rare_words_weigh_more_by_their_inverse_document_frequency():
    idf = torch.tensor([9.0, 9.0, 9.0, 1.0, 9.0, 2.0])
    words, weights = weigh_words(torch.tensor([[5, 3, 3, 0]]), idf)
    found = dict(zip(words[0].tolist(), weights[0].tolist(), strict=True))
    twice, once = 1 + math.log(2), 2.0
    length = math.hypot(twice, once)
    assert (found[5], max(weights[0, words[0] == 3].tolist())) == pytest.approx(
        (once / length, twice / length)
    )
    assert found[0] == 0


def test_contributions_add_up_to_the_logit_with_the_inverse_document_frequency():
    torch.manual_seed(1)
    read_out = BagReadOut(20, 8, 3, 0.0, has_idf=True).double().eval()
    read_out.bag.idf = torch.rand(20, dtype=torch.double) + 1
    read_out.bag.bias.data.zero_()
    tokens = torch.tensor([[3, 7, 3, 11, 0]])
    added = read_out.explain_logit(tokens, 1)
    assert added[0, 4] == 0
    assert added.sum().item() == pytest.approx(read_out(tokens)[0, 1].item(), rel=1e-5)

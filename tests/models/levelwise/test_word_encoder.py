"""Convolutions over words."""

from __future__ import annotations

import torch

from ontodex.models.levelwise.word_encoder import (
    Convolutions,
    EncodedWords,
    convolve_as_matmul,
)


def test_convolutions_see_their_window_and_zeros_outside_the_text():
    convolve = Convolutions(3, 2, (2, 3, 5)).double()
    x = torch.randn(1, 4, 3, dtype=torch.double)
    seen = convolve(x)
    other = Convolutions(3, 1, (4,)).double()  # a GPU's way, two at once
    both = torch.cat([other(x), seen], dim=2)
    torch.testing.assert_close(
        convolve_as_matmul([other, convolve], x.transpose(0, 1)), both.transpose(0, 1)
    )
    for t in range(4):
        features = []
        for layer, window in zip(convolve.each, (2, 3, 5), strict=True):
            first = t - (window - 1) // 2
            for filter_, bias in zip(layer.weight, layer.bias, strict=True):
                inside = [i for i in range(window) if 0 <= first + i < 4]
                total = bias + sum(filter_[:, i] @ x[0, first + i] for i in inside)
                features.append(total.clamp(min=0))
        torch.testing.assert_close(seen[0, t], torch.stack(features))


def test_some_documents_of_a_batch_keep_their_words_and_lengths():
    h, lengths = torch.arange(24.0).reshape(3, 4, 2), torch.tensor([4, 1, 2])
    words = EncodedWords(h, lengths)
    assert words.take(None) is words
    some = words.take(torch.tensor([2, 0]))
    torch.testing.assert_close(some.h, torch.stack([h[2], h[0]]))
    assert some.lengths.tolist() == [2, 4]

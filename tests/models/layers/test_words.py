"""Word vectors."""

from __future__ import annotations

import pytest
import torch

from ontodex.errors import ConfigError
from ontodex.models.layers.words import WordEmbedding


def test_vectors_longer_than_the_network_is_wide_are_refused_in_words():
    with pytest.raises(ConfigError, match=r"model\.width is 3, but the pretrained vectors have 4"):
        WordEmbedding(5, 3, 0.0, torch.zeros(5, 4))

"""Tokens whose ids lie in a mapped file, as those of a large prepared corpus do."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ontodex.features.tokens import Tokens

N_DOCS, LENGTH, N_WORDS = 10_000, 200, 1_000


def map_tokens(folder: Path) -> Tokens:
    """Write N_DOCS documents of LENGTH words into the folder; return them mapped."""
    stored = np.memmap(folder / "ids", np.uint16, "w+", shape=N_DOCS * LENGTH)
    stored[:] = np.resize(np.arange(N_WORDS), len(stored))
    words = tuple(f"word{i}" for i in range(N_WORDS))
    return Tokens(words, stored, np.arange(0, len(stored) + 1, LENGTH))

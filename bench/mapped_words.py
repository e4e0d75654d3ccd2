"""Memory and time of training batches: words in memory and words in a mapped file.

    python bench/mapped_words.py [--documents 100000] [--length 100] [--words 50000]

Makes the tokens of random documents in a file. Prints, for both ways, the bytes of memory for each
word that are kept and at the peak (mapped pages not counted), and processor milliseconds of a batch
of 128 documents in random order.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from ontodex.features.tokens import Tokens
from ontodex.features.vocabulary import Vocabulary
from ontodex.models.layers.mapped_words import MappedWords
from ontodex.models.layers.ragged import Ragged

BATCH, BATCHES, MAX_LENGTH = 128, 100, 500
CPU = torch.device("cpu")


def measure(make: Callable[[], Ragged | MappedWords], n_tokens: int) -> list[float]:
    """Return bytes a word kept and at the peak, and milliseconds a batch."""
    tracemalloc.start()
    words = make()
    kept = tracemalloc.get_traced_memory()[0]
    random = np.random.default_rng(1)
    batches = [random.integers(0, len(words), BATCH) for _ in range(BATCHES)]
    words.pad(batches[0])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    started = time.process_time()
    for rows in batches:
        words.pad(rows)
    return [kept / n_tokens, peak / n_tokens, 1000 * (time.process_time() - started) / BATCHES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--length", type=int, default=100)
    parser.add_argument("--words", type=int, default=50_000)
    options = parser.parse_args()
    size = options.documents * options.length
    with tempfile.TemporaryDirectory() as folder:
        stored = np.memmap(Path(folder) / "ids", np.uint16, "w+", shape=size)
        stored[:] = np.random.default_rng(0).integers(0, options.words, size)
        names = tuple(f"word{i}" for i in range(options.words))
        tokens = Tokens(names, stored, np.arange(0, size + 1, options.length))
        vocabulary = Vocabulary.fit(tokens)
        ways: dict[str, Callable[[], Ragged | MappedWords]] = {
            "in memory": lambda: Ragged(vocabulary.encode(tokens, MAX_LENGTH), CPU),
            "mapped": lambda: MappedWords(tokens, vocabulary, MAX_LENGTH, CPU),
        }
        print("| words | bytes a word, kept | at the peak | ms a batch |\n|---|--:|--:|--:|")
        for name, make in ways.items():
            kept, peak, ms = measure(make, size)
            print(f"| {name} | {kept:.2f} | {peak:.2f} | {ms:.2f} |")


if __name__ == "__main__":
    main()

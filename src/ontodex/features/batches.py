"""Documents of similar length padded together. Numpy only; torch turns a `Batch` into tensors.

Promises: each document comes once an epoch; the order depends on the seed and the epoch alone, so
training resumes at any batch. No row is empty, as `Vocabulary.encode` leaves none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ontodex.features.vocabulary import PAD, Encoded

_POOL = 50  # batches' worth of documents sorted by length at a time: little padding, much chance

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Batch:
    """(n, t) ids padded at the end with 0, how many of them are real, which documents they are."""

    ids: NDArray[np.int32]
    lengths: NDArray[np.int64]
    rows: Rows

    def __len__(self) -> int:
        return len(self.rows)


def plan(lengths: Rows, size: int, *, seed: int, epoch: int) -> list[Rows]:
    """The documents of each batch of an epoch: shuffled, sorted by length within pools of batches,
    the batches shuffled again."""
    _check_size(size)
    random = np.random.default_rng([seed, epoch])
    shuffled = random.permutation(len(lengths))
    pools = [shuffled[i : i + size * _POOL] for i in range(0, len(shuffled), size * _POOL)]
    ordered = [pool[np.argsort(lengths[pool], kind="stable")] for pool in pools]
    batches = [pool[i : i + size] for pool in ordered for i in range(0, len(pool), size)]
    return [batches[i] for i in random.permutation(len(batches))]


def by_length(lengths: Rows, size: int, *, most_tokens: int | None = None) -> list[Rows]:
    """The documents of each batch when no order is asked for: the longest first, so that memory, if
    it is short, shows so at once. Documents times the longest of them stay within `most_tokens`,
    but that one document is always taken."""
    _check_size(size)
    order = np.argsort(-lengths, kind="stable")
    found: list[Rows] = []
    start = 0
    while start < len(order):
        n = size
        if most_tokens is not None:
            longest = max(1, int(lengths[order[start]]))
            n = max(1, min(size, most_tokens // longest))
        found.append(order[start : start + n])
        start += n
    return found


def training_batches(
    encoded: Encoded, size: int, *, seed: int, epoch: int, start: int = 0
) -> Iterator[Batch]:
    """The batches of one epoch from position `start` on."""
    for rows in plan(encoded.lengths, size, seed=seed, epoch=epoch)[start:]:
        yield pad(encoded, rows)


def inference_batches(encoded: Encoded, size: int) -> tuple[Iterator[Batch], Rows]:
    """Batches by length, and the inverse permutation: `np.concatenate(answers)[inverse]` is in the
    order of the corpus."""
    planned = by_length(encoded.lengths, size)
    order = np.concatenate([*planned, np.empty(0, np.int64)])
    inverse = np.empty_like(order)
    inverse[order] = np.arange(len(order))
    return (pad(encoded, rows) for rows in planned), inverse


def pad(encoded: Encoded, rows: Rows) -> Batch:
    """These documents side by side, as wide as the longest of them."""
    lengths = encoded.lengths[rows]
    ids = np.full((len(rows), int(lengths.max(initial=1))), PAD, dtype=np.int32)
    for i, row in enumerate(rows):
        ids[i, : lengths[i]] = encoded[int(row)]
    return Batch(ids, lengths, np.asarray(rows, dtype=np.int64))


def _check_size(size: int) -> None:
    if size < 1:
        raise ValueError(f"a batch holds at least 1 document, not {size}")

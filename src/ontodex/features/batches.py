"""Plans of batches with documents of similar length, so that there is little padding.

Each document comes once per epoch. The order depends on the seed and the epoch alone, so training
resumes at any batch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_POOL = 50  # batches whose documents are sorted by length together: little padding, random order

Rows = NDArray[np.int64]


def plan(lengths: Rows, size: int, *, seed: int, epoch: int) -> list[Rows]:
    """Return the documents of each batch of an epoch.

    Documents are shuffled and sorted by length within pools of batches; then the batches are
    shuffled.
    """
    _check_size(size)
    random = np.random.default_rng([seed, epoch])
    shuffled = random.permutation(len(lengths))
    pools = [shuffled[i : i + size * _POOL] for i in range(0, len(shuffled), size * _POOL)]
    ordered = [pool[np.argsort(lengths[pool], kind="stable")] for pool in pools]
    batches = [pool[i : i + size] for pool in ordered for i in range(0, len(pool), size)]
    return [batches[i] for i in random.permutation(len(batches))]


def batch_by_length(lengths: Rows, size: int, *, most_tokens: int | None = None) -> list[Rows]:
    """Return the documents of each batch, the longest first, for callers that need no order.

    So a lack of memory shows at once. The documents of a batch times the length of the longest are
    at most `most_tokens`, but a batch has at least one document.
    """
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


def _check_size(size: int) -> None:
    if size < 1:
        raise ValueError(f"a batch holds at least 1 document, not {size}")

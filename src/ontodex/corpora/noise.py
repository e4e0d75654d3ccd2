"""Add label noise to training labels, as in the experiments of Rank-AE.

    missing = r   each true label is dropped with probability r
    invalid = r   the same, and for about r of the labels of a document a false one is added
    flip = r      every bit, true or false, is flipped with probability r; for small label sets

With one seed, noise of a higher rate contains that of a lower one, so curves over r are smooth.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from scipy.sparse import csr_array

from ontodex.errors import ConfigError, DataError
from ontodex.types import Corpus, LabelSpace

Noise = Literal["missing", "invalid", "flip"]
NOISES: tuple[Noise, ...] = get_args(Noise)
MAX_BITS = 10**8  # random numbers that `flip` draws


def corrupt(
    gold: csr_array,
    *,
    missing: float = 0.0,
    invalid: float = 0.0,
    flip: float = 0.0,
    seed: int = 0,
) -> csr_array:
    """Return gold labels (documents x labels) with one kind of noise."""
    rates = {"missing": missing, "invalid": invalid, "flip": flip}
    for name, rate in rates.items():
        if not 0 <= rate <= 1:
            raise ConfigError(f"noise: {name} must be a rate in [0, 1], not {rate}")
    if np.count_nonzero(list(rates.values())) > 1:
        raise ConfigError("noise: give one of missing, invalid and flip (invalid drops labels too)")
    if flip:
        return _flip_labels(gold, flip, seed)
    kept = _drop_labels(gold, missing or invalid, seed)
    return csr_array(kept + _draw_false_labels(gold, invalid, seed)) if invalid else kept


def corrupt_corpus(corpus: Corpus, noise: Noise, rate: float, *, seed: int = 0) -> Corpus:
    """Return the documents with noisy labels; false labels are those of other documents."""
    labels = LabelSpace.of(corpus)
    gold = corrupt(labels.gold(corpus), **{noise: rate}, seed=seed)
    gold.sort_indices()
    names = np.array(labels.ids, dtype=object)[gold.indices]
    return corpus.with_labels([part.tolist() for part in np.split(names, gold.indptr[1:-1])])


def _drop_labels(gold: csr_array, rate: float, seed: int) -> csr_array:
    kept = csr_array(gold.copy())
    kept.data = kept.data * (np.random.default_rng([seed, 0]).random(gold.nnz) >= rate)
    kept.eliminate_zeros()
    return kept


def _draw_false_labels(gold: csr_array, rate: float, seed: int) -> csr_array:
    """Draw a false label for each true label, with probability `rate`."""
    random = np.random.default_rng([seed, 1])
    n_docs, n_labels = gold.shape
    indices, lengths = [np.empty(0, np.int64)], []
    for row in range(n_docs):
        true = gold.indices[gold.indptr[row] : gold.indptr[row + 1]]
        # Among 2 |y| different labels at least |y| are false, if there are so many labels.
        drawn = random.choice(n_labels, min(n_labels, 2 * len(true)), replace=False)
        false = drawn[~np.isin(drawn, true)][: len(true)]
        indices.append(false[random.random(len(true))[: len(false)] < rate])
        lengths.append(len(indices[-1]))
    columns = np.concatenate(indices)
    indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    return csr_array((np.ones(len(columns), gold.dtype), columns, indptr), shape=gold.shape)


def _flip_labels(gold: csr_array, rate: float, seed: int) -> csr_array:
    n_docs, n_labels = gold.shape
    if n_docs * n_labels > MAX_BITS:
        raise DataError(
            f"flip would draw a bit for each of {n_labels:,} labels of {n_docs:,} documents, and "
            "most labels of a document would be false",
            hint="use invalid, which adds as many false labels as it drops true ones",
        )
    flipped = np.random.default_rng([seed, 2]).random(gold.shape) < rate
    return csr_array((gold.toarray().astype(bool) ^ flipped).astype(gold.dtype))


__all__ = ["NOISES", "Noise", "corrupt", "corrupt_corpus"]

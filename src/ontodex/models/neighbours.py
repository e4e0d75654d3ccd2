"""What neighbours say: the nearest training documents of a document vote with their labels.

    score(l) = sum over neighbours i that have l of s_i^p / sum over all neighbours of s_i^p

Shared by the systems that remember documents; they differ in where "near" is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from ontodex.evaluate.ranking import ndcg_at
from ontodex.types import Corpus, LabelSpace, Ranking


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The nearest training documents of each document, nearest first."""

    docs: NDArray[np.int64]  # (n, k); -1 = there are no more
    similarity: NDArray[np.float32]  # (n, k), 0 = nothing in common

    def votes(self, k: int, exponent: float, n_train: int) -> csr_array:
        """(n, training documents): each neighbour's share of the vote."""
        docs = self.docs[:, :k]
        similarity = np.maximum(self.similarity[:, :k], 0) ** np.float32(exponent)
        similarity = np.where(docs >= 0, similarity, 0)
        total = similarity.sum(axis=1, keepdims=True)
        share = np.divide(similarity, total, out=np.zeros_like(similarity), where=total > 0)
        n, kept = share.shape
        indptr = np.arange(0, n * kept + 1, max(kept, 1)) if kept else np.zeros(n + 1, np.int64)
        places = np.maximum(docs, 0).ravel()  # where there is none, a share of 0 for the first
        return csr_array((share.ravel(), places, indptr), shape=(n, n_train))

    def without(self, own: NDArray[np.int64]) -> Neighbours:
        """One neighbour fewer each: not the document itself (n,), or else the last."""
        last = np.argsort(self.docs == own[:, None], axis=1, kind="stable")[:, :-1]
        return Neighbours(
            np.take_along_axis(self.docs, last, axis=1),
            np.take_along_axis(self.similarity, last, axis=1),
        )

    def vote(self, gold: csr_array, count: int, exponent: float, k: int) -> Ranking:
        """The k labels with the most votes of the first `count` neighbours; `gold` has the labels
        of the training documents."""
        scores = csr_array(self.votes(count, exponent, gold.shape[0]) @ gold)
        scores.data = np.minimum(scores.data, 1)  # shares may add up to a hair more
        scores.eliminate_zeros()
        return Ranking.of_sparse(scores, k)


def quality(gold: csr_array, ranking: Ranking) -> float:
    """Mean nDCG@5 of the documents that have labels; 0 if none has."""
    if not gold.nnz:
        return 0.0
    return float(np.nanmean(ndcg_at(5, gold, ranking)))


def best_vote(
    nearest: Neighbours,
    memory_gold: csr_array,
    dev_gold: csr_array,
    counts: Sequence[int],
    exponents: Sequence[float],
) -> tuple[int, float]:
    """Neighbours and exponent with the highest quality on dev, the first among equals."""

    def judged(choice: tuple[int, float]) -> float:
        return quality(dev_gold, nearest.vote(memory_gold, *choice, 5))

    return max(product(counts, exponents), key=judged)


def remembered(corpus: Corpus, labels: LabelSpace) -> csr_array:
    """(documents, all labels) as neighbours vote with it."""
    return csr_array(labels.gold(corpus)[:, : len(labels)].astype(np.float32))


def joined(old: csr_array, corpus: Corpus, labels: LabelSpace) -> csr_array:
    """The labels of old and new documents; `labels` may have columns that `old` has not."""
    wider = csr_array((old.data, old.indices, old.indptr), shape=(old.shape[0], len(labels)))
    return csr_array(vstack([wider, remembered(corpus, labels)], format="csr"))


__all__ = ["Neighbours", "best_vote", "joined", "quality", "remembered"]

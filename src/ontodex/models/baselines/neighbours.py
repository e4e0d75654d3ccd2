"""Predict labels from the nearest training documents, which vote with their own labels.

    score(l) = sum over neighbours i that have l of s_i^p / sum over all neighbours of s_i^p

s_i is the similarity of neighbour i and p the exponent. Shared by the systems that keep training
documents; they differ in how they measure similarity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from ontodex.evaluation.ranking import ndcg, score_documents
from ontodex.types import Corpus, LabelSpace, Ranking

MAX_EXPONENT = 1e4  # of a similarity


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The nearest training documents of each document, nearest first."""

    docs: NDArray[np.int64]  # (n, k); -1 = there are no more
    similarity: NDArray[np.float32]  # (n, k), 0 = nothing in common

    def weigh(self, k: int, exponent: float, n_train: int) -> csr_array:
        """Return (n, training documents): the share of the vote of each of k neighbours."""
        docs = self.docs[:, :k]
        similarity = np.maximum(self.similarity[:, :k], 0) ** np.float32(exponent)
        similarity = np.where(docs >= 0, similarity, 0)
        total = similarity.sum(axis=1, keepdims=True)
        share = np.divide(similarity, total, out=np.zeros_like(similarity), where=total > 0)
        n, kept = share.shape
        indptr = np.arange(0, n * kept + 1, max(kept, 1)) if kept else np.zeros(n + 1, np.int64)
        places = np.maximum(docs, 0).ravel()  # a missing neighbour: a share of 0 for document 0
        return csr_array((share.ravel(), places, indptr), shape=(n, n_train))

    def vote(self, gold: csr_array, count: int, exponent: float, k: int) -> Ranking:
        """Return the k labels with the most votes of the first `count` neighbours.

        `gold` has the labels of the training documents.
        """
        scores = csr_array(self.weigh(count, exponent, gold.shape[0]) @ gold)
        scores.data = np.minimum(scores.data, 1)  # rounding may bring a sum of shares above 1
        scores.eliminate_zeros()
        return Ranking.of_sparse(scores, k)

    def drop_self(self, own: NDArray[np.int64]) -> Neighbours:
        """Return one neighbour fewer each: without the document itself (n,), or else the last."""
        others = np.argsort(self.docs == own[:, None], axis=1, kind="stable")[:, :-1]
        return Neighbours(
            np.take_along_axis(self.docs, others, axis=1),
            np.take_along_axis(self.similarity, others, axis=1),
        )


def compute_ndcg(gold: csr_array, ranking: Ranking) -> float:
    """Return the mean nDCG@5 of the documents that have labels; 0 if none has."""
    if not gold.nnz:
        return 0.0
    return float(np.nanmean(score_documents(ndcg, 5, gold, ranking)))


def choose_vote(
    nearest: Neighbours,
    memory_gold: csr_array,
    dev_gold: csr_array,
    counts: Sequence[int],
    exponents: Sequence[float],
) -> tuple[int, float]:
    """Return the number of neighbours and the exponent with the highest nDCG@5 on dev.

    The first of equally good pairs is taken.
    """

    def evaluate(choice: tuple[int, float]) -> float:
        return compute_ndcg(dev_gold, nearest.vote(memory_gold, *choice, 5))

    return max(product(counts, exponents), key=evaluate)


def build_label_matrix(corpus: Corpus, labels: LabelSpace) -> csr_array:
    """Return (documents, all labels) as float32, as neighbours vote with it."""
    return csr_array(labels.gold(corpus)[:, : len(labels)].astype(np.float32))


def append_labels(old: csr_array, corpus: Corpus, labels: LabelSpace) -> csr_array:
    """Return the labels of old and new documents; `labels` may have columns that `old` lacks."""
    wider = csr_array((old.data, old.indices, old.indptr), shape=(old.shape[0], len(labels)))
    return csr_array(vstack([wider, build_label_matrix(corpus, labels)], format="csr"))

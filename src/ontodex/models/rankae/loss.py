"""The objective of Rank-AE (Eq. 1 to 4).

L = L_h + lambda L_ae      L_h = mean squared distance of x_h and y_h      L_ae = L_P + L_N
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from ontodex.models.rankae.network import RankAE

Reconstruction = Callable[[Tensor, Tensor], Tensor]  # L_ae of logits (n, l) and gold (n, l)


def compute_objective(
    network: RankAE,
    words: tuple[Tensor, ...],
    labels: tuple[Tensor, ...],
    gold: Tensor,
    *,
    reconstruct: Reconstruction,
    weight: float,
) -> tuple[Tensor, Tensor]:
    """Return the mean objective of a batch (Rank-AE, Eq. 1), and the embeddings x_h (n, d).

    `words` are ids, lengths and weights, `labels` the columns (n, g) of the true labels and their
    number (n,), `gold` (n, l) bool, `weight` lambda.
    """
    tokens, lengths, weights = words
    x = network.embed_words(network.weigh(tokens, weights), lengths)  # x_h (n, d)
    y = network.encode(*labels)  # y_h (n, d)
    l_h = F.mse_loss(x.float(), y.float())
    return l_h + weight * reconstruct(network.decode(y), gold), x


def compute_ranking_loss(logits: Tensor, gold: Tensor, margin: float) -> Tensor:
    """Return the mean over documents of L_ae (Rank-AE, Eq. 2)."""
    l_p, l_n = compute_margin_loss(logits.sigmoid(), gold, margin)
    return (l_p + l_n).mean()


def compute_margin_loss(scores: Tensor, gold: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """Return L_P and L_N, each (n,) (Rank-AE, Eq. 3 and 4), of scores (n, l) in [0, 1].

    The maxima over pairs in them need only the lowest true and the highest false score, so one pass
    over the labels is enough. Without true (or without false) labels both are 0.
    """
    lowest = scores.masked_fill(~gold, torch.inf).amin(1, keepdim=True)  # of the true labels
    highest = scores.masked_fill(gold, -torch.inf).amax(1, keepdim=True)  # of the false labels
    over_false = F.relu(margin + scores - lowest).masked_fill(gold, 0)
    over_true = F.relu(margin + highest - scores).masked_fill(~gold, 0)
    return over_false.sum(1), over_true.sum(1)


def compute_cross_entropy(logits: Tensor, gold: Tensor) -> Tensor:
    """Return the binary cross-entropy, summed over labels, averaged over documents."""
    total = F.binary_cross_entropy_with_logits(logits, gold.float(), reduction="sum")
    return total / len(gold)

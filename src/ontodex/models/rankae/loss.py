"""The objective of Rank-AE (Eq. 1 to 4).

L = L_h + lambda L_ae      L_h = mean squared distance of x_h and y_h      L_ae = L_P + L_N

Ours, not the paper's: the cross-entropy of the prediction D(x_h) may be added with a small weight.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from ontodex.models.rankae.network import RankAE, RankAEConfig


def compute_objective(
    network: RankAE,
    words: tuple[Tensor, ...],
    labels: tuple[Tensor, ...],
    gold: Tensor,
    config: RankAEConfig,
) -> Tensor:
    """Return the mean objective of a batch (Rank-AE, Eq. 1). `words` are ids, lengths and weights,
    `labels` the columns (n, g) of the true labels and their number (n,), `gold` (n, l) bool."""
    tokens, lengths, weights = words
    x = network.embed_words(network.weigh(tokens, weights), lengths)  # x_h (n, d)
    y = network.encode(*labels)  # y_h (n, d)
    l_h = F.mse_loss(x.float(), y.float())
    l_ae = compute_reconstruction_loss(network.decode(y), gold, config)
    total = l_h + config.reconstruction_weight * l_ae
    if config.direct_weight:
        total = total + config.direct_weight * compute_cross_entropy(network.decode(x), gold)
    return total


def compute_reconstruction_loss(logits: Tensor, gold: Tensor, config: RankAEConfig) -> Tensor:
    """Return the mean over documents of L_ae (Rank-AE, Eq. 2), or of the cross-entropy that the
    paper compares it with."""
    if config.loss == "bce":
        return compute_cross_entropy(logits, gold)
    l_p, l_n = compute_margin_loss(logits.sigmoid(), gold, config.margin)
    if config.margin_reduction == "sum":
        return (l_p + l_n).mean()
    n_true = gold.sum(1)
    return (l_p / (gold.shape[1] - n_true).clamp(min=1) + l_n / n_true.clamp(min=1)).mean()


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

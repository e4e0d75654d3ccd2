"""`autoencoder`: several label autoencoders, which also learn from the prediction itself.

Our variant of Rank-AE (models/rankae). Each side of the margin loss is a mean over its labels, and
the cross-entropy of the prediction D(F(x)) is added with a small weight. See
docs/papers/autoencoder.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ontodex.config import check_least, check_most, check_range, check_shares, check_widths
from ontodex.models.autoencoder.network import Ensemble
from ontodex.models.layers.ragged import Ragged
from ontodex.models.network_training import autocast
from ontodex.models.rankae.loss import (
    compute_cross_entropy,
    compute_margin_loss,
    compute_objective,
)
from ontodex.models.rankae.network import RankAE
from ontodex.models.rankae.system import LabelAutoencoderSystem
from ontodex.models.rankae.weighted_words import SetReader, WeightedWordsConfig
from ontodex.models.readers import Encoded
from ontodex.types.loop_config import AdamConfig


@dataclass(frozen=True)
class AutoencoderConfig(WeightedWordsConfig):
    """Settings of `autoencoder`."""

    width: int = 256  # of word vectors; pretrained ones may be narrower, the rest is learned
    hidden: int = 256  # of the common space
    label_hidden: int = 256  # units between the two layers of encoder and of decoder
    margin: float = 0.2  # by which a true label's score should exceed a false one's
    reconstruction_weight: float = 5.0  # of the margin loss against the distance of the embeddings
    direct_weight: float = 0.1  # of the cross-entropy of the prediction; 0 = none
    networks: int = 4  # trained side by side; a label's logit is the mean of theirs
    word_dropout: float = 0.2  # share of a document's words left out in a step
    dropout: float = 0.2  # in the decoder
    train: AdamConfig = field(  # type: ignore[assignment]
        default_factory=lambda: AdamConfig(epochs=15, batch_size=32, lr=3e-3, patience=5)
    )

    FORMER: ClassVar[tuple[str, ...]] = ("loss", "sides", "margin_reduction")
    input: ClassVar[str] = "set"
    attention: ClassVar[str] = "on"
    reduction: ClassVar[int] = 4  # of the channel attention
    pool: ClassVar[str] = "sum"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "hidden", "label_hidden", "networks")
        check_most(self, 1_000, "networks")
        check_widths(self, "hidden", "label_hidden")
        check_least(self, 0, "reconstruction_weight", "direct_weight")
        check_range(self, 0, 1, "margin")
        check_shares(self, "word_dropout", "dropout")


class AutoencoderSystem(LabelAutoencoderSystem):
    """Several label autoencoders; it reads text and features alike."""

    Config = AutoencoderConfig
    config: AutoencoderConfig

    def create_reader(self) -> SetReader:
        return SetReader(self.config)

    def build_network(self, log_odds: Tensor, vectors: Tensor | None) -> Ensemble:
        config = self.config
        return Ensemble(
            config.networks,
            len(self.reader),
            len(log_odds),
            vectors,
            width=config.width,
            hidden=config.hidden,
            label_hidden=config.label_hidden,
            word_dropout=config.word_dropout,
            dropout=config.dropout,
        )

    def get_networks(self) -> list[RankAE]:
        self.check_fitted()
        return list(self.network.parts)

    def compute_loss(self, rows: NDArray[np.int64], data: Encoded, gold: Ragged) -> Tensor:
        """Return the sum of the networks' losses, each the mean of these documents."""
        words, labels = data.pad(rows), gold.pad(rows)
        target = gold.to_multi_hot(rows, self.n_labels).bool()  # (n, l)
        with autocast(self.device):
            each = [self.compute_one_loss(n, words, labels, target) for n in self.get_networks()]
        return torch.stack(each).sum()

    def compute_one_loss(
        self,
        network: RankAE,
        words: tuple[Tensor, ...],
        labels: tuple[Tensor, ...],
        gold: Tensor,
    ) -> Tensor:
        """Return the objective of Rank-AE plus the weighted cross-entropy of the prediction."""
        config = self.config
        objective, x = compute_objective(
            network,
            words,
            labels,
            gold,
            reconstruct=lambda logits, true: compute_balanced_loss(logits, true, config.margin),
            weight=config.reconstruction_weight,
        )
        if not config.direct_weight:
            return objective
        return objective + config.direct_weight * compute_cross_entropy(network.decode(x), gold)


def compute_balanced_loss(logits: Tensor, gold: Tensor, margin: float) -> Tensor:
    """Return the mean over documents of the margin loss, each side divided by its labels.

    With the sums of the paper, the lowest true label would get as many pulls as there are false
    labels.
    """
    l_p, l_n = compute_margin_loss(logits.sigmoid(), gold, margin)
    n_true = gold.sum(1)
    return (l_p / (gold.shape[1] - n_true).clamp(min=1) + l_n / n_true.clamp(min=1)).mean()

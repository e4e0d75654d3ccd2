"""Settings of `rankae`: the values of the paper, and what was found on dev where it names none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ontodex.config import check_least, check_range, check_widths
from ontodex.models.rankae.network import Attention, Input
from ontodex.models.rankae.weighted_words import WeightedWordsConfig
from ontodex.types.loop_config import AdamConfig


@dataclass(frozen=True)
class RankAEConfig(WeightedWordsConfig):
    """Settings of `rankae`. The paper has hidden 200 for large label sets."""

    stop_words: str = ""  # language whose stop words are left out; none in the paper
    width: int = 100  # C, of word vectors
    input: Input = "set"  # words with TF-IDF, or the states of a BiLSTM over them
    attention: Attention = "on"  # the channel attention A; off: the paper's ablation
    reduction: int = 4  # r: A's inner layer has width / r units
    hidden: int = 100  # h, of the common space
    label_hidden: int = 100  # units between the two layers of encoder and of decoder
    loss: Literal["margin", "bce"] = "margin"  # L_ae; bce: the paper's ablation
    margin: float = 0.1  # m, by which a true label's score should exceed a false one's
    reconstruction_weight: float = 0.3  # lambda, of L_ae against the distance of the embeddings
    train: AdamConfig = field(  # type: ignore[assignment]
        default_factory=lambda: AdamConfig(
            epochs=20, batch_size=32, lr=3e-3, ema_rate=0.0, patience=5
        )
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "hidden", "label_hidden", "reduction")
        check_widths(self, "hidden", "label_hidden")
        check_least(self, 0, "reconstruction_weight")
        check_range(self, 0, 1, "margin")

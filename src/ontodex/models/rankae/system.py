"""Rank-AE: documents and label sets are embedded in one space and decoded with a ranking loss.

B. Wang, L. Chen, W. Sun, K. Qin, K. Li, H. Zhou, "Ranking-Based Autoencoder for Extreme Multi-label
Classification", NAACL 2019. What the paper leaves open, and how it was settled, is listed in
docs/papers/rankae.md. Our variant of it is `autoencoder`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ontodex.models.interface import Explains
from ontodex.models.layers.ragged import Ragged
from ontodex.models.network_training import autocast
from ontodex.models.rankae.config import RankAEConfig
from ontodex.models.rankae.loss import (
    Reconstruction,
    compute_cross_entropy,
    compute_objective,
    compute_ranking_loss,
)
from ontodex.models.rankae.network import ChannelAttention, RankAE
from ontodex.models.rankae.weighted_words import SequenceReader, SetReader
from ontodex.models.readers import Encoded
from ontodex.models.text_network import TextNetworkSystem
from ontodex.types import Corpus, Doc, LabelSpace
from ontodex.types.answers import Span


class LabelAutoencoderSystem(TextNetworkSystem, Explains):
    """An autoencoder of label sets: refitting and explanations.

    A subclass defines `get_networks` and `compute_loss`. `explain` uses gradients, `highlight` the
    paper's weights.
    """

    def get_networks(self) -> list[RankAE]:
        """Return the trained networks; a label's logit is the mean of theirs."""
        self.check_fitted()
        return [self.network]

    def refit(self, train: Corpus, labels: LabelSpace) -> None:
        """Train on these documents for as many epochs as dev found best; calibration stays
        (Rank-AE, section 3.1)."""
        self.fit_network(train, train.select([]), labels)

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        """Return gradient x input of the label's logit D(F(x)), at each word's vector."""
        networks, pieces = self.get_networks(), self.reader.locate_words(doc)
        if column >= self.n_labels or not pieces:
            return []
        words = self.encode(Corpus.of([doc])).pad(np.array([0]))
        each = torch.stack([attribute_logit(part, words, column) for part in networks])
        weights = each.mean(0).tolist()
        return [Span(p.start, p.end, p.weight * weights[p.place]) for p in pieces]

    def highlight(self, doc: Doc) -> Sequence[Span]:
        """Return the channel attention of each word, summed over channels, whatever the label
        (Rank-AE, section 3.4 and Figure 5)."""
        networks, pieces = self.get_networks(), self.reader.locate_words(doc)
        if not isinstance(networks[0].attend, ChannelAttention) or not pieces:
            return []
        words = self.encode(Corpus.of([doc])).pad(np.array([0]))
        weights = torch.stack([sum_attention(part, words) for part in networks]).mean(0).tolist()
        return [Span(p.start, p.end, weights[p.place]) for p in pieces]


class RankAESystem(LabelAutoencoderSystem):
    """Rank-AE as its paper has it; it reads text and features alike."""

    Config = RankAEConfig
    config: RankAEConfig

    def create_reader(self) -> SetReader | SequenceReader:
        is_sequence = self.config.input == "lstm"
        return SequenceReader(self.config) if is_sequence else SetReader(self.config)

    def build_network(self, log_odds: Tensor, vectors: Tensor | None) -> RankAE:
        config = self.config
        return RankAE(
            len(self.reader),
            len(log_odds),
            vectors,
            width=config.width,
            hidden=config.hidden,
            label_hidden=config.label_hidden,
            reduction=config.reduction,
            attention=config.attention,
            input=config.input,
        )

    def compute_loss(self, rows: NDArray[np.int64], data: Encoded, gold: Ragged) -> Tensor:
        """Return the mean objective of these documents (Rank-AE, Eq. 1)."""
        target = gold.to_multi_hot(rows, self.n_labels).bool()  # (n, l)
        with autocast(self.device):
            loss, _ = compute_objective(
                self.network,
                data.pad(rows),
                gold.pad(rows),
                target,
                reconstruct=self._reconstruction(),
                weight=self.config.reconstruction_weight,
            )
        return loss

    def _reconstruction(self) -> Reconstruction:
        is_margin = self.config.loss == "margin"
        ranking = partial(compute_ranking_loss, margin=self.config.margin)
        return ranking if is_margin else compute_cross_entropy


def attribute_logit(network: RankAE, words: tuple[Tensor, ...], column: int) -> Tensor:
    """Return (t,): gradient x input of a label's logit at each place of one document, for words of
    weight 1."""
    tokens, lengths, weights = words
    with torch.no_grad():
        e = network.words(tokens)  # (1, t, e)
    v = (e * weights[:, :, None]).requires_grad_()
    logit = network.decode(network.embed_words(v, lengths))[0, column]
    (gradient,) = torch.autograd.grad(logit, v)
    return (gradient * e).sum(-1)[0]


@torch.inference_mode()
def sum_attention(network: RankAE, words: tuple[Tensor, ...]) -> Tensor:
    """Return (t,): the channel attention at each place of one document, summed over channels."""
    tokens, lengths, weights = words
    v = network.context(network.weigh(tokens, weights), lengths)
    assert isinstance(network.attend, ChannelAttention)
    return network.attend.weights(v).sum(-1)[0]

"""Averaged embeddings, one-vs-all: the simplest network there is, as in fastText (Joulin et al.
2017).

    features ─ weighted sum of their vectors ─ one linear unit a label ─ sigmoid
     (n, m)              (n, e)                       (n, l)

The weights are TF-IDF (text) or the features' own values, scaled to length 1 in each document.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.config import build, check_least, check_shares
from ontodex.decide.calibrate import Calibration
from ontodex.errors import DataError, RunError
from ontodex.features import batches
from ontodex.features.matrix import MatrixConfig, MatrixFeatures
from ontodex.models.neighbours import quality
from ontodex.models.neural import Ragged, log_odds
from ontodex.models.sparse_input import (
    Rows,
    SparseInput,
    SparseLinear,
    load_network,
    long_table,
    save_network,
)
from ontodex.models.sparse_rows import CALIBRATION_RANKS, as_rows, load_about, save_about
from ontodex.train import loop
from ontodex.train.loop import LoopConfig
from ontodex.types import Corpus, LabelSpace, Ranking

_RANKED_TOGETHER = 256


@dataclass(frozen=True)
class AveragedConfig(MatrixConfig):
    """Settings of `averaged`; the features' settings are among them."""

    size: int = 300  # of a feature's vector
    input_dropout: float = 0.3  # of a document's features
    train: LoopConfig = field(default_factory=lambda: LoopConfig(epochs=30, lr=5e-3, patience=5))

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "size")
        check_shares(self, "input_dropout")


class AveragedNetwork(nn.Module):
    """One hidden layer without a non-linearity."""

    def __init__(self, config: AveragedConfig, n_features: int, log_odds: Tensor) -> None:
        super().__init__()
        self.drop = nn.Dropout(config.input_dropout)
        by_row = long_table(n_features, config.train)
        self.mean = SparseLinear(n_features, config.size, typical_length=1.0, by_row=by_row)
        self.output = nn.Linear(config.size, len(log_odds))
        with torch.no_grad():
            self.output.bias.copy_(log_odds)

    def forward(self, columns: Tensor, starts: Tensor, values: Tensor) -> Tensor:
        x = self.mean(columns, starts, self.drop(values))  # (n, e)
        return self.output(x)  # (n, l)  # fmt: skip


class Averaged:
    """A floor for networks: what they add to it is their worth."""

    Config = AveragedConfig

    def __init__(self, config: AveragedConfig, *, device: str = "cpu") -> None:
        self.config, self.device = config, torch.device(device)
        self.work: Path | None = None  # where checkpoints go, when training may be resumed
        self.features = MatrixFeatures(config)
        self.network: AveragedNetwork | None = None
        self.epochs = config.train.epochs
        self.calibration = Calibration.none()

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        self.epochs = self.config.train.epochs
        self._learn(train, dev, labels)
        if len(dev):
            ranking = self._rank(self._input(dev), CALIBRATION_RANKS)
            self.calibration = Calibration.fit(ranking, labels.gold(dev))

    def refit(self, train: Corpus, labels: LabelSpace) -> None:
        """As many epochs as dev found best, on these documents."""
        self._learn(train, train.select([]), labels)

    def _learn(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        if not labels.n_seen:
            raise DataError("no training document has a label", path=train.folder)
        settings = self.config.train
        data = SparseInput(as_rows(self.features.fit(train)), self.device)
        gold = Ragged.of_gold(labels.gold(train), labels.n_seen, self.device)
        dev_data, dev_gold = self._input(dev), labels.gold(dev)
        torch.manual_seed(settings.seed)
        odds = log_odds(labels)
        network = AveragedNetwork(self.config, self.features.n_features, odds).to(self.device)
        self.network = network

        def plan(epoch: int) -> list[Rows]:
            return batches.plan(data.lengths, settings.batch, seed=settings.seed, epoch=epoch)

        def loss(rows: Rows) -> Tensor:
            target = gold.multi_hot(rows, labels.n_seen)
            logits = network(*data.batch(rows))
            return F.binary_cross_entropy_with_logits(logits, target, reduction="sum") / len(rows)

        choosing = dev_gold.nnz > 0
        state = loop.fit(
            network,
            batches=plan,
            loss=loss,
            config=settings,
            score=(lambda: quality(dev_gold, self._rank(dev_data, 5))) if choosing else None,
            folder=self.work,
            stop=self.epochs,
        )
        if choosing:
            self.epochs = state.best_epoch + 1
        # Rounded now, so that what is saved in half precision is exactly what ranks from here on.
        network.half().float().eval()

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        self._fitted()
        return self.calibration.apply(self._rank(self._input(corpus), k))

    def _input(self, corpus: Corpus) -> SparseInput:
        return SparseInput(as_rows(self.features.transform(corpus)), self.device)

    def _rank(self, data: SparseInput, k: int) -> Ranking:
        network = self._fitted()
        kept = min(k, network.output.out_features)
        parts = []
        with torch.inference_mode():
            for start in range(0, len(data), _RANKED_TOGETHER):
                rows = np.arange(start, min(start + _RANKED_TOGETHER, len(data)))
                best, which = network(*data.batch(rows)).sigmoid().topk(kept, dim=1)
                parts.append(Ranking.sort(which.cpu().numpy(), best.cpu().numpy(), k))
        return Ranking.join(parts, k)

    def _fitted(self) -> AveragedNetwork:
        if self.network is None:
            raise RunError("averaged was asked before it was fitted")
        return self.network

    def save(self, folder: Path) -> None:
        save_network(folder, self._fitted())
        self.features.save(folder)
        save_about(folder, self.config, self.calibration, epochs=self.epochs)

    @classmethod
    def load(cls, folder: Path, labels: LabelSpace, *, device: str = "cpu") -> Self:
        about = load_about(folder)
        model = cls(build(AveragedConfig, about["config"], "model"), device=device)
        model.features = MatrixFeatures.load(folder)
        model.calibration, model.epochs = about["calibration"], int(about["epochs"])
        odds = torch.zeros(labels.n_seen)
        network = AveragedNetwork(model.config, model.features.n_features, odds)
        load_network(folder, network)
        model.network = network.to(model.device).eval()
        return model

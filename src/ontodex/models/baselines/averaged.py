"""Averaged embeddings with one linear unit for each label, as in fastText (Joulin et al. 2017).

    features ─ weighted sum of their vectors ─ linear layer ─ sigmoid
     (n, m)              (n, e)                  (n, l)

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

from ontodex.config import build, check_least, check_shares, check_widths
from ontodex.decide.calibrate import Calibration
from ontodex.errors import DataError, UntrainedError
from ontodex.features.matrix import MatrixConfig, MatrixFeatures
from ontodex.models.baselines.model_json import ModelJson, load_model_json, save_model_json
from ontodex.models.baselines.neighbours import compute_ndcg
from ontodex.models.baselines.sparse_rows import CALIBRATION_RANKS, to_csr
from ontodex.models.layers.ragged import Ragged
from ontodex.models.layers.sparse_input import (
    Rows,
    SparseInput,
    SparseLinear,
    needs_row_updates,
)
from ontodex.models.network_training import DEV_RANKS, compute_log_odds, train_network
from ontodex.models.weights import load_network, save_network
from ontodex.types import Corpus, LabelSpace, Ranking
from ontodex.types.loop_config import NetworkLoopConfig

_RANK_BATCH = 256


@dataclass(frozen=True)
class AveragedConfig(MatrixConfig):
    """Settings of `averaged`, including those of its features."""

    size: int = 300  # dimensions of a feature's vector
    input_dropout: float = 0.3  # share of a document's features
    train: NetworkLoopConfig = field(
        default_factory=lambda: NetworkLoopConfig(epochs=30, lr=5e-3, patience=5)
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "size")
        check_widths(self, "size")
        check_shares(self, "input_dropout")


@dataclass(frozen=True)
class _AveragedJson(ModelJson):
    """The fields of model.json."""

    epochs: int


class AveragedNetwork(nn.Module):
    """A linear hidden layer and a linear output layer."""

    def __init__(self, config: AveragedConfig, n_features: int, log_odds: Tensor) -> None:
        super().__init__()
        self.drop = nn.Dropout(config.input_dropout)
        by_row = needs_row_updates(n_features, config.train)
        self.mean = SparseLinear(n_features, config.size, input_norm=1.0, by_row=by_row)
        self.output = nn.Linear(config.size, len(log_odds))
        with torch.no_grad():
            self.output.bias.copy_(log_odds)

    def forward(self, columns: Tensor, starts: Tensor, values: Tensor) -> Tensor:
        x = self.mean(columns, starts, self.drop(values))  # (n, e)
        return self.output(x)  # (n, l)  # fmt: skip


class AveragedSystem:
    """A linear network on sparse features: the baseline of the other networks."""

    Config = AveragedConfig

    def __init__(self, config: AveragedConfig, *, device: str = "cpu") -> None:
        self.config, self.device = config, torch.device(device)
        self.work: Path | None = None  # folder of checkpoints; None: training cannot be resumed
        self.features = MatrixFeatures(config)
        self.network: AveragedNetwork | None = None
        self.epochs = config.train.epochs
        self.calibration = Calibration.identity()

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        self.epochs = self.config.train.epochs
        self._train(train, dev, labels)
        if len(dev):
            ranking = self._rank(self._encode(dev), CALIBRATION_RANKS)
            self.calibration = Calibration.fit(ranking, labels.gold(dev))

    def refit(self, train: Corpus, labels: LabelSpace) -> None:
        """Train on these documents for the number of epochs that was best on dev."""
        self._train(train, train.select([]), labels)

    def _train(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        if not labels.n_seen:
            raise DataError("no training document has a label", path=train.folder)
        settings = self.config.train
        data = SparseInput(to_csr(self.features.fit(train)), self.device)
        gold = Ragged.of_gold(labels.gold(train), labels.n_seen, self.device)
        dev_data, dev_gold = self._encode(dev), labels.gold(dev)
        torch.manual_seed(settings.seed)
        odds = compute_log_odds(labels)
        network = AveragedNetwork(self.config, self.features.n_features, odds).to(self.device)
        self.network = network

        def loss(rows: Rows) -> Tensor:
            target = gold.to_multi_hot(rows, labels.n_seen)
            logits = network(*data.batch(rows))
            return F.binary_cross_entropy_with_logits(logits, target, reduction="sum") / len(rows)

        self.epochs = train_network(
            network,
            data.lengths,
            loss,
            settings,
            score=lambda: compute_ndcg(dev_gold, self._rank(dev_data, DEV_RANKS)),
            has_dev=dev_gold.nnz > 0,
            folder=self.work,
            epochs=self.epochs,
        )

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        self._require_network()
        return self.calibration.apply(self._rank(self._encode(corpus), k))

    def _encode(self, corpus: Corpus) -> SparseInput:
        return SparseInput(to_csr(self.features.transform(corpus)), self.device)

    def _rank(self, data: SparseInput, k: int) -> Ranking:
        network = self._require_network()
        kept = min(k, network.output.out_features)
        parts = []
        with torch.inference_mode():
            for start in range(0, len(data), _RANK_BATCH):
                rows = np.arange(start, min(start + _RANK_BATCH, len(data)))
                best, which = network(*data.batch(rows)).sigmoid().topk(kept, dim=1)
                parts.append(Ranking.sort(which.cpu().numpy(), best.cpu().numpy(), k))
        return Ranking.join(parts, k)

    def _require_network(self) -> AveragedNetwork:
        if self.network is None:
            raise UntrainedError("averaged")
        return self.network

    def save(self, folder: Path) -> None:
        save_network(folder, "network", self._require_network())
        self.features.save(folder)
        save_model_json(folder, self.config, self.calibration, epochs=self.epochs)

    @classmethod
    def load(cls, folder: Path, labels: LabelSpace, *, device: str = "cpu") -> Self:
        about = load_model_json(folder, _AveragedJson)
        model = cls(build(AveragedConfig, about.config, "model"), device=device)
        model.features = MatrixFeatures.load(folder)
        model.calibration, model.epochs = about.calibration, about.epochs
        with torch.device("meta"):  # saves the memory and time of weights that are read next
            odds = torch.zeros(labels.n_seen)
            network = AveragedNetwork(model.config, model.features.n_features, odds)
        load_network(folder, "network", network)
        model.network = network.to(model.device).eval()
        return model

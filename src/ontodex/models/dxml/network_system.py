"""A `NeighbourSystem` whose embedding is a network over sparse features."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from ontodex.errors import UntrainedError
from ontodex.models.baselines.neighbours import compute_ndcg
from ontodex.models.baselines.sparse_rows import to_csr
from ontodex.models.dxml.clusters import search_all
from ontodex.models.dxml.neighbour_system import NeighbourSystem
from ontodex.models.dxml.targets import Floats
from ontodex.models.layers.sparse_input import Rows, SparseInput, compute_row_norm
from ontodex.models.network_training import train_network
from ontodex.models.weights import load_network, save_network
from ontodex.types import Corpus, LabelSpace

_EMBED_BATCH = 1_024


class NetworkNeighbourSystem(NeighbourSystem):
    """A subclass builds its network, which has `forward`, `loss` and `project_onto`."""

    def __init__(self, config: Any, *, device: str = "cpu") -> None:
        super().__init__(config, device=device)
        self.work: Path | None = None  # folder of checkpoints; None: training cannot be resumed
        self.network: Any = None
        self.chosen = replace(self.chosen, epochs=config.train.epochs)

    @abstractmethod
    def build_network(self, n_features: int, size: int, input_norm: float) -> Any:
        """Return an untrained network from features to embeddings of this size."""

    def get_seed(self) -> int:
        seed: int = self.config.train.seed
        return seed

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        self.chosen = replace(self.chosen, epochs=self.config.train.epochs)
        super().fit(train, dev, labels)

    def learn_embedding(
        self, rows: csr_array, targets: Floats, dev: Corpus, dev_gold: csr_array
    ) -> Floats:
        """Train the network; the epoch with the best neighbours of dev documents wins."""
        data, dev_rows = SparseInput(rows, self.device), self.features.transform(dev)
        torch.manual_seed(self.get_seed())
        size = (self.features.n_features, targets.shape[1], compute_row_norm(rows))
        self.network = network = self.build_network(*size).to(self.device)
        target = torch.from_numpy(targets).to(self.device)
        dev_data = SparseInput(to_csr(dev_rows), self.device)

        def loss(rows: Rows) -> Tensor:
            at = torch.from_numpy(rows).to(self.device, non_blocking=True)
            found: Tensor = network.loss(*data.batch(rows), target[at])
            return found

        epochs = train_network(
            network,
            data.lengths,
            loss,
            self.config.train.to_loop(),
            score=self._score_neighbours(data, dev_data, dev_gold),
            has_dev=dev_gold.nnz > 0,
            folder=self.work,
            epochs=self.chosen.epochs,
        )
        self.chosen = replace(self.chosen, epochs=epochs)
        return self._embed(data)

    def _score_neighbours(
        self, data: SparseInput, dev_data: SparseInput, dev_gold: csr_array
    ) -> Callable[[], float]:
        """Return the function that computes nDCG@5 of dev with its nearest training documents."""
        k, exponent = self.chosen.neighbours, self.chosen.exponent

        def score() -> float:
            nearest = search_all(self._embed(dev_data), self._embed(data), k, self.device)
            return compute_ndcg(dev_gold, nearest.vote(self.gold, k, exponent, 5))

        return score

    def embed_rows(self, rows: csr_array) -> Floats:
        return self._embed(SparseInput(rows, self.device))

    def _embed(self, data: SparseInput) -> Floats:
        network = self._require_network().eval()
        order = np.arange(len(data))
        with torch.inference_mode():
            parts = [
                network(*data.batch(order[i : i + _EMBED_BATCH])).cpu().numpy()
                for i in range(0, len(order), _EMBED_BATCH)
            ]
        return np.concatenate([np.empty((0, network.size), np.float32), *parts])

    def differentiate(self, row: csr_array, direction: Floats) -> csr_array:
        columns, starts, values = SparseInput(row, self.device).batch(np.array([0]))
        values.requires_grad_()
        network, towards = self._require_network().eval(), torch.from_numpy(direction)
        component = network.project_onto(columns, starts, values, towards.to(self.device))
        (gradient,) = torch.autograd.grad(component, values)
        found = (gradient.cpu().numpy(), columns.cpu().numpy(), np.array([0, len(columns)]))
        return csr_array(found, shape=row.shape)

    def _require_network(self) -> Any:
        if self.network is None:
            raise UntrainedError(type(self).__name__)
        return self.network

    def save_embedding(self, folder: Path) -> None:
        save_network(folder, "network", self._require_network())

    def load_embedding(self, folder: Path) -> None:
        with torch.device("meta"):  # saves the memory and time of weights that are read next
            size = self.memory.vectors.shape[1]
            network = self.build_network(self.features.n_features, size, 1.0)
        load_network(folder, "network", network)
        self.network = network.to(self.device).eval()

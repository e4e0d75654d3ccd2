"""The network of DXML (Figure 1): embeds a document from its features.

features ─ W1, ReLU ─ W2, dropout ─ L2 norm = f_x
 (n, m)     (n, d)      (n, e)       (n, e)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.config import check_most, check_shares, check_widths
from ontodex.features.label_graph import LabelGraphConfig
from ontodex.features.matrix import MatrixConfig
from ontodex.models.baselines.landmarks import LandmarkConfig
from ontodex.models.layers.sparse_input import SparseLinear, needs_row_updates
from ontodex.types.loop_config import LoopConfig


@dataclass(frozen=True)
class DxmlConfig(LabelGraphConfig, LandmarkConfig, MatrixConfig):
    """Settings of `dxml`; those of the paper are in experiments/paper/dxml.toml."""

    whiten_labels: bool = True  # centre and whiten label vectors before they are averaged
    unit_targets: bool = True  # scale f_y to length 1, as f_x is
    embedding: Literal["network", "kernel"] = "network"  # kernel: for small corpora
    hidden: int = 512  # units of W1
    networks: int = 8  # trained together; the embedding of a document is the mean of theirs
    activation: Literal["relu", "none", "both"] = "relu"  # none: the paper's linear ablation
    input_dropout: float = 0.5  # share of a document's features
    hidden_dropout: float = 0.0  # after W1
    dropout: float = 0.5  # after W2
    neighbours: int = 0  # 0 = the best of a few on dev (20 without dev)
    exponent: float = -1.0  # of a neighbour's similarity, 0 = the plain mean; below 0 = by dev (20)
    clusters: int = 0  # number of clusters; 0 = the root of the number of documents
    probe: int = 0  # clusters searched; 0 = as few as dev allows (8 without dev)
    train: LoopConfig = field(default_factory=lambda: LoopConfig(epochs=30, patience=8))

    def __post_init__(self) -> None:
        LabelGraphConfig.__post_init__(self)
        MatrixConfig.__post_init__(self)
        LandmarkConfig.__post_init__(self)
        if self.hidden < 1 or self.networks < 1:
            raise ValueError("hidden and networks must be at least 1")
        check_most(self, 1_000, "networks")
        check_widths(self, "hidden")
        check_shares(self, "input_dropout", "hidden_dropout", "dropout")
        if min(self.neighbours, self.clusters, self.probe) < 0:
            raise ValueError("neighbours, clusters and probe must not be negative")


# Taken in turn by the networks of an ensemble: those of `both` make different errors.
ACTIVATIONS: dict[str, tuple[type[nn.Module], ...]] = {
    "relu": (nn.ReLU,),
    "none": (nn.Identity,),
    "both": (nn.Identity, nn.ReLU),
}


class EmbeddingNetwork(nn.Module):
    """The feature branch of Figure 1: f_x of a document."""

    def __init__(
        self, config: DxmlConfig, n_features: int, size: int, length: float, activation: nn.Module
    ) -> None:
        super().__init__()
        by_row = needs_row_updates(n_features, config.train)
        self.first = SparseLinear(n_features, config.hidden, input_norm=length, by_row=by_row)
        self.activation = activation
        self.second = nn.Linear(config.hidden, size)
        self.drop_input = nn.Dropout(config.input_dropout)
        self.drop_hidden = nn.Dropout(config.hidden_dropout)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, columns: Tensor, starts: Tensor, values: Tensor) -> Tensor:
        return F.normalize(self.embed_unnormalised(columns, starts, values), dim=1)  # (n, e)

    def embed_unnormalised(self, columns: Tensor, starts: Tensor, values: Tensor) -> Tensor:
        """Return the output of the network before the L2 norm, (n, e)."""
        h = self.activation(self.first(columns, starts, self.drop_input(values)))  # (n, d)  W1
        return self.drop(self.second(self.drop_hidden(h)))  # (n, e)  W2  # fmt: skip


class EmbeddingEnsemble(nn.Module):
    """Several networks trained on the same targets; f_x is the mean of their embeddings."""

    def __init__(self, config: DxmlConfig, n_features: int, size: int, length: float) -> None:
        super().__init__()
        self.size = size
        kinds = ACTIVATIONS[config.activation]
        self.parts = nn.ModuleList(
            EmbeddingNetwork(config, n_features, size, length, kinds[i % len(kinds)]())
            for i in range(config.networks)
        )

    def forward(self, columns: Tensor, starts: Tensor, values: Tensor) -> Tensor:
        mean = torch.stack([part(columns, starts, values) for part in self.parts]).mean(0)
        return F.normalize(mean, dim=1)  # (n, e)

    def project_onto(
        self, columns: Tensor, starts: Tensor, values: Tensor, direction: Tensor
    ) -> Tensor:
        """Return the component of the embedding in a direction (1, e), with its length held fixed.

        The cosine would not do: it has no gradient where a vector has the direction already.
        """
        parts = cast(list[EmbeddingNetwork], list(self.parts))
        found = [part.embed_unnormalised(columns, starts, values) for part in parts]
        return torch.stack([(z / z.detach().norm() * direction).sum() for z in found]).mean()

    def loss(self, columns: Tensor, starts: Tensor, values: Tensor, target: Tensor) -> Tensor:
        """Return the mean over documents of d(f_x, f_y) (Eq. 1 to 3), summed over networks."""
        losses = [
            F.smooth_l1_loss(part(columns, starts, values), target, reduction="sum")
            for part in self.parts
        ]
        return torch.stack(losses).sum() / len(target)

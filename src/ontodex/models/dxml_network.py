"""The network of DXML (001, Figure 1): where a document lies, from its features alone.

features ─ W1, ReLU ─ W2, dropout ─ L2 norm = f_x
 (n, m)     (n, d)      (n, e)       (n, e)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.config import check_shares
from ontodex.features.label_graph import LabelGraphConfig
from ontodex.features.matrix import MatrixConfig
from ontodex.models.landmarks import LandmarkConfig
from ontodex.models.sparse_input import SparseLinear, long_table
from ontodex.train.loop import LoopConfig


@dataclass(frozen=True)
class DxmlConfig(LabelGraphConfig, LandmarkConfig, MatrixConfig):
    """Defaults are what won on dev; the paper's: experiments/paper/dxml.toml."""

    spread: bool = True  # label vectors are centred and whitened before they are averaged
    unit_targets: bool = True  # f_y is scaled to length 1, as f_x is
    embedding: Literal["network", "kernel"] = "network"  # kernel: for small corpora
    hidden: int = 512  # units of W1
    networks: int = 8  # trained side by side; a document lies at the mean of their embeddings
    activation: Literal["relu", "none", "both"] = "relu"  # none: the paper's linear ablation
    input_dropout: float = 0.5  # of a document's features
    hidden_dropout: float = 0.0  # after W1
    dropout: float = 0.5  # after W2
    neighbours: int = 0  # 0 = the best of a few on dev (20 without dev)
    exponent: float = -1.0  # of a neighbour's similarity, 0 = the plain mean; below 0 = by dev (20)
    clusters: int = 0  # 0 = the root of the number of documents
    probe: int = 0  # clusters looked into; 0 = as few as dev allows (8 without dev)
    train: LoopConfig = field(default_factory=lambda: LoopConfig(epochs=30, patience=8))

    def __post_init__(self) -> None:
        LabelGraphConfig.__post_init__(self)
        MatrixConfig.__post_init__(self)
        LandmarkConfig.__post_init__(self)
        if self.hidden < 1 or self.networks < 1:
            raise ValueError("hidden and networks must be at least 1")
        check_shares(self, "input_dropout", "hidden_dropout", "dropout")
        if min(self.neighbours, self.clusters, self.probe) < 0:
            raise ValueError("neighbours, clusters and probe must not be negative")


# In turn over the networks of a committee: those of `both` err in different ways.
ACTIVATIONS: dict[str, tuple[type[nn.Module], ...]] = {
    "relu": (nn.ReLU,),
    "none": (nn.Identity,),
    "both": (nn.Identity, nn.ReLU),
}


class Embedding(nn.Module):
    """The feature branch of Figure 1."""

    def __init__(
        self, config: DxmlConfig, n_features: int, size: int, length: float, activation: nn.Module
    ) -> None:
        super().__init__()
        by_row = long_table(n_features, config.train)
        self.first = SparseLinear(n_features, config.hidden, typical_length=length, by_row=by_row)
        self.activation = activation
        self.second = nn.Linear(config.hidden, size)
        self.drop_input = nn.Dropout(config.input_dropout)
        self.drop_hidden = nn.Dropout(config.hidden_dropout)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, columns: Tensor, starts: Tensor, values: Tensor) -> Tensor:
        return F.normalize(self.before_norm(columns, starts, values), dim=1)  # (n, e)

    def before_norm(self, columns: Tensor, starts: Tensor, values: Tensor) -> Tensor:
        h = self.activation(self.first(columns, starts, self.drop_input(values)))  # (n, d)  W1
        return self.drop(self.second(self.drop_hidden(h)))  # (n, e)  W2  # fmt: skip


class Committee(nn.Module):
    """Several embeddings of one document, all pulled to the same place; f_x is their mean."""

    def __init__(self, config: DxmlConfig, n_features: int, size: int, length: float) -> None:
        super().__init__()
        self.size = size
        kinds = ACTIVATIONS[config.activation]
        self.parts = nn.ModuleList(
            Embedding(config, n_features, size, length, kinds[i % len(kinds)]())
            for i in range(config.networks)
        )

    def forward(self, columns: Tensor, starts: Tensor, values: Tensor) -> Tensor:
        mean = torch.stack([part(columns, starts, values) for part in self.parts]).mean(0)
        return F.normalize(mean, dim=1)  # (n, e)

    def pulled(self, columns: Tensor, starts: Tensor, values: Tensor, pull: Tensor) -> Tensor:
        """How far documents lie in a direction (1, e), their lengths taken as given: of a vector
        that points there already, no word could change the cosine."""
        parts = cast(list[Embedding], list(self.parts))
        found = [part.before_norm(columns, starts, values) for part in parts]
        return torch.stack([(z / z.detach().norm() * pull).sum() for z in found]).mean()

    def loss(self, columns: Tensor, starts: Tensor, values: Tensor, target: Tensor) -> Tensor:
        """The mean over documents of d(f_x, f_y) (Eq. 1 to 3), summed over the networks."""
        apart = [
            F.smooth_l1_loss(part(columns, starts, values), target, reduction="sum")
            for part in self.parts
        ]
        return torch.stack(apart).sum() / len(target)

"""The network of DXML (Figure 1): embeds a document from its features.

features ─ W1, ReLU ─ W2, dropout ─ L2 norm = f_x
 (n, m)     (n, d)      (n, e)       (n, e)
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.models.layers.sparse_input import SparseLinear

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "none": nn.Identity}
Activation = Literal["relu", "none"]  # none: the paper's linear ablation


class EmbeddingNetwork(nn.Module):
    """The feature branch of Figure 1: f_x of a document."""

    def __init__(
        self,
        n_features: int,
        hidden: int,
        size: int,
        *,
        input_norm: float,
        dropout: float,
        activation: Activation = "relu",
        by_row: bool = False,
    ) -> None:
        super().__init__()
        self.size = size
        self.first = SparseLinear(n_features, hidden, input_norm=input_norm, by_row=by_row)
        self.activation = ACTIVATIONS[activation]()
        self.second = nn.Linear(hidden, size)
        self.drop = nn.Dropout(dropout)

    def forward(self, columns: Tensor, starts: Tensor, values: Tensor) -> Tensor:
        return F.normalize(self.embed_unnormalised(columns, starts, values), dim=1)  # (n, e)

    def embed_unnormalised(self, columns: Tensor, starts: Tensor, values: Tensor) -> Tensor:
        """Return the output of the network before the L2 norm, (n, e)."""
        h = self.activation(self.first(columns, starts, values))  # (n, d)  W1
        return self.drop(self.second(h))  # (n, e)  W2  # fmt: skip

    def project_onto(
        self, columns: Tensor, starts: Tensor, values: Tensor, direction: Tensor
    ) -> Tensor:
        """Return the component of the embedding in a direction (1, e), with its length held fixed.

        The cosine would not do: it has no gradient where a vector has the direction already.
        """
        z = self.embed_unnormalised(columns, starts, values)
        return (z / z.detach().norm() * direction).sum()

    def loss(self, columns: Tensor, starts: Tensor, values: Tensor, target: Tensor) -> Tensor:
        """Return the mean over documents of d(f_x, f_y) (Eq. 1 and 2)."""
        f_x = self(columns, starts, values)
        return F.smooth_l1_loss(f_x, target, reduction="sum") / len(target)


def start_small(network: EmbeddingNetwork, input_norm: float) -> None:
    """Draw small initial weights: first outputs of about 0.05, and W2 within 0.01.

    For Bibtex these are the uniform weights within 0.01 that MXNet, the paper's library, draws by
    default. The embedding has length 1, so that small weights mean large steps at first.
    """
    with torch.no_grad():
        for weight, bound in (
            (network.first.weight, 0.083 / max(input_norm, 1e-6)),
            (network.second.weight, 0.01),
        ):
            weight.uniform_(-bound, bound)
        network.second.bias.zero_()

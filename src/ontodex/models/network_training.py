"""Training of networks by the one loop, shared by all systems that have a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ontodex.features import batches
from ontodex.types import LabelSpace
from ontodex.types.loop_config import LoopConfig

if TYPE_CHECKING:
    from ontodex.training.label_shards import LabelShards

DEV_RANKS = 5  # ranks of the dev score, nDCG@5
DEV_DEPTH = 50  # ranks of a dev document that calibration uses
ROUNDED_ROWS = 2**16  # of a table, rounded at once

Rows = NDArray[np.int64]


def train_network(
    network: nn.Module,
    lengths: Rows,
    loss: Callable[[Rows], Tensor],
    settings: LoopConfig,
    *,
    score: Callable[[], float],
    has_dev: bool,
    folder: Path | None = None,
    epochs: int | None = None,
    epoch_metrics: Callable[[], Mapping[str, float]] | None = None,
    rates: Mapping[str, float] | None = None,
    shards: LabelShards | None = None,
) -> int:
    """Train a network; return the number of epochs up to the best dev score.

    `lengths` are those of the training documents, `loss(rows)` is the mean loss of some of them.
    `score()` is computed after every epoch where dev has labels (`has_dev`); else all `epochs` run.
    `rates` are factors of the learning rate by the beginning of a parameter's name. `shards` tells
    which parameters are rows of this process's labels.
    """
    from ontodex.training import loop  # here: loading a run and ranking need no training code

    def plan(epoch: int) -> list[Rows]:
        return batches.plan(lengths, settings.batch_size, seed=settings.seed, epoch=epoch)

    state = loop.fit(
        network,
        batches=plan,
        loss=loss,
        config=settings,
        score=score if has_dev else None,
        folder=folder,
        epoch_metrics=epoch_metrics,
        stop=epochs,
        rates=rates or {},
        shards=shards,
    )
    # Rounded now, so that the network ranks with exactly the fp16 weights that are saved.
    round_weights(network)
    network.eval()
    return state.best_epoch + 1 if has_dev else epochs or settings.epochs


@torch.no_grad()
def round_weights(network: nn.Module) -> None:
    """Round all weights to what fp16 can hold, a slice at a time: a large table has no copy."""
    for tensor in (*network.parameters(), *network.buffers()):
        if tensor.is_floating_point():
            for part in torch.atleast_1d(tensor).split(ROUNDED_ROWS):
                part.copy_(part.half())


def autocast(device: torch.device) -> AbstractContextManager[Any]:
    """Compute in bf16 on a GPU, in fp32 elsewhere."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda")


def compute_log_odds(labels: LabelSpace) -> Tensor:
    """Return (l,): the log-odds of each seen label in training, the bias a network starts from."""
    share = (labels.frequency[: labels.n_seen] + 0.5) / (labels.n_docs + 1)
    return torch.from_numpy(np.log(share / (1 - share))).float()

"""Predictions of the networks of all levels: for each level its best labels of every document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ontodex.decide.ofo import OFO
from ontodex.features import batches
from ontodex.io.tensors import (
    MAX_WEIGHT,
    Sizes,
    TensorSpec,
    load_tensors,
    save_tensors,
    weight_spec,
)
from ontodex.models.levelwise.levels import Level
from ontodex.models.levelwise.network import LevelNetworks
from ontodex.models.levelwise.streams import Rows, Streams
from ontodex.models.levelwise.thresholds import Thresholds
from ontodex.models.network_training import autocast
from ontodex.models.weights import load_network, save_network
from ontodex.types import Ranking

# Numbers in the largest tensor of a level when a batch is predicted: attention (labels, documents,
# tokens) or values (documents, labels, values). 2 GiB on a GPU; three such tensors live at a time.
MAX_NUMBERS = 2**30

_OFO_SPECS = {
    "thresholds": TensorSpec(("labels",), minimum=0, maximum=MAX_WEIGHT),
    "alpha": TensorSpec(("labels",), "int", minimum=0, maximum=2**53),
    "beta": TensorSpec(("labels",), "int", minimum=0, maximum=2**53),
    "start": TensorSpec((2,), minimum=0, maximum=MAX_WEIGHT),
    "at_level": TensorSpec(("labels",), minimum=0, maximum=MAX_WEIGHT),
    "moves": weight_spec(("levels",)),  # logit shifts, under their name of version 0.1
}


@dataclass(frozen=True, eq=False)
class Pass:
    """The trained networks of a pass with their thresholds."""

    network: LevelNetworks
    ofo: OFO  # learned from all training documents
    at_level: Thresholds  # (l,), learned level by level as in the paper
    logit_shifts: NDArray[np.float64]  # one per level, added to the logits of new documents

    @property
    def thresholds(self) -> Thresholds:
        return self.ofo.thresholds

    def save(self, folder: Path, number: int) -> None:
        """Write the weights and thresholds of the pass."""
        save_network(folder, f"pass{number}", self.network)
        arrays = {**self.ofo.to_arrays(), "at_level": self.at_level, "moves": self.logit_shifts}
        save_tensors(folder, f"ofo{number}", arrays)

    @classmethod
    def load(
        cls,
        folder: Path,
        number: int,
        network: LevelNetworks,
        sizes: Sizes,
        device: torch.device,
    ) -> Pass:
        """Read the files that `save` wrote; the weights go into `network`."""
        arrays = load_tensors(folder, f"ofo{number}", _OFO_SPECS, sizes)
        load_network(folder, f"pass{number}", network)
        network = network.to(device).eval()
        return cls(network, OFO.from_arrays(arrays), arrays["at_level"], arrays["moves"])


class Batch:
    """Some documents as input of the networks.

    Keywords and neighbour labels are embedded once for all levels. So are words where one encoder
    serves all levels, or a GPU runs the encoders of all levels together.
    """

    def __init__(self, network: LevelNetworks, data: Streams, rows: Rows) -> None:
        self._network, self._data, self._rows = network, data, rows
        self._words = network.encode_words_together(data.words.pad(rows))
        self._sets = network.embed_sets(data.pad_sets(rows))

    def compute_logits(self, index: int, inside: Rows) -> Tensor:
        """Return the logits (n, l) of a level for the documents at these positions of the batch."""
        at, sets = None, self._sets
        if len(inside) < len(self._rows):
            at = torch.from_numpy(inside).to(self._data.words.device, non_blocking=True)
            sets = {name: (x[at], lengths[at]) for name, (x, lengths) in sets.items()}
        if self._words:
            words = self._words[index].take(at)
        else:
            words = self._network.encode_words(index, self._data.words.pad(self._rows[inside]))
        logits: Tensor = self._network(index, words, sets)
        return logits.float()


def predict(
    network: LevelNetworks,
    levels: Sequence[Level],
    data: Streams,
    rows: Rows | None,
    depth: int,
    device: torch.device,
) -> list[Ranking]:
    """Return, for each level, its best `depth` labels of these documents (None: all)."""
    rows = np.arange(len(data.words)) if rows is None else rows
    size, room = 512 if device.type == "cuda" else 8, MAX_NUMBERS // max(map(len, levels))
    planned = batches.batch_by_length(
        data.words.lengths[rows], max(1, min(size, room // network.value_dim)), most_tokens=room
    )
    kept = [min(depth, len(level)) for level in levels]
    found: list[list[tuple[Tensor, ...]]] = [[] for _ in levels]
    with torch.inference_mode():
        for some in planned:
            with autocast(device):
                batch = Batch(network, data, rows[some])
                every = np.arange(len(some))
                logits = [batch.compute_logits(index, every) for index in range(len(levels))]
            for index, one in enumerate(logits):
                found[index].append(tuple(one.sigmoid().topk(kept[index], dim=1)))
    back = np.argsort(np.concatenate([*planned, np.empty(0, np.int64)]), kind="stable")
    return [
        _build_ranking(one, level, k, back)
        for one, level, k in zip(found, levels, kept, strict=True)
    ]


def _build_ranking(
    found: Sequence[tuple[Tensor, ...]], level: Level, kept: int, order: Rows
) -> Ranking:
    """Copy the best labels of all batches from the device at once, in the order of the rows."""
    if not found:
        return Ranking(np.empty((0, kept), np.int64), np.empty((0, kept), np.float32))
    values, which = (torch.cat(part).cpu().numpy()[order] for part in zip(*found, strict=True))
    return Ranking.sort(level.columns[which], values, kept)

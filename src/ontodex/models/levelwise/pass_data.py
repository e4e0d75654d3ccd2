"""The data that the networks of a pass are trained from: streams, targets and vector tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from ontodex.models.layers.ragged import Ragged
from ontodex.models.levelwise.levels import Level, select_level_gold
from ontodex.models.levelwise.network import Tables
from ontodex.models.levelwise.streams import Rows, Streams
from ontodex.types import Corpus


class Targets:
    """The gold labels of every level, and the documents that each level is trained on.

    With `all_documents` a level is trained on documents without a label there too.
    """

    def __init__(
        self, levels: Sequence[Level], golds: Mapping[int, csr_array], *, all_documents: bool
    ) -> None:
        self.levels = levels
        self.local = [select_level_gold(golds[level.number], level) for level in levels]
        self.is_used = [all_documents | (np.diff(gold.indptr) > 0) for gold in self.local]

    def to_device(self, device: torch.device) -> list[Ragged]:
        """Return the gold labels of each level on a device."""
        return [
            Ragged.of_gold(gold, len(level), device)
            for gold, level in zip(self.local, self.levels, strict=True)
        ]

    def initial_logits(self, rows: Rows) -> list[Tensor]:
        """Return, for each level, the log-odds of its labels in the documents it is trained on."""
        logits = []
        for gold, is_used in zip(self.local, self.is_used, strict=True):
            used = rows[is_used[rows]]
            counts = np.bincount(gold[used].indices, minlength=gold.shape[1])
            share = (counts + 0.5) / (len(used) + 1)
            logits.append(torch.from_numpy(np.log(share / (1 - share))).float())
        return logits


@dataclass(frozen=True, eq=False)
class PassData:
    """Everything that a pass is trained from."""

    train: Corpus
    dev: Corpus
    streams: Streams
    dev_streams: Streams
    targets: Targets
    dev_targets: Targets
    at_level: Mapping[int, csr_array]  # gold of each level, without added ancestors
    gold: csr_array  # the same for all levels together: (documents, learned labels)
    dev_gold: csr_array
    tables: Tables

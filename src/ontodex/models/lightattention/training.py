"""Training of the levels of a label tree (LightAttention, Algorithm 2), and their recall.

    for each step: encode ─ search the levels with the true nodes added ─ sum of the levels' losses

LightAttention adds level after level from the top: the levels above stay in training, since all
share words and encoder. Our variant trains all levels at once. Negatives of a level are children of
the best nodes above: of the current network in each step (dynamic), or of the network that had been
trained down to the level above, once for each document (static).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import csr_array
from torch import Tensor

from ontodex.features import batches
from ontodex.models.baselines.neighbours import compute_ndcg
from ontodex.models.layers.ragged import Ragged
from ontodex.models.layers.words import token_mask
from ontodex.models.lightattention.beam_search import NONE, LevelScores, search_levels
from ontodex.models.lightattention.network import TreeNetwork
from ontodex.models.network_training import DEV_RANKS, Rows, autocast, train_network
from ontodex.models.readers import Encoded
from ontodex.models.text_network import BestLabels, ranking_batch_size
from ontodex.types import Ranking
from ontodex.types.loop_config import LoopConfig


class LevelTrainer:
    """Trains the levels of a tree network; counts how many true labels the generators find."""

    def __init__(
        self,
        settings: LoopConfig,
        network: TreeNetwork,
        data: Encoded,
        gold: Ragged,
        dev_data: Encoded,
        dev_gold: csr_array,
        rates: Mapping[str, float] | None = None,
    ) -> None:
        self.settings, self.network, self.rates = settings, network, rates
        self.data, self.gold, self.dev_data, self.dev_gold = data, gold, dev_data, dev_gold
        self.n_levels = len(network.levels)
        self.depth = self.n_levels  # levels in training now
        self.static_parents: list[Tensor] = []  # (documents, b) of levels 1, 2, ...
        self.n_found = self.n_positives = torch.zeros(())
        self.dev_recall: float | None = None

    def train_top_down(self, folder: Path | None, *, static_negatives: bool) -> None:
        """Train level after level; checkpoints of earlier levels go into folders of their own."""
        for depth in range(1, self.n_levels + 1):
            if static_negatives and depth > 1:
                self.static_parents.append(self._draw_parents(depth - 1))
            is_last = depth == self.n_levels
            self.train(folder if is_last or folder is None else folder / f"level-{depth}", depth)

    def train(self, folder: Path | None, depth: int) -> None:
        """Train the levels down to a depth together."""
        self.depth = depth
        train_network(
            self.network,
            self.data.lengths,
            self.compute_loss,
            self.settings,
            score=self.score_dev,
            has_dev=self.dev_gold.nnz > 0,
            folder=folder,
            epoch_metrics=self.epoch_metrics,
            rates=self.rates,
        )

    def _draw_parents(self, level: int) -> Tensor:
        """Return the static parents (documents, b) of a level."""
        return find_best_nodes(self.network, self.data, level, self.static_parents)

    def compute_loss(self, rows: Rows) -> Tensor:
        """Return the sum of the losses of the levels in training, the mean over documents."""
        total = torch.zeros((), device=self.data.device)
        with autocast(self.data.device):
            encoded = self.network.encode_documents(*self.data.pad(rows))
            parents = select_rows(self.static_parents, rows, self.data.device)
            positives = pad_places(self.network, self.gold, rows)  # (n, g)
            levels = search_levels(self.network, encoded, positives, parents)
            for scores in islice(levels, self.depth):
                total = total + F.binary_cross_entropy_with_logits(
                    scores.logits,
                    scores.is_true.float(),
                    scores.is_candidate.float(),
                    reduction="sum",
                )
        self.n_found = self.n_found + scores.is_reached.sum()
        self.n_positives = self.n_positives + int(self.gold.lengths[rows].sum())
        return total / len(rows)

    def score_dev(self) -> float:
        """Return nDCG@5 on dev; while no labels are trained, the recall of the trained levels."""
        if self.depth < self.n_levels:
            self.dev_recall = measure_recall(self.network, self.dev_data, self.dev_gold, self.depth)
            return self.dev_recall
        device = self.dev_data.device
        gold = Ragged.of_gold(
            self.dev_gold, len(self.network.get_buffer("place_of_column")), device
        )
        n_found = torch.zeros((), device=device)
        columns = np.full((len(self.dev_data), DEV_RANKS), NONE)
        values = np.zeros(columns.shape, np.float32)
        for rows in batches.batch_by_length(self.dev_data.lengths, ranking_batch_size(device)):
            positives = pad_places(self.network, gold, rows)
            scores = search_batch(self.network, self.dev_data.pad(rows), self.depth, positives)
            n_found += scores.is_reached.sum()
            best = pick_labels(self.network, scores, DEV_RANKS)
            columns[rows] = best.columns.cpu().numpy()
            values[rows] = best.probabilities.cpu().numpy()
        self.dev_recall = float(n_found) / max(1, int(gold.lengths.sum()))
        return compute_ndcg(self.dev_gold, Ranking.sort(columns, values, DEV_RANKS))

    def epoch_metrics(self) -> dict[str, float]:
        """Return the generators' recall, the share of true labels among the candidates, in the
        epoch's training batches and on dev; start counting again."""
        from ontodex.training.distributed import sum_over_processes  # predicting needs no training

        counts = torch.stack([self.n_found.float(), self.n_positives.float()])
        n_found, n_positives = sum_over_processes(counts)
        recall = float(n_found / n_positives.clamp(min=1))
        self.n_found = self.n_positives = torch.zeros((), device=self.data.device)
        dev = {} if self.dev_recall is None else {"dev_generator_recall": round(self.dev_recall, 4)}
        return {"generator_recall": round(recall, 4), **dev}


def search_batch(
    network: TreeNetwork,
    batch: tuple[Any, ...],
    level: int,
    positives: Tensor | None = None,
    parents: Sequence[Tensor] | None = None,
) -> LevelScores:
    """Return the scored candidates of a level for a batch, without dropout or gradients."""
    network.eval()
    with torch.inference_mode(), autocast(network.get_buffer("place_of_column").device):
        encoded = network.encode_documents(*batch)
        *_, last = islice(search_levels(network, encoded, positives, parents), level)
    return last


def pick_labels(network: TreeNetwork, scores: LevelScores, k: int) -> BestLabels:
    """Return the k best candidate labels of each document; -1 where there are fewer."""
    places, log_p = scores.best(k)
    columns = network.get_buffer("column_of_place")[places.clamp(min=0)]
    columns = columns.masked_fill(places == NONE, NONE)
    pad = (0, k - columns.shape[1])
    return BestLabels(F.pad(log_p.exp(), pad), F.pad(columns, pad, value=NONE))


def pad_places(network: TreeNetwork, gold: Ragged, rows: Rows) -> Tensor:
    """Return (n, g): the places of these documents' true labels in the tree, padded with NONE."""
    columns, lengths = gold.pad(rows)
    places = network.get_buffer("place_of_column")[columns]
    return torch.where(token_mask(columns, lengths), places, NONE)


def select_rows(parents: Sequence[Tensor], rows: Rows, device: torch.device) -> list[Tensor] | None:
    """Return the static parents of these documents; None where negatives are dynamic."""
    at = torch.from_numpy(rows)
    return [nodes[at].to(device) for nodes in parents] or None


def find_best_nodes(
    network: TreeNetwork, data: Encoded, level: int, parents: Sequence[Tensor] = ()
) -> Tensor:
    """Return (documents, b): the best nodes of a level, below `parents` where these are given."""
    beam = network.beams[level - 1]
    planned = batches.batch_by_length(data.lengths, ranking_batch_size(data.device))
    found = []
    for rows in planned:
        fixed = select_rows(parents, rows, data.device)
        scores = search_batch(network, data.pad(rows), level, parents=fixed)
        found.append(scores.best(beam)[0].cpu())
    best = torch.empty_like(torch.cat(found))
    best[torch.from_numpy(np.concatenate(planned))] = torch.cat(found)
    return best


def measure_recall(network: TreeNetwork, data: Encoded, gold: csr_array, level: int) -> float:
    """Return the share of true labels below the best b nodes of a level."""
    place_of_column = network.get_buffer("place_of_column").cpu()
    gold = csr_array(gold[:, : len(place_of_column)])
    if level == 0 or not gold.nnz:
        return 1.0
    best = find_best_nodes(network, data, level).numpy()
    document = np.repeat(np.arange(len(data)), np.diff(gold.indptr))
    places = place_of_column[torch.from_numpy(gold.indices.astype(np.int64))]
    node = network.get_buffer(f"node_of_place_{level}").cpu()[places].numpy()
    return float(np.mean((best[document] == node[:, None]).any(axis=1)))

"""Training all levels together, and predictions for the training documents out of fold.

pass 1   words and keywords                        folds: networks that never saw a document
pass 2   and the labels that pass 1 predicts        predict it, so that no later stage learns
         at the levels above and below              from labels a network has memorised
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from ontodex.decide.ofo import OFO
from ontodex.errors import RunError
from ontodex.evaluate.ranking import ndcg_at
from ontodex.features import batches
from ontodex.features.vocabulary import Encoded
from ontodex.models.level_decide import DEPTH, Thresholds, mean_odds
from ontodex.models.level_network import (
    LevelNetworks,
    LevelwiseConfig,
    Stream,
    Tables,
)
from ontodex.models.level_pieces import Arrays, Pieces
from ontodex.models.level_plan import Level, local_gold
from ontodex.models.neural import DEV_RANKS, Ragged
from ontodex.train import loop
from ontodex.types import PADDING, Corpus, Ranking

logger = logging.getLogger(__name__)

Rows = NDArray[np.int64]

# Numbers of one level in a batch that is predicted: attention (labels, documents, tokens) or what
# labels read (documents, labels, values). 2 GiB on a GPU, and three such tensors live at a time.
MOST_NUMBERS = 2**30
NORM_BATCHES = 20  # batches over which the figures of batch norm are measured again


@dataclass(frozen=True, eq=False)
class Streams:
    """What the networks read of some documents; without `neighbours`, pass 1."""

    words: Ragged
    keywords: Ragged | None = None
    neighbours: Sequence[Ragged] | None = None  # for each level, the labels predicted at it

    def sets(self, rows: Rows) -> dict[str | int, Stream]:
        """Keywords, and by the place of a level the labels predicted at it, padded."""
        found: dict[str | int, Ragged] = dict(enumerate(self.neighbours or ()))
        if self.keywords is not None:
            found["keywords"] = self.keywords
        return {name: ragged.padded(rows) for name, ragged in found.items()}


class Batch:
    """Some documents in front of the networks. What levels have in common is read once: keywords
    and predicted labels, and words where a reader serves all levels in one go."""

    def __init__(self, network: LevelNetworks, data: Streams, rows: Rows) -> None:
        self._network, self._data, self._rows = network, data, rows
        self._told = network.read_at_once(data.words.padded(rows))
        self._sets = network.read_sets(data.sets(rows))

    def logits(self, place: int, inside: Rows) -> Tensor:
        """(n, l): those of a level for the documents at these places of the batch."""
        at, sets = None, self._sets
        if len(inside) < len(self._rows):
            at = torch.from_numpy(inside).to(self._data.words.device, non_blocking=True)
            sets = {name: (x[at], lengths[at]) for name, (x, lengths) in sets.items()}
        if self._told:
            told = self._told[place].take(at)
        else:
            told = self._network.read(place, self._data.words.padded(self._rows[inside]))
        logits: Tensor = self._network(place, told, sets)
        return logits.float()


def neighbour_streams(chosen: Sequence[Ranking], most: int, device: torch.device) -> list[Ragged]:
    """For each level, the labels predicted at it, best first, as rows of the label table."""
    return [Ragged(encode_labels(ranking.cut(most)), device) for ranking in chosen]


def encode_labels(ranking: Ranking) -> Encoded:
    """Column j as id j + 1; a document without a label has an empty row."""
    filled = ranking.columns != PADDING
    offsets = np.concatenate([[0], np.cumsum(filled.sum(axis=1))]).astype(np.int64)
    return Encoded(ranking.columns[filled] + 1, offsets)


class Targets:
    """The gold of every level, and which documents teach it."""

    def __init__(
        self, levels: Sequence[Level], golds: Mapping[int, csr_array], *, every: bool
    ) -> None:
        self.levels = levels
        self.local = [local_gold(golds[level.number], level) for level in levels]
        self.teaches = [every | (np.diff(gold.indptr) > 0) for gold in self.local]

    def on(self, device: torch.device) -> list[Ragged]:
        return [
            Ragged.of_gold(gold, len(level), device)
            for gold, level in zip(self.local, self.levels, strict=True)
        ]

    def start(self, rows: Rows) -> list[Tensor]:
        """For each level, the log-odds of its labels in the documents that teach it."""
        odds = []
        for gold, teaches in zip(self.local, self.teaches, strict=True):
            chosen = rows[teaches[rows]]
            counts = np.bincount(gold[chosen].indices, minlength=gold.shape[1])
            share = (counts + 0.5) / (len(chosen) + 1)
            odds.append(torch.from_numpy(np.log(share / (1 - share))).float())
        return odds


@dataclass(frozen=True, eq=False)
class Stage:
    """What a pass is trained from."""

    train: Corpus
    dev: Corpus
    streams: Streams
    dev_streams: Streams
    targets: Targets
    dev_targets: Targets
    at_level: Mapping[int, csr_array]  # the gold of each level, never expanded
    gold: csr_array  # the same of all levels: (documents, learned labels)
    dev_gold: csr_array
    tables: Tables


@dataclass(frozen=True, eq=False)
class Trainer:
    """One pass: everything that its networks, of all folds, have in common."""

    config: LevelwiseConfig
    levels: Sequence[Level]
    tables: Tables
    data: Streams
    targets: Targets
    dev: Streams
    dev_targets: Targets
    device: torch.device

    def network(self, rows: Rows) -> LevelNetworks:
        torch.manual_seed(self.config.train.seed)
        start = self.targets.start(rows)
        return LevelNetworks(self.config, self.levels, self.tables, start).to(self.device)

    def fit(
        self, rows: Rows, folder: Path | None, title: str, earlier: Arrays | None = None
    ) -> LevelNetworks:
        """The networks of all levels, trained together on these documents; from those of pass 1 on
        where their weights are given."""
        network = self.network(rows)
        settings = self.config.train
        if earlier is not None:
            network.continue_from(earlier)
            settings = dataclasses.replace(
                settings,
                epochs=self.config.second_epochs,
                lr=settings.lr * self.config.second_lr,
            )

        def score() -> float:
            self.measure_norms(network, rows)
            return self.dev_score(network)

        def hold() -> None:
            if self.config.row_norm:
                network.hold_rows(self.config.row_norm)

        has_dev = any(gold.nnz for gold in self.dev_targets.local)
        loop.fit(
            network,
            batches=partial(self.plan, rows),
            loss=self.losses(network),
            config=settings,
            score=score if has_dev else None,
            folder=folder,
            after_step=hold,
            title=title,
        )
        self.measure_norms(network, rows)
        network.half().float().eval()  # what is saved in half precision is what predicts
        return network

    def plan(self, rows: Rows, epoch: int) -> list[Rows]:
        """The batches of these documents in an epoch."""
        settings, lengths = self.config.train, self.data.words.lengths[rows]
        planned = batches.plan(lengths, settings.batch, seed=settings.seed, epoch=epoch)
        return [rows[batch] for batch in planned]

    def losses(self, network: LevelNetworks) -> Callable[[Rows], Tensor]:
        """The mean loss of some documents over all levels, as a function of them (Eq. 1)."""
        gold = self.targets.on(self.device)

        def loss(rows: Rows) -> Tensor:
            # Where no document of a batch teaches any level, the gradients are 0.
            parts = [0 * network.level(0).bias.sum()]
            with precision(self.device):
                batch = Batch(network, self.data, rows)
            for place, level in enumerate(self.levels):
                inside = np.flatnonzero(self.targets.teaches[place][rows])
                if len(inside):
                    with precision(self.device):
                        logits = batch.logits(place, inside)
                        target = gold[place].multi_hot(rows[inside], len(level))
                        parts.append(
                            F.binary_cross_entropy_with_logits(logits, target, reduction="sum")
                        )
            return torch.stack(parts).sum() / len(rows)  # summed over labels

        return loss

    def measure_norms(self, network: LevelNetworks, rows: Rows) -> None:
        """Batch norm's figures anew: those gathered in training are of weights that have moved on,
        and were averaged. A level is measured with documents that teach it: of a rare one, batches
        of all documents may hold none."""
        norms = [
            m for m in network.modules() if isinstance(m, torch.nn.BatchNorm1d) and m.num_features
        ]
        network.eval()
        if not norms:
            return
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # a plain mean over the batches
            norm.train()
        with torch.no_grad(), precision(self.device):
            for places, taught in self.taught_alike(rows):
                for some in self.plan(taught, 0)[:NORM_BATCHES]:
                    batch = Batch(network, self.data, some)
                    for place in places:
                        batch.logits(place, np.arange(len(some)))
        for norm in norms:
            norm.momentum = 0.1  # the plain mean asks the device how many batches it has seen
        network.eval()

    def taught_alike(self, rows: Rows) -> list[tuple[list[int], Rows]]:
        """Places of levels that the same of these documents teach, and these documents."""
        found: dict[bytes, list[int]] = {}
        for place, teaches in enumerate(self.targets.teaches):
            found.setdefault(teaches[rows].tobytes(), []).append(place)
        return [(places, rows[np.frombuffer(key, bool)]) for key, places in found.items()]

    def dev_score(self, network: LevelNetworks) -> float:
        """nDCG@5, the mean over the levels, of dev documents that have labels there."""
        rankings = predict(network, self.levels, self.dev, None, DEV_RANKS, self.device)
        scores = []
        for gold, level, ranking in zip(self.dev_targets.local, self.levels, rankings, strict=True):
            own = np.diff(gold.indptr) > 0
            if own.any():
                wide = csr_array(
                    (gold.data, level.columns[gold.indices], gold.indptr),
                    shape=(gold.shape[0], int(level.columns[-1]) + 1),
                )
                scores.append(ndcg_at(DEV_RANKS, csr_array(wide[own]), ranking.take(own)).mean())
        return float(np.mean(scores))


def precision(device: torch.device) -> AbstractContextManager[Any]:
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda")


def predict(
    network: LevelNetworks,
    levels: Sequence[Level],
    data: Streams,
    rows: Rows | None,
    depth: int,
    device: torch.device,
) -> list[Ranking]:
    """For each level, its best `depth` labels of these documents (None: all)."""
    rows = np.arange(len(data.words)) if rows is None else rows
    size, room = 512 if device.type == "cuda" else 8, MOST_NUMBERS // max(map(len, levels))
    planned = batches.by_length(
        data.words.lengths[rows], max(1, min(size, room // network.value)), most_tokens=room
    )
    kept = [min(depth, len(level)) for level in levels]
    found: list[list[tuple[Tensor, ...]]] = [[] for _ in levels]
    with torch.inference_mode():
        for some in planned:
            with precision(device):
                batch = Batch(network, data, rows[some])
                logits = [batch.logits(place, np.arange(len(some))) for place in range(len(levels))]
            for place, one in enumerate(logits):
                found[place].append(tuple(one.sigmoid().topk(kept[place], dim=1)))
    back = np.argsort(np.concatenate([*planned, np.empty(0, np.int64)]), kind="stable")
    return [
        _ranking(one, level, k, back) for one, level, k in zip(found, levels, kept, strict=True)
    ]


def _ranking(found: Sequence[tuple[Tensor, ...]], level: Level, kept: int, order: Rows) -> Ranking:
    """The best labels of all batches, brought from the device at once, in the order of rows."""
    if not found:
        return Ranking(np.empty((0, kept), np.int64), np.empty((0, kept), np.float32))
    values, which = (torch.cat(part).cpu().numpy()[order] for part in zip(*found, strict=True))
    return Ranking.sort(level.columns[which], values, kept)


def fold_of(n_docs: int, folds: int, seed: int) -> NDArray[np.int64]:
    """The fold of each document, of near-equal sizes."""
    order = np.random.default_rng(seed).permutation(n_docs)
    fold = np.empty(n_docs, dtype=np.int64)
    fold[order] = np.arange(n_docs) % folds
    return fold


@dataclass(frozen=True, eq=False)
class Crossed:
    """The networks of a pass, trained on all documents, and for each level the predictions for
    them by networks that were trained without their fold; and weights."""

    network: LevelNetworks
    out_of_fold: list[Ranking]
    # Of the networks of all documents, then of those without a fold, where they are kept.
    weights: Sequence[Arrays]


def cross_fit(
    trainer: Trainer,
    pieces: Pieces,
    name: str,
    earlier: Sequence[Arrays] = (),
    *,
    keep: bool,
) -> Crossed:
    """Train a pass; from the weights of an earlier one on where they are given. `keep` those of the
    folds where a later pass may go on from them."""
    config, n_docs = trainer.config, len(trainer.data.words)
    everything, fold = np.arange(n_docs), fold_of(n_docs, config.folds, config.train.seed)
    starts: Sequence[Arrays | None] = earlier or [None] * (1 + config.folds)
    shown = f"{name}, levels {trainer.levels[0].number} to {trainer.levels[-1].number}"

    def whole(folder: Path | None) -> Arrays:
        title = pieces.title(f"{shown}, all documents")
        return weights_of(trainer.fit(everything, folder, title, starts[0]))

    weights = [pieces.get(name, whole)]
    network = restore(trainer.network(everything), weights[0])

    def of_fold(number: int, folder: Path | None) -> Arrays:
        """What networks trained without a fold say of it, and they themselves."""
        title = pieces.title(f"{shown}, fold {number + 1} of {config.folds}")
        inside, outside = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
        own = network  # a corpus of one document has nothing outside its fold
        if len(outside):
            own = trainer.fit(outside, folder, title, starts[number + 1])
        found = predict(own, trainer.levels, trainer.data, inside, DEPTH, trainer.device)
        said = {
            f"{kind}.{place}": array
            for place, ranking in enumerate(found)
            for kind, array in (("columns", ranking.columns), ("p", ranking.probabilities))
        }
        return {**said, **(weights_of(own) if keep else {})}

    parts = [
        pieces.get(f"{name} fold {number + 1}", partial(of_fold, number))
        for number in np.unique(fold).tolist()
    ]
    back = np.argsort(np.argsort(fold, kind="stable"))  # from fold by fold to the corpus
    said = [
        Ranking(
            np.concatenate([part[f"columns.{place}"] for part in parts])[back],
            np.concatenate([part[f"p.{place}"] for part in parts])[back],
        )
        for place in range(len(trainer.levels))
    ]
    return Crossed(network, said, weights + parts)


@dataclass(frozen=True, eq=False)
class Pass:
    """A trained pass. `ofo` learned from all training documents, the thresholds `at_level` from
    those that have a label at the level, as the paper measures; one number a column. `moves` are
    added to the log-odds of new documents, one number a level: these are what thresholds were not
    learned from."""

    network: LevelNetworks
    ofo: OFO
    at_level: Thresholds
    moves: NDArray[np.float64]

    @property
    def thresholds(self) -> Thresholds:
        return self.ofo.thresholds


@dataclass(frozen=True, eq=False)
class Said:
    """What a pass says of each level: of training documents out of fold, and of dev; and, where
    pass 2 goes on from them, the weights of the networks that say it."""

    train: Sequence[Ranking]
    dev: Sequence[Ranking]
    weights: Sequence[Arrays]

    def averaged_with(self, other: Said) -> Said:
        train, dev = mean_odds(self.train, other.train), mean_odds(self.dev, other.dev)
        return Said(train, dev, other.weights)


def weights_of(network: LevelNetworks) -> Arrays:
    """The tensors of a network in half precision; counters are left out."""
    return {
        name: value.half().cpu().numpy()
        for name, value in network.state_dict().items()
        if value.is_floating_point()
    }


def restore(network: LevelNetworks, weights: Mapping[str, NDArray[Any]]) -> LevelNetworks:
    """The network with these weights, ready to predict."""
    state = network.state_dict()
    for name, value in state.items():
        if not value.is_floating_point():
            continue
        seen = weights.get(name)
        if seen is None or seen.shape != tuple(value.shape):
            raise RunError(f"tensor {name!r} does not fit the settings of this run")
        if not np.isfinite(seen).all():
            raise RunError(f"tensor {name!r} holds values that are not finite")
        state[name] = torch.from_numpy(seen.astype(np.float32))
    network.load_state_dict(state)
    return network.eval()

"""The hierarchical pointer generator (Deep Level-wise XMLC, section 2.2).

It merges the predictions of all levels into one label set, by copying and by generating labels.

    CandidateLabels ─ PointerNetwork ─ beam search ─ label set, with the probability of every step

The equations are in pointer_network.py, the search in pointer_beam_search.py. A target sequence has
the labels of a document by level, the most frequent of a level first, then the stop symbol.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from ontodex.errors import UntrainedError
from ontodex.evaluation.sets import count_by_document, micro
from ontodex.features import batches
from ontodex.io.tensors import TensorSpec, check_tensors
from ontodex.models.levelwise.config import PointerConfig
from ontodex.models.levelwise.pointer_beam_search import DecodedSets, search
from ontodex.models.levelwise.pointer_network import Candidates, PointerNetwork
from ontodex.models.weights import extract_weights, set_weights, weight_specs
from ontodex.types import PADDING, Ranking
from ontodex.types.answers import SetAttention
from ontodex.types.loop_config import LoopConfig

logger = logging.getLogger(__name__)

# Rewards per label, added to log p of a set and tuned on dev; the first of equals wins. With a
# reward, a label of probability p is worth emitting where p > 1 / (1 + exp(reward)).
LENGTH_REWARDS = (0.0, 0.25, -0.25, 0.5, -0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0)
MIN_STEPS = 64  # of an epoch: a small corpus is trained in smaller batches than the settings say
MIN_BATCH = 8
# Probabilities (documents, beams, labels) of a batch in decoding: 512 MiB; about eight such tensors
# live at a time.
MAX_PROBABILITIES = 2**27
# Logits (documents, steps, labels) of a micro-batch in training: 1 GiB; about six such tensors live
# at a time.
MAX_LOGITS = 2**28


_FACTS = ("length_reward", "is_trained")  # tensors beside the weights


@dataclass(frozen=True, eq=False)
class CandidateLabels:
    """The labels that the levels predict, one row per document: by level, then by probability."""

    columns: NDArray[np.int64]  # (n, c), -1 after the last
    probabilities: NDArray[np.float32]  # (n, c)
    levels: NDArray[np.int16]  # (n, c), most general = 1; 0 at padding

    def __post_init__(self) -> None:
        if not self.columns.shape == self.probabilities.shape == self.levels.shape:
            raise ValueError("columns, probabilities and levels must have one shape")
        filled = self.columns >= 0
        if bool(np.any(filled != (self.levels > 0))) or bool(
            np.any(filled[:, 1:] > filled[:, :-1])
        ):
            raise ValueError("padding is column -1 at level 0, at the end of a row")
        step = np.diff(self.levels, axis=1)
        rises = np.diff(self.probabilities, axis=1) > 0
        if bool(np.any(filled[:, 1:] & ((step < 0) | ((step == 0) & rises)))):
            raise ValueError("a row is ordered by level, then by falling probability")

    @classmethod
    def of(
        cls, columns: NDArray[Any], probabilities: NDArray[Any], level: NDArray[Any]
    ) -> CandidateLabels:
        """Sort rows in any order (-1 = none); `level` has the level of every label."""
        found = columns >= 0
        width = int(found.sum(axis=1).max(initial=0))
        levels = np.where(found, level[columns], np.iinfo(np.int16).max).astype(np.int16)
        order = np.lexsort((columns, -probabilities, levels), axis=1)[:, :width]
        found, columns, probabilities, levels = (
            np.take_along_axis(a, order, axis=1) for a in (found, columns, probabilities, levels)
        )
        return cls(
            np.where(found, columns, PADDING).astype(np.int64),
            np.where(found, probabilities, 0).astype(np.float32),
            np.where(found, levels, 0).astype(np.int16),
        )

    def __len__(self) -> int:
        return len(self.columns)


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """The labels in the ontology: levels, ancestors and frequencies."""

    level: NDArray[np.integer[Any]]  # (l,), most general = 1
    ancestors: csr_array  # (l x l): in each row the columns of all distinct ancestors
    frequency: NDArray[np.integer[Any]]  # (l,), training documents
    n_clusters: int = 0  # the last columns: read like labels, never part of a label set

    @property
    def n_answers(self) -> int:
        return len(self.level) - self.n_clusters

    @property
    def n_levels(self) -> int:
        return max(1, int(self.level.max(initial=0)))

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """All columns in the order of targets: by level, then by descending frequency."""
        return np.lexsort((-self.frequency, self.level))

    @cached_property
    def rank(self) -> NDArray[np.int64]:
        """The position of each column in `order`."""
        return np.argsort(self.order)


@dataclass(frozen=True)
class UntrainedNetwork:
    """The network before training: its weights, its best length reward and its micro-F on dev."""

    weights: Mapping[str, Tensor]
    reward: float
    micro_f: float


class Pointer:
    """Learns from out-of-fold predictions, and decodes predictions into label sets."""

    def __init__(
        self,
        config: PointerConfig,
        hierarchy: Hierarchy,
        device: str = "cpu",
        *,
        loop: LoopConfig | None = None,
    ) -> None:
        """`loop` has the seed and the time between checkpoints."""
        self.config, self.hierarchy, self.device = config, hierarchy, torch.device(device)
        self.loop = loop or LoopConfig()
        self.is_trained = True  # False where training did not help on dev and was taken back
        self.network: PointerNetwork | None = None
        self.length_reward = 0.0

    def fit(
        self,
        train: CandidateLabels,
        train_gold: csr_array,
        dev: CandidateLabels,
        dev_gold: csr_array,
        folder: Path | None = None,
        label_vectors: NDArray[Any] | None = None,
        title: str = "pointer generator",
    ) -> None:
        """Train the network. `dev` stops training early and tunes the length reward.

        `dev` may be empty. Gold columns after the labels of the hierarchy are ignored. With
        `folder`, a killed training continues.
        """
        network = self.network = self._make_network(label_vectors)
        has_dev = csr_array(dev_gold[:, : self.hierarchy.n_answers]).nnz > 0
        before = self._score_untrained(dev, dev_gold) if has_dev else None
        score = (lambda: self._micro_f(dev, dev_gold)) if has_dev else None
        self._train(network, train, train_gold, score, folder, title)
        network.half().float().eval()  # rounded now, so that the saved weights decode the same
        if before is not None and self._tune_reward(dev, dev_gold) < before.micro_f:
            logger.warning(
                "training the pointer generator did not help on dev: the untrained network is kept"
            )
            network.load_state_dict(before.weights)
            self.length_reward, self.is_trained = before.reward, False

    def _make_network(self, label_vectors: NDArray[Any] | None) -> PointerNetwork:
        torch.manual_seed(self.loop.seed)
        vectors = None
        if label_vectors is not None:
            vectors = resize_label_vectors(label_vectors, self.config.embedding)
        return PointerNetwork(self.config, self.hierarchy, vectors).to(self.device)

    def _train(
        self,
        network: PointerNetwork,
        train: CandidateLabels,
        gold: csr_array,
        score: Callable[[], float] | None,
        folder: Path | None,
        title: str,
    ) -> None:
        from ontodex.training import loop  # predicting needs no training code

        data = CandidateBatches(train, self.config, self.hierarchy, self.device)
        targets = build_targets(gold, self.hierarchy, self.config.max_labels)
        lengths = (targets >= 0).sum(axis=1)
        size = min(self.config.train.batch_size, max(MIN_BATCH, len(train) // MIN_STEPS))
        settings = self.plan_training(len(train), size)
        on_device = torch.from_numpy(targets).to(self.device)

        def plan(epoch: int) -> list[NDArray[np.int64]]:
            return batches.plan(lengths, size, seed=settings.seed, epoch=epoch)

        def loss(rows: NDArray[np.int64]) -> Tensor:
            at = torch.from_numpy(rows).to(self.device)
            wanted = on_device[at, : int(lengths[rows].max())]
            return network(data.batch(rows), wanted, self.config.coverage_weight)

        # `plan` makes the batches; from `batch_size` the loop takes the size of micro-batches.
        micro_batch = self._micro_batch_size(settings.batch_size, targets.shape[1])
        loop.fit(
            network,
            batches=plan,
            loss=loss,
            config=replace(settings, batch_size=micro_batch),
            score=score,
            folder=folder,
            title=title,
        )

    def plan_training(self, n_docs: int, batch_size: int) -> LoopConfig:
        """Return the settings of the loop: enough epochs for the least number of steps."""
        epochs = math.ceil(self.config.steps / max(1, math.ceil(n_docs / batch_size)))
        return replace(
            self.config.train,
            epochs=max(self.config.epochs, epochs),
            seed=self.loop.seed,
            checkpoint_seconds=self.loop.checkpoint_seconds,
        )

    def _score_untrained(self, dev: CandidateLabels, dev_gold: csr_array) -> UntrainedNetwork:
        """Score the untrained network, which copies labels that are probable enough by themselves.

        Its length reward is used while training is scored on dev.
        """
        network = self.require_network().half().float().eval()
        micro_f = self._tune_reward(dev, dev_gold)
        weights = {name: value.clone() for name, value in network.state_dict().items()}
        return UntrainedNetwork(weights, self.length_reward, micro_f)

    def _tune_reward(self, dev: CandidateLabels, dev_gold: csr_array) -> float:
        """Set the reward with the highest micro-F on dev, and return that micro-F."""
        found: dict[float, float] = {}
        for reward in LENGTH_REWARDS if self.config.length_reward else (0.0,):
            self.length_reward = reward
            found[reward] = self._micro_f(dev, dev_gold)
        self.length_reward = max(found, key=found.__getitem__)
        return found[self.length_reward]

    def _micro_f(self, dev: CandidateLabels, dev_gold: csr_array) -> float:
        return micro(count_by_document(dev_gold, self.decode(dev)))["MiF"]

    def decode(self, predicted: CandidateLabels) -> Ranking:
        """Return the label set of each document, by the probability of the step of each label."""
        limit = self.config.max_labels
        columns = np.full((len(predicted), limit), PADDING, np.int64)
        chances = np.zeros((len(predicted), limit), np.float32)
        data = CandidateBatches(predicted, self.config, self.hierarchy, self.device)
        for rows in batches.batch_by_length(data.counts, self._decode_batch_size()):
            found = self._search(data.batch(rows))
            columns[rows] = found.columns.cpu().numpy()
            chances[rows] = found.probabilities.cpu().numpy()
        columns[columns >= self.hierarchy.n_answers] = PADDING
        return Ranking.sort(columns, np.minimum(chances, 1), limit)

    def _search(self, candidates: Candidates) -> DecodedSets:
        network, config = self.require_network(), self.config
        with torch.inference_mode():
            return search(
                network,
                candidates,
                beam=config.beam,
                max_labels=config.max_labels,
                reward=self.length_reward,
            )

    def _micro_batch_size(self, batch: int, steps: int) -> int:
        """Return the documents of a micro-batch. A CPU cannot retry when memory runs out."""
        of_document = steps * (len(self.hierarchy.level) + 1)  # 1 for the stop symbol
        return max(1, min(batch, MAX_LOGITS // of_document))

    def _decode_batch_size(self) -> int:
        size = 512 if self.device.type == "cuda" else 32
        of_document = self.config.beam * (len(self.hierarchy.level) + 1)  # 1 for the stop symbol
        return max(1, min(size, MAX_PROBABILITIES // of_document))

    def explain_set(self, predicted: CandidateLabels) -> SetAttention:
        """Return the steps that generated the label set of the one document of `predicted`."""
        network = self.require_network()
        data = CandidateBatches(predicted, self.config, self.hierarchy, self.device)
        candidates = data.batch(np.array([0]))
        found = self._search(candidates)
        n_chosen, count = int((found.columns[0] >= 0).sum()), int(data.counts[0])
        chosen = found.columns[:, :n_chosen]
        attention, generated = np.zeros((n_chosen, count)), np.zeros(n_chosen)
        if n_chosen:
            with torch.inference_mode():
                encoded, state = network.encode_candidates(candidates)
                steps = network.run_steps(encoded, state, network.shift_right(chosen))
                switch, _ = network.generate(steps)
            attention = steps.attention[0, :, :count].double().cpu().numpy()
            generated = switch[0].sigmoid().double().cpu().numpy()  # p_gen, Eq. 3
        read = data.order[0, :count]
        levels = predicted.levels[0, read].astype(np.int64)
        by_level = attention @ (levels[:, None] == np.arange(1, self.hierarchy.n_levels + 1))
        return SetAttention(
            predicted=predicted.columns[0, read],
            predicted_probabilities=predicted.probabilities[0, read],
            predicted_levels=levels,
            chosen=chosen[0].cpu().numpy(),
            chosen_probabilities=found.probabilities[0, :n_chosen].cpu().numpy(),
            generated=generated,
            attention=attention,
            level_attention=by_level,
            coverage=by_level.cumsum(axis=0),
        )

    def require_network(self) -> PointerNetwork:
        """Return the network; raise where there is none yet."""
        if self.network is None:
            raise UntrainedError("pointer generator")
        return self.network

    def to_tensors(self) -> dict[str, NDArray[Any]]:
        """Return all weights in half precision, and the length reward, for `load`."""
        return {
            **extract_weights(self.require_network()),
            "length_reward": np.array([self.length_reward], np.float32),
            "is_trained": np.array([self.is_trained], np.float32),
        }

    @classmethod
    def load(
        cls,
        config: PointerConfig,
        hierarchy: Hierarchy,
        tensors: Mapping[str, NDArray[Any]],
        *,
        source: Path | str = "the pointer generator",
        device: str = "cpu",
    ) -> Self:
        """Restore what `to_tensors` returned, with the same settings and hierarchy."""
        pointer = cls(config, hierarchy, device)
        with torch.device("meta"):  # saves the memory and time of weights that are read next
            network = PointerNetwork(config, hierarchy)
        specs = {**weight_specs(network), **dict.fromkeys(_FACTS, TensorSpec((1,)))}
        tensors = {"is_trained": np.ones(1, np.float32), **tensors}  # version 0.1 kept it not
        check_tensors(source, tensors, specs)
        pointer.is_trained = bool(tensors["is_trained"][0])
        pointer.length_reward = float(tensors["length_reward"][0])
        set_weights(network, tensors)
        pointer.network = network.to(pointer.device).eval()
        return pointer


class CandidateBatches:
    """The candidates of all documents on the device; a batch is as wide as its longest row."""

    def __init__(
        self,
        predicted: CandidateLabels,
        config: PointerConfig,
        hierarchy: Hierarchy,
        device: torch.device,
    ) -> None:
        by_level, stop = config.unit == "level", len(hierarchy.level)
        # In the order of targets, so that a target is nearly its input with gaps.
        self.order = np.argsort(np.append(hierarchy.rank, stop)[predicted.columns], axis=1)
        columns = np.take_along_axis(predicted.columns, self.order, axis=1)
        probabilities = np.take_along_axis(predicted.probabilities, self.order, axis=1)
        levels = np.take_along_axis(predicted.levels, self.order, axis=1)
        units = levels if by_level else (levels > 0).astype(np.int16)
        self.counts = (units > 0).sum(axis=1)
        self._n_units = hierarchy.n_levels if by_level else 1
        self._longest = np.zeros(len(predicted), np.int64)
        for unit in range(1, self._n_units + 1):
            np.maximum(self._longest, (units == unit).sum(axis=1), out=self._longest)
        # One more column, so that a batch without predictions is not empty.
        pad = ((0, 0), (0, 1))
        columns = np.pad(np.where(columns < 0, stop, columns), pad, constant_values=stop)
        self._columns = torch.from_numpy(columns.astype(np.int32)).to(device)
        self._probabilities = torch.from_numpy(np.pad(probabilities, pad)).to(device)
        self._units = torch.from_numpy(np.pad(units, pad)).to(device)

    def batch(self, rows: NDArray[np.int64]) -> Candidates:
        device = self._columns.device
        at = torch.from_numpy(rows).to(device)
        width = max(1, int(self.counts[rows].max()))
        unit = torch.arange(1, self._n_units + 1, device=device)
        return Candidates(
            self._columns[at, :width].long(),
            self._probabilities[at, :width],
            (self._units[at, :width, None] == unit).float(),
            max(1, int(self._longest[rows].max())),
        )


def build_targets(gold: csr_array, hierarchy: Hierarchy, max_labels: int) -> NDArray[np.int64]:
    """Return (n, s): gold labels by level and descending frequency, the stop symbol, then -1.

    A document with more than `max_labels` labels keeps the first ones, without a stop symbol.
    """
    n_labels = len(hierarchy.level)
    known = csr_array(gold[:, :n_labels])
    lengths = np.diff(known.indptr)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    sequence = known.indices[np.lexsort((hierarchy.rank[known.indices], rows))]
    places = np.arange(len(rows)) - np.repeat(known.indptr[:-1], lengths)
    targets = np.full((len(lengths), int(lengths.max(initial=0)) + 1), PADDING, np.int64)
    targets[rows, places] = sequence
    targets[np.arange(len(lengths)), lengths] = n_labels
    return targets[:, :max_labels]


def resize_label_vectors(vectors: NDArray[Any], width: int) -> Tensor:
    """Scale label vectors like initial ones; reduce wider ones to their principal components."""
    if vectors.shape[1] > width:
        vectors = vectors.astype(np.float64)
        _, directions = np.linalg.eigh(vectors.T @ vectors)  # the principal ones are the last
        directions = directions[:, ::-1][:, : min(width, len(vectors))]
        # The sign of a direction is arbitrary: choose the one whose largest entry is positive.
        largest = np.abs(directions).argmax(axis=0)
        vectors = vectors @ (directions * np.sign(directions[largest, np.arange(len(largest))]))
    scale = 0.1 / max(float(np.std(vectors)), 1e-12)
    return torch.from_numpy((vectors * scale).astype(np.float32))

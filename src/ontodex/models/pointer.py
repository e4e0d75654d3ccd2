"""The hierarchical pointer generator of Deep Level-wise XMLC (000, section 2.2): what the levels
predicted, merged into one label set by copying from it and generating.

    Predicted ─ PointerNetwork ─ beam search ─ the set, with the probability of every step

The equations are in pointer_network.py, the search in pointer_decoding.py. A target sequence has a
document's labels by level, the most frequent of a level first, then the stop symbol.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from ontodex.config import check_least, check_shares
from ontodex.errors import RunError
from ontodex.evaluate.sets import count_by_document, micro
from ontodex.features import batches
from ontodex.models.base import SetAttention
from ontodex.models.pointer_decoding import Found, search
from ontodex.models.pointer_network import Candidates, PointerNetwork
from ontodex.train import loop
from ontodex.train.loop import LoopConfig
from ontodex.types import PADDING, Ranking

logger = logging.getLogger(__name__)

# What a label adds to log p of a set, tried on dev; the first of equals is taken. A label that is
# there with probability p and else skipped is worth taking where p > 1 / (1 + exp(reward)).
LENGTH_REWARDS = (0.0, 0.25, -0.25, 0.5, -0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0)
FEWEST_STEPS = 64  # of an epoch: a small corpus is learned in smaller batches than the settings'
SMALLEST_BATCH = 8
# Chances (documents, beams, labels) of a batch that is decoded: 512 MiB, and some eight such
# tensors live at a time.
MOST_CHANCES = 2**27
# Logits (documents, labels of the longest, labels) that are learned from at once: 1 GiB, and some
# six such tensors live at a time.
MOST_LOGITS = 2**28


@dataclass(frozen=True, eq=False)
class Predicted:
    """What the levels predicted: a row a document, by level, then falling probability."""

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
    ) -> Predicted:
        """The same from rows in any order (-1 = none); `level` is that of every label."""
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
    """The labels' places in the ontology."""

    level: NDArray[np.integer[Any]]  # (l,), most general = 1
    ancestors: csr_array  # (l x l): in each row the columns of all distinct ancestors
    frequency: NDArray[np.integer[Any]]  # (l,), training documents
    n_clusters: int = 0  # the last columns: read like labels, and never answers

    @property
    def n_answers(self) -> int:
        return len(self.level) - self.n_clusters

    @property
    def n_levels(self) -> int:
        return max(1, int(self.level.max(initial=0)))

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """All columns as they follow each other in a target: by level, then falling frequency."""
        return np.lexsort((-self.frequency, self.level))

    @cached_property
    def rank(self) -> NDArray[np.int64]:
        """The place of each column in `order`."""
        return np.argsort(self.order)


@dataclass(frozen=True)
class PointerConfig:
    """How the levels are merged into one set."""

    # Of OFO's threshold, from which on a prediction is read: what is doubtful alone may fit the
    # others. 1 = the paper.
    share: float = 0.4
    # What is read of a prediction: its odds as they are (paper), or against OFO's threshold.
    odds: Literal["plain", "threshold"] = "plain"
    unit: Literal["level", "label"] = "level"  # a sequence a level, or one sequence of all labels
    ancestor_gate: Literal["path", "printed", "off"] = "path"  # how Eq. 6 is read
    # Labels come in the order of targets, and none that was passed over; or in any (paper).
    order: Literal["forward", "any"] = "forward"
    embedding: int = 256  # of labels and of encoder states, so that e_a . h_a needs no matrix
    hidden: int = 256  # decoder units
    dropout: float = 0.3  # of label vectors, encoder states and what the vocabulary reads
    coverage: float = 0.1  # weight of the coverage loss
    length_reward: bool = True  # for each label of a set, chosen on dev; paper: none
    beam: int = 4  # sets that are followed at once
    max_labels: int = 30  # of a document, in training and in decoding
    train: LoopConfig = field(
        default_factory=lambda: LoopConfig(batch=256, epochs=4, average=0.01, patience=0)
    )

    def __post_init__(self) -> None:
        check_least(self, 1, "embedding", "hidden", "beam", "max_labels")
        if self.embedding % 2:
            raise ValueError(f"embedding must be even, not {self.embedding}")
        check_shares(self, "dropout")
        check_least(self, 0, "coverage")
        if not 0 < self.share <= 1:
            raise ValueError(f"share must be above 0 and at most 1, not {self.share}")


@dataclass(frozen=True)
class Untaught:
    """A network before its training: its weights, its best reward and its micro-F on dev."""

    weights: Mapping[str, Tensor]
    reward: float
    reached: float


class Pointer:
    """Learns from predictions made out of fold, and turns predictions into label sets."""

    def __init__(self, config: PointerConfig, hierarchy: Hierarchy, device: str = "cpu") -> None:
        self.config, self.hierarchy, self.device = config, hierarchy, torch.device(device)
        self.network: PointerNetwork | None = None
        self.length_reward = 0.0

    def fit(
        self,
        train: Predicted,
        train_gold: csr_array,
        dev: Predicted,
        dev_gold: csr_array,
        folder: Path | None = None,
        label_vectors: NDArray[Any] | None = None,
        title: str = "pointer generator",
    ) -> None:
        """Learn; `dev` stops training early and may be empty, or without known labels. Gold columns
        past the hierarchy's labels are left out. With `folder`, a killed training goes on."""
        settings = self.config.train
        torch.manual_seed(settings.seed)
        vectors = None if label_vectors is None else narrowed(label_vectors, self.config.embedding)
        network = PointerNetwork(self.config, self.hierarchy, vectors).to(self.device)
        self.network = network
        data = PredictedOnDevice(train, self.config, self.hierarchy, self.device)
        targets = target_sequences(train_gold, self.hierarchy, self.config.max_labels)
        lengths = (targets >= 0).sum(axis=1)
        size = min(settings.batch, max(SMALLEST_BATCH, len(train) // FEWEST_STEPS))
        on_device = torch.from_numpy(targets).to(self.device)

        def plan(epoch: int) -> list[NDArray[np.int64]]:
            return batches.plan(lengths, size, seed=settings.seed, epoch=epoch)

        def loss(rows: NDArray[np.int64]) -> Tensor:
            at = torch.from_numpy(rows).to(self.device)
            wanted = on_device[at, : int(lengths[rows].max())]
            return network(data.batch(rows), wanted, self.config.coverage)

        # Steps are those of `plan`; by `batch` the loop knows how much to compute at once.
        at_once = replace(settings, batch=self._piece(settings.batch, targets.shape[1]))
        is_judged = csr_array(dev_gold[:, : self.hierarchy.n_answers]).nnz > 0
        before = self._untaught(dev, dev_gold) if is_judged else None
        loop.fit(
            network,
            batches=plan,
            loss=loss,
            config=at_once,
            score=(lambda: self._micro_f(dev, dev_gold)) if is_judged else None,
            folder=folder,
            title=title,
        )
        # Rounded now, so that what is saved in half precision is exactly what decodes from here on.
        network.half().float().eval()
        if before is not None and self._tune_reward(dev, dev_gold) < before.reached:
            logger.warning("the pointer generator learned nothing that helps on dev")
            network.load_state_dict(before.weights)
            self.length_reward = before.reward

    def _untaught(self, dev: Predicted, dev_gold: csr_array) -> Untaught:
        """What the network does before it learns, which is to copy what is likely enough by itself.
        Its reward is what training is judged with."""
        network = self.fitted().half().float().eval()
        reached = self._tune_reward(dev, dev_gold)
        weights = {name: value.clone() for name, value in network.state_dict().items()}
        return Untaught(weights, self.length_reward, reached)

    def _tune_reward(self, dev: Predicted, dev_gold: csr_array) -> float:
        """Take the reward with the highest micro-F on dev; that micro-F."""
        found: dict[float, float] = {}
        for reward in LENGTH_REWARDS if self.config.length_reward else (0.0,):
            self.length_reward = reward
            found[reward] = self._micro_f(dev, dev_gold)
        self.length_reward = max(found, key=found.__getitem__)
        return found[self.length_reward]

    def _micro_f(self, dev: Predicted, dev_gold: csr_array) -> float:
        return micro(count_by_document(dev_gold, self.decode(dev)))["MiF"]

    def decode(self, predicted: Predicted) -> Ranking:
        """The label set of each document, by falling probability of the step that chose a label."""
        limit = self.config.max_labels
        columns = np.full((len(predicted), limit), PADDING, np.int64)
        chances = np.zeros((len(predicted), limit), np.float32)
        data = PredictedOnDevice(predicted, self.config, self.hierarchy, self.device)
        for rows in batches.by_length(data.counts, self._decode_batch()):
            found = self._search(data.batch(rows))
            columns[rows] = found.columns.cpu().numpy()
            chances[rows] = found.probabilities.cpu().numpy()
        columns[columns >= self.hierarchy.n_answers] = PADDING
        return Ranking.sort(columns, np.minimum(chances, 1), limit)

    def _search(self, candidates: Candidates) -> Found:
        network, config = self.fitted(), self.config
        with torch.inference_mode():
            return search(
                network,
                candidates,
                beam=config.beam,
                max_labels=config.max_labels,
                reward=self.length_reward,
            )

    def _piece(self, batch: int, steps: int) -> int:
        """Documents of a batch that are learned from at once: a CPU that runs out of memory cannot
        try again with fewer."""
        of_document = steps * (len(self.hierarchy.level) + 1)  # 1 for stopping
        return max(1, min(batch, MOST_LOGITS // of_document))

    def _decode_batch(self) -> int:
        size = 512 if self.device.type == "cuda" else 32
        of_document = self.config.beam * (len(self.hierarchy.level) + 1)  # 1 for stopping
        return max(1, min(size, MOST_CHANCES // of_document))

    def attention(self, predicted: Predicted) -> SetAttention:
        """What the one document of `predicted` was given, and what each choice attended to."""
        network = self.fitted()
        data = PredictedOnDevice(predicted, self.config, self.hierarchy, self.device)
        candidates = data.batch(np.array([0]))
        found = self._search(candidates)
        n_chosen, count = int((found.columns[0] >= 0).sum()), int(data.counts[0])
        chosen = found.columns[:, :n_chosen]
        attention, generated = np.zeros((n_chosen, count)), np.zeros(n_chosen)
        if n_chosen:
            with torch.inference_mode():
                encoded, state = network.encoded(candidates)
                steps = network.steps(encoded, state, network.shifted(chosen))
                switch, _ = network.generating(steps)
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

    def fitted(self) -> PointerNetwork:
        if self.network is None:
            raise RunError("the pointer generator was asked before it was fitted")
        return self.network

    # --------------------------------------------------------------------------------- the files

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Everything learned, in half precision; `load` takes it back."""
        weights = self.fitted().state_dict()
        arrays = {name: w.half().cpu().numpy() for name, w in weights.items()}
        return {**arrays, "length_reward": np.array([self.length_reward], np.float32)}

    @classmethod
    def load(
        cls,
        config: PointerConfig,
        hierarchy: Hierarchy,
        tensors: Mapping[str, NDArray[Any]],
        *,
        device: str = "cpu",
    ) -> Self:
        """What `tensors` gave, with the settings and the hierarchy it was fitted with."""
        pointer = cls(config, hierarchy, device)
        network = PointerNetwork(config, hierarchy)
        expected = {name: tuple(w.shape) for name, w in network.state_dict().items()}
        expected["length_reward"] = (1,)
        for name, shape in expected.items():
            seen = tensors.get(name)
            if seen is None or seen.shape != shape:
                raise RunError(f"pointer tensor {name!r} does not fit the settings of this run")
            if not np.isfinite(seen).all():
                raise RunError(f"pointer tensor {name!r} holds values that are not finite")
        pointer.length_reward = float(tensors["length_reward"][0])
        state = {
            name: torch.from_numpy(tensors[name].astype(np.float32))
            for name in network.state_dict()
        }
        network.load_state_dict(state)
        pointer.network = network.to(pointer.device).eval()
        return pointer


class PredictedOnDevice:
    """Predictions on the device; a batch is cut out there, as wide as its fullest row."""

    def __init__(
        self,
        predicted: Predicted,
        config: PointerConfig,
        hierarchy: Hierarchy,
        device: torch.device,
    ) -> None:
        by_level, stop = config.unit == "level", len(hierarchy.level)
        # Read in the order of targets: a target is then hardly more than the input with gaps.
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
        # One column more, so that a batch without any prediction has something to cut out.
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


def target_sequences(gold: csr_array, hierarchy: Hierarchy, max_labels: int) -> NDArray[np.int64]:
    """(n, s): the true labels by level, then falling frequency, then the stop symbol, then -1.
    Of a document with more than `max_labels` labels the first are kept, without a stop."""
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


def narrowed(vectors: NDArray[Any], width: int) -> Tensor:
    """Label vectors at the scale of fresh ones; wider than `width`, their principal directions."""
    if vectors.shape[1] > width:
        vectors = vectors.astype(np.float64)
        _, directions = np.linalg.eigh(vectors.T @ vectors)  # the principal ones are the last
        directions = directions[:, ::-1][:, : min(width, len(vectors))]
        # Either sign of a direction is right: the one whose largest entry is positive, always.
        largest = np.abs(directions).argmax(axis=0)
        vectors = vectors @ (directions * np.sign(directions[largest, np.arange(len(largest))]))
    scale = 0.1 / max(float(np.std(vectors)), 1e-12)
    return torch.from_numpy((vectors * scale).astype(np.float32))

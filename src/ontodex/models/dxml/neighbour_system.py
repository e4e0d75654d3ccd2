"""Systems that embed documents near their labels and let the nearest training documents vote.

    labels ─ label graph ─ DeepWalk = V ─ whitened ─ mean over a document's labels, length 1 = f_y
                              (l, e)                                   (n, e)
    features ─ an embedding learned on f_y = f_x ─ clusters ─ k nearest ─ their labels
     (n, m)                      (n, e)                         (n, k)        (n, l)

`NeighbourSystem` has everything but the embedding. A subclass defines:

    Config                settings, a `NeighbourConfig`
    learn_embedding()     fit the embedding; return the vectors of the training documents
    embed_rows()          f_x of documents
    differentiate()       the gradient of f_x in one direction, for `explain`
    choose_on_dev()       number of neighbours, clusters and so on
    save_embedding(), load_embedding()
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from scipy.sparse import csr_array

from ontodex.config import build, check_least, check_range
from ontodex.decide.calibrate import Calibration
from ontodex.errors import DataError, RunError, UntrainedError
from ontodex.features.label_graph import LabelGraphConfig, compute_label_vectors
from ontodex.features.matrix import MatrixConfig, MatrixFeatures
from ontodex.io.tensors import load_csr, load_tensors, save_csr, save_tensors, weight_spec
from ontodex.models.baselines.model_json import ModelJson, load_model_json, save_model_json
from ontodex.models.baselines.neighbours import (
    MAX_EXPONENT,
    Neighbours,
    append_labels,
    build_label_matrix,
)
from ontodex.models.baselines.sparse_rows import CALIBRATION_RANKS, to_csr, weigh_spans
from ontodex.models.dxml.clusters import ClusterIndex
from ontodex.models.dxml.targets import Floats, average_label_vectors, whiten_vectors
from ontodex.models.interface import Explains
from ontodex.models.weights import SHARD_BYTES
from ontodex.types import Corpus, Doc, LabelSpace, Ranking
from ontodex.types.answers import Span

DEFAULT_NEIGHBOURS = 20  # without dev


@dataclass(frozen=True)
class NeighbourConfig(LabelGraphConfig, MatrixConfig):
    """Settings of features, label vectors and the vote."""

    neighbours: int = 0  # k; 0 = the best of a few on dev (20 without dev)

    def __post_init__(self) -> None:
        LabelGraphConfig.__post_init__(self)
        MatrixConfig.__post_init__(self)
        check_least(self, 0, "neighbours")


@dataclass(frozen=True)
class Choices:
    """The choices that were made on dev; `ridge` and `share` are those of kernel regression."""

    epochs: int
    neighbours: int
    exponent: float  # of a neighbour's similarity, 0 = the plain mean of their labels
    probe: int  # clusters searched
    ridge: float | None = None
    share: float | None = None

    def __post_init__(self) -> None:
        check_least(self, 1, "neighbours", "probe")
        check_range(self, 0, MAX_EXPONENT, "exponent")


@dataclass(frozen=True)
class _NeighbourJson(ModelJson):
    """The fields of model.json."""

    chosen: Choices


class NeighbourSystem(Explains, ABC):
    """Document embeddings and their nearest neighbours; new documents join without training."""

    Config: ClassVar[type[NeighbourConfig]] = NeighbourConfig

    def __init__(self, config: Any, *, device: str = "cpu") -> None:
        self.config, self.device = config, torch.device(device)
        self.features = MatrixFeatures(config)
        self.memory = ClusterIndex(np.zeros((1, 1), np.float32), np.zeros((0, 1), np.float32))
        self.gold = csr_array(np.zeros((0, 0), np.float32))  # (documents, labels)
        self.chosen = Choices(0, config.neighbours or DEFAULT_NEIGHBOURS, 0.0, 1)
        self.calibration = Calibration.identity()

    @abstractmethod
    def learn_embedding(
        self, rows: csr_array, targets: Floats, dev: Corpus, dev_gold: csr_array
    ) -> Floats:
        """Learn f_x from features (n, m) and targets f_y (n, e); return the vectors that stand for
        the training documents."""

    @abstractmethod
    def embed_rows(self, rows: csr_array) -> Floats:
        """Return f_x of features (n, m)."""

    @abstractmethod
    def differentiate(self, row: csr_array, direction: Floats) -> csr_array:
        """Return the gradient (1, m) of the component of f_x in a direction (1, e)."""

    @abstractmethod
    def choose_on_dev(self, queries: Floats, gold: csr_array) -> None:
        """Make the choices of the vote that dev decides."""

    @abstractmethod
    def count_clusters(self) -> int:
        """Return the number of clusters of the training documents."""

    @abstractmethod
    def get_seed(self) -> int:
        """Return the seed of the training."""

    @abstractmethod
    def save_embedding(self, folder: Path) -> None:
        """Write what `learn_embedding` learned."""

    @abstractmethod
    def load_embedding(self, folder: Path) -> None:
        """Read what `save_embedding` wrote."""

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        self.learn_memory(train, dev, labels)
        if len(dev):
            queries, gold = self.embed(dev), labels.gold(dev)
            self.choose_on_dev(queries, gold)
            ranking = self.vote(self.search(queries), CALIBRATION_RANKS)
            self.calibration = Calibration.fit(ranking, gold)

    def refit(self, train: Corpus, labels: LabelSpace) -> None:
        """Learn from these documents with the choices made on dev; the calibration stays."""
        self.learn_memory(train, train.select([]), labels)

    def learn_memory(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        """Learn the embedding and cluster the training documents that have labels."""
        rows = to_csr(self.features.fit(train))
        gold = build_label_matrix(train, labels)
        has_labels = np.flatnonzero(np.diff(gold.indptr))
        if not len(has_labels):
            raise DataError("no training document has a label", path=train.folder)
        self.gold, rows = csr_array(gold[has_labels]), csr_array(rows[has_labels])
        vectors = compute_label_vectors(train, labels, self.config, device=str(self.device))  # V
        targets = average_label_vectors(self.gold, whiten_vectors(vectors, labels.frequency))
        self.build_memory(self.learn_embedding(rows, targets, dev, labels.gold(dev)))

    def build_memory(self, vectors: Floats) -> None:
        """Cluster the vectors of the training documents, in the half precision of the file."""
        self.memory = ClusterIndex.fit(
            _round_to_half(vectors),
            self.count_clusters(),
            seed=self.get_seed(),
            device=str(self.device),
        )

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        """Return the k labels with the most votes of the nearest neighbours."""
        if not len(self.memory):
            raise UntrainedError(type(self).__name__)
        return self.calibration.apply(self.vote(self.search(self.embed(corpus)), k))

    def embed(self, corpus: Corpus) -> Floats:
        """Return f_x of each document, (documents, e)."""
        return self.embed_rows(to_csr(self.features.transform(corpus)))

    def search(self, queries: Floats) -> Neighbours:
        """Return the nearest training documents in the nearest clusters."""
        return self.memory.search(queries, self.chosen.neighbours, self.chosen.probe)

    def vote(self, nearest: Neighbours, k: int) -> Ranking:
        """Return the k labels with the most votes."""
        return nearest.vote(self.gold, self.chosen.neighbours, self.chosen.exponent, k)

    def update(self, corpus: Corpus, labels: LabelSpace) -> None:
        """Add documents to the memory, perhaps with new labels; the embedding does not change."""
        self.memory = self.memory.add(_round_to_half(self.embed(corpus)))
        self.gold = append_labels(self.gold, corpus, labels)

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        """Return value x gradient towards the neighbours that have the label, for each word."""
        row = to_csr(self.features.transform(Corpus.of([doc])))
        direction = self._find_direction(self.embed_rows(row), column)
        return weigh_spans(self.features, doc, self.differentiate(row, direction))

    def _find_direction(self, f_x: Floats, column: int) -> Floats:
        """Return (1, e): from the neighbours without a label to those that have it.

        Neighbours are weighted by their share of the vote. The space is centred, so the mean of no
        neighbours is 0.
        """
        chosen = self.chosen
        votes = self.search(f_x).weigh(chosen.neighbours, chosen.exponent, len(self.memory))
        share, vectors = votes.data, self.memory.vectors[votes.indices]
        has = self.gold[:, [column]].toarray()[votes.indices, 0] > 0
        sides = [share[side] @ vectors[side] / max(float(share[side].sum()), 1e-12)
                 for side in (has, ~has)]  # fmt: skip
        return np.asarray((sides[0] - sides[1])[None], np.float32)

    def save(self, folder: Path) -> None:
        self.save_embedding(folder)
        memory = {"vectors": self.memory.vectors.astype(np.float16)}
        save_tensors(folder, "memory", memory, shard_bytes=SHARD_BYTES)
        save_tensors(folder, "centres", {"centres": self.memory.centres})
        save_csr(folder, "gold", self.gold)
        self.features.save(folder)
        save_model_json(folder, self.config, self.calibration, chosen=asdict(self.chosen))

    @classmethod
    def load(cls, folder: Path, labels: LabelSpace, *, device: str = "cpu") -> Self:
        about = load_model_json(folder, _NeighbourJson)
        model = cls(build(cls.Config, about.config, "model"), device=device)
        model.features = MatrixFeatures.load(folder)
        model.calibration, model.chosen = about.calibration, about.chosen
        model.memory = _load_memory(folder)
        model.gold, _ = load_csr(
            folder, "gold", (len(model.memory), len(labels)), minimum=0, maximum=1
        )
        model.load_embedding(folder)
        return model


def _load_memory(folder: Path) -> ClusterIndex:
    """Read the vectors of the training documents and the centres of their clusters."""
    spec = weight_spec((None, "embedding"))
    vectors = load_tensors(folder, "memory", {"vectors": spec})["vectors"].astype(np.float32)
    sizes = {"embedding": vectors.shape[1]}
    centres = load_tensors(folder, "centres", {"centres": spec}, sizes)["centres"]
    if not vectors.size or not len(centres):
        raise RunError(f"{folder}: the memory has no vectors or no clusters", hint="train again")
    return ClusterIndex(centres.astype(np.float32), vectors)


def _round_to_half(vectors: Floats) -> Floats:
    """Return the vectors rounded to the half precision of the saved file."""
    return vectors.astype(np.float16).astype(np.float32)

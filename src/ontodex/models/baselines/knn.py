"""k nearest neighbours: a document gets the labels of the most similar training documents.

    document ─ cosine with every training document ─ the k nearest ─ their labels, weighted
       (n, d)              (n, m)                        (n, k)               (n, l)

The search is exact: every similarity is computed, in blocks, on the sparse rows. The vote of the
neighbours is in neighbours.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from ontodex.config import build, check_least, check_range
from ontodex.decide.calibrate import Calibration
from ontodex.errors import RunError, UntrainedError
from ontodex.features.matrix import LemmaConfig, MatrixFeatures
from ontodex.features.tfidf import normalise_rows
from ontodex.io.tensors import load_csr, save_csr
from ontodex.io.threads import make_blocks, map_in_threads
from ontodex.models.baselines.model_json import ModelJson, load_model_json, save_model_json
from ontodex.models.baselines.neighbours import (
    MAX_EXPONENT,
    Neighbours,
    append_labels,
    build_label_matrix,
    choose_vote,
)
from ontodex.models.baselines.sparse_rows import (
    CALIBRATION_RANKS,
    check_unit_rows,
    multiply_rows,
    to_csr,
    weigh_spans,
)
from ontodex.models.interface import Explains
from ontodex.types import Corpus, Doc, LabelSpace, Ranking
from ontodex.types.answers import Span

_BLOCK_SIMILARITIES = 2**23  # of one thread (32 MiB)
_NEIGHBOURS = (5, 10, 20, 40)  # tried on dev
_EXPONENTS = (1.0, 2.0, 4.0)


@dataclass(frozen=True)
class KnnConfig(LemmaConfig):
    """Settings of `knn`, including those of its features."""

    neighbours: int = 0  # 0 = the best of a few on dev (20 without dev)
    exponent: float = 0.0  # of a neighbour's similarity; 0 = the best of a few on dev (2)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.neighbours < 0 or self.exponent < 0:
            raise ValueError("neighbours and exponent must not be negative")


@dataclass(frozen=True)
class _Chosen:
    """The choices that were made on dev."""

    neighbours: int
    exponent: float

    def __post_init__(self) -> None:
        check_least(self, 1, "neighbours")
        check_range(self, 0, MAX_EXPONENT, "exponent")


@dataclass(frozen=True)
class _KnnJson(ModelJson):
    """The fields of model.json."""

    chosen: _Chosen


class KnnSystem(Explains):
    """k nearest neighbours on sparse features; new documents vote without training."""

    Config = KnnConfig

    def __init__(self, config: KnnConfig, *, device: str = "cpu") -> None:
        self.config = config
        self.features = MatrixFeatures(config)
        self.memory: csr_array | None = None  # (training documents, features), rows of length 1
        # (training documents, labels)
        self.gold: csr_array = csr_array(np.zeros((0, 0), np.float32))
        self.neighbours = config.neighbours or 20
        self.exponent = config.exponent or 2.0
        self.calibration = Calibration.identity()

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        self.refit(train, labels)
        if len(dev):
            self._tune(dev, labels.gold(dev))

    def refit(self, train: Corpus, labels: LabelSpace) -> None:
        self.memory = normalise_rows(to_csr(self.features.fit(train)))
        self.gold = build_label_matrix(train, labels)

    def _tune(self, dev: Corpus, gold: csr_array) -> None:
        """Choose neighbours and exponent by nDCG@5, then calibrate."""
        counts = (self.config.neighbours,) if self.config.neighbours else _NEIGHBOURS
        exponents = (self.config.exponent,) if self.config.exponent else _EXPONENTS
        nearest = self._find_neighbours(dev, max(counts))
        if gold.nnz:
            chosen = choose_vote(nearest, self.gold, gold, counts, exponents)
            self.neighbours, self.exponent = chosen
        ranking = nearest.vote(self.gold, self.neighbours, self.exponent, CALIBRATION_RANKS)
        self.calibration = Calibration.fit(ranking, gold)

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        return self.calibration.apply(self._rank(corpus, k))

    def _rank(self, corpus: Corpus, k: int) -> Ranking:
        nearest = self._find_neighbours(corpus, self.neighbours)
        return nearest.vote(self.gold, self.neighbours, self.exponent, k)

    def _find_neighbours(self, corpus: Corpus, k: int) -> Neighbours:
        memory = self._require_memory()
        rows = normalise_rows(to_csr(self.features.transform(corpus)))
        kept = min(k, memory.shape[0])

        def search(block: slice) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
            similarity = multiply_rows(rows[block], memory)
            places = np.argpartition(-similarity, kept - 1, axis=1)[:, :kept]
            values = np.take_along_axis(similarity, places, axis=1)
            order = np.lexsort((places, -values), axis=1)
            return np.take_along_axis(places, order, 1), np.take_along_axis(values, order, 1)

        size = max(1, _BLOCK_SIMILARITIES // memory.shape[0])
        found = list(map_in_threads(search, make_blocks(rows.shape[0], size)))
        docs, similarity = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        return Neighbours(docs, similarity)

    def update(self, corpus: Corpus, labels: LabelSpace) -> None:
        """Add documents to the memory; they may have new labels."""
        rows = normalise_rows(to_csr(self.features.transform(corpus)))
        self.memory = csr_array(vstack([self._require_memory(), rows], format="csr"))
        self.gold = append_labels(self.gold, corpus, labels)

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        """Return value x mean value in the neighbours that have the label, weighted by vote."""
        nearest = self._find_neighbours(Corpus.of([doc]), self.neighbours)
        votes = nearest.weigh(self.neighbours, self.exponent, self.gold.shape[0])
        has_label = self.gold[:, [column]].toarray()[:, 0]
        votes.data *= has_label[votes.indices]
        return weigh_spans(self.features, doc, csr_array(votes @ self._require_memory()))

    def save(self, folder: Path) -> None:
        save_csr(folder, "memory", self._require_memory())
        save_csr(folder, "gold", self.gold)
        self.features.save(folder)
        chosen = {"neighbours": self.neighbours, "exponent": self.exponent}
        save_model_json(folder, self.config, self.calibration, chosen=chosen)

    @classmethod
    def load(cls, folder: Path, labels: LabelSpace, *, device: str = "cpu") -> Self:
        about = load_model_json(folder, _KnnJson)
        model = cls(build(KnnConfig, about.config, "model"), device=device)
        model.features = MatrixFeatures.load(folder)
        shape = ("documents", model.features.n_features)
        model.memory, _ = load_csr(folder, "memory", shape)
        path = folder / "memory.safetensors"
        check_unit_rows(path, model.memory)
        if not model.memory.shape[0]:
            raise RunError(f"{path}: holds no documents", hint="train again")
        sizes = (model.memory.shape[0], len(labels))
        model.gold, _ = load_csr(folder, "gold", sizes, minimum=0, maximum=1)
        model.calibration = about.calibration
        model.neighbours, model.exponent = about.chosen.neighbours, about.chosen.exponent
        return model

    def _require_memory(self) -> csr_array:
        if self.memory is None:
            raise UntrainedError("knn")
        return self.memory

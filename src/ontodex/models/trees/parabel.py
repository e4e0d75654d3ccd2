"""The systems `parabel` and `bonsai`: label trees trained by omikuji, ranked by beam search.

Parabel splits the labels of a node into two equal halves until they are few. Bonsai splits them
into up to a hundred clusters of any size. See docs/papers/parabel.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from ontodex.config import build, check_least
from ontodex.decide.calibrate import Calibration
from ontodex.errors import UntrainedError
from ontodex.features.matrix import LemmaConfig, MatrixFeatures
from ontodex.features.tfidf import normalise_rows
from ontodex.io.threads import count_cores, make_blocks, map_in_threads
from ontodex.models.baselines.model_json import ModelJson, load_model_json, save_model_json
from ontodex.models.baselines.sparse_rows import (
    add_bias,
    calibrate_on_dev,
    select_seen_labels,
    to_csr,
    weigh_spans,
)
from ontodex.models.interface import Explains
from ontodex.models.trees import omikuji
from ontodex.models.trees.beam_search import beam_search
from ontodex.models.trees.forest import Forest
from ontodex.types import Corpus, Doc, LabelSpace, Ranking
from ontodex.types.answers import Span

_BLOCK_DOCS = 1_024  # searched by one thread at a time (100 MiB)


@dataclass(frozen=True)
class ParabelConfig(LemmaConfig):
    """Settings of `parabel`, including those of its features. Defaults are omikuji's."""

    n_trees: int = 3  # trees whose probabilities are averaged
    beam: int = 10  # nodes kept at each level of a tree
    leaf_labels: int = 100  # a node with fewer labels is not split
    max_depth: int = 20  # levels of a tree
    clusters: int = 2  # parts a node is split into
    balanced: bool = True  # parts of equal size
    cost: float = 1.0  # liblinear's C
    prune: float = 0.1  # weights closer to 0 are dropped

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "n_trees", "beam", "leaf_labels", "max_depth")
        if not 2 <= self.clusters <= self.leaf_labels:  # omikuji stops with an error otherwise
            raise ValueError(f"clusters must be from 2 to leaf_labels, not {self.clusters}")
        if self.cost <= 0 or self.prune < 0:
            raise ValueError("cost must be above 0 and prune not negative")


@dataclass(frozen=True)
class BonsaiConfig(ParabelConfig):
    """Settings of `bonsai`: wide, shallow trees."""

    max_depth: int = 3  # levels of a tree
    clusters: int = 100  # parts a node is split into
    balanced: bool = False  # parts of equal size


class ParabelSystem(Explains):
    """Balanced binary label trees."""

    Config: ClassVar[type[ParabelConfig]] = ParabelConfig

    def __init__(self, config: ParabelConfig, *, device: str = "cpu") -> None:
        self.config = config
        self.features = MatrixFeatures(config)
        self.forest: Forest | None = None
        self.n_labels = 0
        self.calibration = Calibration.identity()
        self.work: Path | None = None  # folder for the temporary files of a training

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        self.refit(train, labels)
        self.calibration = calibrate_on_dev(self._rank, dev, labels.gold(dev))

    def refit(self, train: Corpus, labels: LabelSpace) -> None:
        rows = normalise_rows(to_csr(self.features.fit(train)))
        gold = select_seen_labels(train, labels)
        self.n_labels = labels.n_seen
        self.forest = omikuji.train_forest(rows, gold, self._translate_settings(), self.work)

    def _translate_settings(self) -> dict[str, Any]:
        """Return the settings under omikuji's names."""
        config = self.config
        return {
            "n_trees": config.n_trees,
            "min_branch_size": config.leaf_labels,
            "max_depth": config.max_depth,
            "cluster_k": config.clusters,
            "cluster_balanced": config.balanced,
            "linear_c": config.cost,
            "linear_weight_threshold": config.prune,
        }

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        return self.calibration.apply(self._rank(corpus, k))

    def _rank(self, corpus: Corpus, k: int) -> Ranking:
        forest = self._require_forest()
        rows = add_bias(normalise_rows(to_csr(self.features.transform(corpus))))
        size = min(_BLOCK_DOCS, -(-rows.shape[0] // count_cores()))

        def rank(block: slice) -> Ranking:
            found = beam_search(forest, rows[block], self.n_labels, self.config.beam)
            return Ranking.of_sparse(found, k)

        return Ranking.join(list(map_in_threads(rank, make_blocks(rows.shape[0], size))), k)

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        """Return value x weight for each word, with the summed weights of the label's paths."""
        weights = self._require_forest().sum_path_weights(column)
        return weigh_spans(self.features, doc, weights)

    def save(self, folder: Path) -> None:
        self._require_forest().save(folder)
        self.features.save(folder)
        save_model_json(folder, self.config, self.calibration)

    @classmethod
    def load(cls, folder: Path, labels: LabelSpace, *, device: str = "cpu") -> Self:
        about = load_model_json(folder, ModelJson)
        model = cls(build(cls.Config, about.config, "model"), device=device)
        model.features = MatrixFeatures.load(folder)
        model.forest = Forest.load(folder, labels.n_seen, model.features.n_features)
        model.n_labels = labels.n_seen
        model.calibration = about.calibration
        return model

    def _require_forest(self) -> Forest:
        if self.forest is None:
            name = type(self).__name__.removesuffix("System").lower()
            raise UntrainedError(name)
        return self.forest


class BonsaiSystem(ParabelSystem):
    """Wide, shallow label trees with clusters of any size."""

    Config = BonsaiConfig

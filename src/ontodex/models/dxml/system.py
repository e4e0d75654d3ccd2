"""DXML: embed documents near the mean of their label vectors and ask their nearest neighbours.

W. Zhang, J. Yan, X. Wang, H. Zha, "Deep Extreme Multi-label Learning", ICMR 2018.

    features ─ W1, ReLU ─ W2, dropout ─ L2 norm = f_x ─ nearest clusters ─ k nearest ─ their labels
     (n, m)     (n, d)      (n, e)       (n, e)                             (n, k)        (n, l)
    labels ─ label graph ─ DeepWalk = V ─ mean over a document's labels = f_y
                              (l, e)                 (n, e)

Training minimises the distance of f_x and f_y. With `embedding = "kernel"`, kernel regression
(baselines/landmarks.py) replaces the network. Deviations from the paper, with reasons and measured
effects: docs/papers/dxml.md.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from ontodex.config import build, check_least, check_range
from ontodex.decide.calibrate import Calibration
from ontodex.errors import DataError, RunError, UntrainedError
from ontodex.features.label_graph import compute_label_vectors
from ontodex.features.matrix import MatrixFeatures
from ontodex.io.progress import track
from ontodex.io.tensors import load_csr, load_tensors, save_csr, save_tensors, weight_spec
from ontodex.models.baselines.landmarks import RIDGES, Landmarks
from ontodex.models.baselines.model_json import ModelJson, load_model_json, save_model_json
from ontodex.models.baselines.neighbours import (
    MAX_EXPONENT,
    Neighbours,
    append_labels,
    build_label_matrix,
    choose_vote,
    compute_ndcg,
)
from ontodex.models.baselines.sparse_rows import CALIBRATION_RANKS, to_csr, weigh_spans
from ontodex.models.dxml.clusters import ClusterIndex, search_all
from ontodex.models.dxml.network import DxmlConfig, EmbeddingEnsemble
from ontodex.models.dxml.targets import (
    Floats,
    average_label_vectors,
    interpolate,
    scale_to_unit,
    whiten_vectors,
)
from ontodex.models.layers.sparse_input import Rows, SparseInput, compute_row_norm
from ontodex.models.network_training import train_network
from ontodex.models.weights import SHARD_BYTES, load_network, save_network
from ontodex.types import Corpus, Doc, LabelSpace, Ranking
from ontodex.types.answers import Span

logger = logging.getLogger(__name__)

_EMBED_BATCH = 1_024
_NEIGHBOURS = (10, 20, 40, 80, 160)  # tried on dev
_EXPONENTS = (0.0, 5.0, 10.0, 20.0, 40.0)
_SHARES = (0.0, 0.25, 0.5)  # of f_y in the vector of a training document, by kernel regression
_EVALUATED = 2_000  # training documents whose leave-one-out predictions are evaluated
_PROBES = (1, 2, 4, 8, 16, 32, 64)
_PROBE_GAIN = 0.0005  # nDCG@5 on dev that searching twice the clusters must add


@dataclass(frozen=True)
class _Chosen:
    """The choices that were made on dev; early runs have no ridge and no share."""

    epochs: int
    neighbours: int
    exponent: float
    probe: int
    ridge: float | None = None
    share: float | None = None

    def __post_init__(self) -> None:
        check_least(self, 1, "neighbours", "probe")
        check_range(self, 0, MAX_EXPONENT, "exponent")


@dataclass(frozen=True)
class _DxmlJson(ModelJson):
    """The fields of model.json."""

    chosen: _Chosen


class DxmlSystem:
    """Document embeddings and their nearest neighbours; new documents join without training."""

    Config = DxmlConfig

    def __init__(self, config: DxmlConfig, *, device: str = "cpu") -> None:
        self.config, self.device = config, torch.device(device)
        self.work: Path | None = None  # folder of checkpoints; None: training cannot be resumed
        self.features = MatrixFeatures(config)
        self.network: EmbeddingEnsemble | None = None
        # Kernel regression instead of the network; `target_share` is that of f_y in the memory.
        self.landmarks: Landmarks | None = None
        self.weights: Floats = np.empty((0, 0), np.float32)  # (landmarks, e)
        self.ridge, self.target_share = config.ridge or 0.3, 0.25
        self.has_chosen = False  # ridge, share, neighbours, exponent: by leave-one-out predictions
        self.memory = ClusterIndex(np.zeros((1, 1), np.float32), np.zeros((0, 1), np.float32))
        self.gold = csr_array(np.zeros((0, 0), np.float32))  # (documents, labels)
        self.epochs = config.train.epochs
        self.neighbours = config.neighbours or 20
        self.exponent = config.exponent if config.exponent >= 0 else 20.0
        self.probe = config.probe or 8
        self.calibration = Calibration.identity()

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        """Train (Algorithm 1), then choose neighbours, exponent and probes on dev."""
        self.epochs, self.has_chosen = self.config.train.epochs, False
        self._train(train, dev, labels)
        if len(dev):
            self._tune(self.embed(dev), labels.gold(dev))

    def refit(self, train: Corpus, labels: LabelSpace) -> None:
        """Train on these documents with the choices made on dev; the calibration stays."""
        self._train(train, train.select([]), labels)

    def _train(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        rows = to_csr(self.features.fit(train))
        gold = build_label_matrix(train, labels)
        has_labels = np.flatnonzero(np.diff(gold.indptr))
        if not len(has_labels):
            raise DataError("no training document has a label", path=train.folder)
        self.gold, rows = csr_array(gold[has_labels]), csr_array(rows[has_labels])
        vectors = compute_label_vectors(train, labels, self.config, device=str(self.device))  # V
        if self.config.whiten_labels:
            vectors = whiten_vectors(vectors, labels.frequency)
        targets = average_label_vectors(self.gold, vectors, unit=self.config.unit_targets)
        if self.config.embedding == "kernel":
            vectors = self._fit_kernel(rows, targets, dev, labels.gold(dev))
        else:
            vectors = self._train_network(rows, targets, dev, labels.gold(dev))
        n_clusters = self.config.clusters or round(len(vectors) ** 0.5)
        seed, device = self.config.train.seed, str(self.device)
        self.memory = ClusterIndex.fit(
            _round_to_half(vectors), n_clusters, seed=seed, device=device
        )

    def _train_network(
        self, rows: csr_array, targets: Floats, dev: Corpus, dev_gold: csr_array
    ) -> Floats:
        """Train the network; return the embeddings of the training documents."""
        settings, data = self.config.train, SparseInput(rows, self.device)
        torch.manual_seed(settings.seed)
        size = (self.features.n_features, targets.shape[1], compute_row_norm(rows))
        self.network = network = EmbeddingEnsemble(self.config, *size).to(self.device)
        target = torch.from_numpy(targets).to(self.device)
        dev_data = self._encode(dev)

        def loss(rows: Rows) -> Tensor:
            at = torch.from_numpy(rows).to(self.device, non_blocking=True)
            return network.loss(*data.batch(rows), target[at])

        def score() -> float:
            vectors, queries = self._embed(data), self._embed(dev_data)
            nearest = search_all(queries, vectors, self.neighbours, self.device)
            return compute_ndcg(
                dev_gold, nearest.vote(self.gold, self.neighbours, self.exponent, 5)
            )

        self.epochs = train_network(
            network,
            data.lengths,
            loss,
            settings,
            score=score,
            has_dev=dev_gold.nnz > 0,
            folder=self.work,
            epochs=self.epochs,
        )
        return self._embed(data)

    def _fit_kernel(
        self, rows: csr_array, targets: Floats, dev: Corpus, dev_gold: csr_array
    ) -> Floats:
        """Fit kernel regression onto the targets; return the vectors of the training documents.

        The vector of a training document lies between its target and its leave-one-out prediction,
        because new documents have predictions only. Where every document is a landmark, all
        leave-one-out predictions are known. They choose ridge, target share, neighbours and
        exponent; otherwise dev does.
        """
        config, weigh, n = self.config, self.features.kind == "sparse", rows.shape[0]
        landmarks = Landmarks.of(rows, config, weigh_by_count=weigh, seed=config.train.seed)
        self.landmarks, equations = landmarks, landmarks.build_equations(rows, targets)
        is_full = len(landmarks) == n
        some = np.random.default_rng(config.train.seed).permutation(n)[:_EVALUATED]

        def predict(ridge: float) -> Floats:
            factor = equations.factorise(ridge)
            self.weights = factor.solve()
            if not is_full:
                return self._embed_by_kernel(rows)
            return scale_to_unit(factor.predict_left_out(self.weights))

        def search(predicted: Floats, vectors: Floats) -> tuple[Neighbours, csr_array]:
            if not is_full:
                return search_all(self.embed(dev), vectors, max(_NEIGHBOURS), self.device), dev_gold
            found = search_all(predicted[some], vectors, max(_NEIGHBOURS) + 1, self.device)
            return found.drop_self(some), csr_array(self.gold[some])

        def evaluate(ridge: float) -> Iterator[tuple[float, tuple[float, float, int, float]]]:
            predicted = predict(ridge)
            for share in _SHARES:
                nearest, gold = search(predicted, interpolate(predicted, targets, share))
                k, exponent = choose_vote(nearest, self.gold, gold, *self._list_votes())
                ndcg = compute_ndcg(gold, nearest.vote(self.gold, k, exponent, 5))
                yield ndcg, (ridge, share, k, exponent)

        if not self.has_chosen and (is_full or dev_gold.nnz):
            ridges = (config.ridge,) if config.ridge else RIDGES
            tracked = track(ridges, "solving", len(ridges))
            _, best = max(result for ridge in tracked for result in evaluate(ridge))
            self.ridge, self.target_share, self.neighbours, self.exponent = best
            self.has_chosen = True
        return interpolate(predict(self.ridge), targets, self.target_share)

    def _embed_by_kernel(self, rows: csr_array) -> Floats:
        assert self.landmarks is not None
        blocks = self.landmarks.make_blocks(rows.shape[0])
        found = [self.landmarks.compute_kernel(rows[block]) @ self.weights for block in blocks]
        return scale_to_unit(np.concatenate(found))

    def _tune(self, queries: Floats, gold: csr_array) -> None:
        """Choose neighbours and exponent among all documents, then the fewest probes; calibrate."""
        counts, exponents = self._list_votes()
        nearest = search_all(queries, self.memory.vectors, max(counts), self.device)
        if gold.nnz:
            self.neighbours, self.exponent = choose_vote(
                nearest, self.gold, gold, counts, exponents
            )
            least = compute_ndcg(gold, self._vote(nearest, 5)) - _PROBE_GAIN
            self.probe = self.config.probe or self._choose_probe(queries, gold, least)
        ranking = self._vote(self._search(queries), CALIBRATION_RANKS)
        self.calibration = Calibration.fit(ranking, gold)
        by_kernel = f"ridge {self.ridge}, {100 * self.target_share:.0f} % of f_y"
        logger.info(
            "%s, %s neighbours, exponent %s, %s of %s clusters",
            by_kernel if self.landmarks is not None else f"{self.epochs} epochs",
            self.neighbours, self.exponent, self.probe, len(self.memory.centres),
        )  # fmt: skip

    def _list_votes(self) -> tuple[Sequence[int], Sequence[float]]:
        """Return the numbers of neighbours and the exponents to choose from."""
        config = self.config
        if self.has_chosen:
            return (self.neighbours,), (self.exponent,)
        return (
            (config.neighbours,) if config.neighbours else _NEIGHBOURS,
            (config.exponent,) if config.exponent >= 0 else _EXPONENTS,
        )

    def _choose_probe(self, queries: Floats, gold: csr_array, least: float) -> int:
        """Return the fewest clusters to search that reach the nDCG@5 `least`."""
        for probe in _PROBES:
            nearest = self.memory.search(queries, self.neighbours, probe)
            if compute_ndcg(gold, self._vote(nearest, 5)) >= least:
                return probe
        return len(self.memory.centres)

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        """Return the k labels with the most votes of the nearest neighbours (Algorithm 2)."""
        return self.calibration.apply(self._vote(self._search(self.embed(corpus)), k))

    def embed(self, corpus: Corpus) -> Floats:
        """Return f_x of each document, (documents, e)."""
        if self.landmarks is not None:
            return self._embed_by_kernel(to_csr(self.features.transform(corpus)))
        self._require_network()
        return self._embed(self._encode(corpus))

    def _encode(self, corpus: Corpus) -> SparseInput:
        return SparseInput(to_csr(self.features.transform(corpus)), self.device)

    def _embed(self, data: SparseInput) -> Floats:
        network = self._require_network().eval()
        order = np.arange(len(data))
        with torch.inference_mode():
            parts = [
                network(*data.batch(order[i : i + _EMBED_BATCH])).cpu().numpy()
                for i in range(0, len(order), _EMBED_BATCH)
            ]
        return np.concatenate([np.empty((0, network.size), np.float32), *parts])

    def _search(self, queries: Floats) -> Neighbours:
        return self.memory.search(queries, self.neighbours, self.probe)

    def _vote(self, nearest: Neighbours, k: int) -> Ranking:
        return nearest.vote(self.gold, self.neighbours, self.exponent, k)

    def update(self, corpus: Corpus, labels: LabelSpace) -> None:
        """Add documents to the memory, perhaps with new labels; the network does not change."""
        self.memory = self.memory.add(_round_to_half(self.embed(corpus)))
        self.gold = append_labels(self.gold, corpus, labels)

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        """Return value x gradient towards the neighbours that have the label, for each word."""
        one = Corpus.of([doc])
        direction = self._find_direction(self.embed(one), column)
        by_network = self.landmarks is None
        gradient = (self._differentiate_network if by_network else self._differentiate_kernel)(
            one, direction
        )
        return weigh_spans(self.features, doc, gradient)

    def _differentiate_kernel(self, one: Corpus, direction: Floats) -> csr_array:
        assert self.landmarks is not None
        row = to_csr(self.features.transform(one))
        f = self.landmarks.compute_kernel(row) @ self.weights  # (1, e)
        direction = direction / max(float(np.linalg.norm(f)), 1e-12)
        return self.landmarks.compute_gradient(row, (self.weights @ direction.T)[:, 0])

    def _differentiate_network(self, one: Corpus, direction: Floats) -> csr_array:
        columns, starts, values = self._encode(one).batch(np.array([0]))
        values.requires_grad_()
        network, towards = self._require_network().eval(), torch.from_numpy(direction)
        component = network.project_onto(columns, starts, values, towards.to(self.device))
        (gradient,) = torch.autograd.grad(component, values)
        found = (gradient.cpu().numpy(), columns.cpu().numpy(), np.array([0, len(columns)]))
        return csr_array(found, shape=(1, self.features.n_features))

    def _find_direction(self, f_x: Floats, column: int) -> Floats:
        """Return (1, e): from the neighbours without a label to those that have it.

        Neighbours are weighted by their share of the vote. The space is centred, so the mean of no
        neighbours is 0.
        """
        votes = self._search(f_x).weigh(self.neighbours, self.exponent, len(self.memory))
        share, vectors = votes.data, self.memory.vectors[votes.indices]
        has = self.gold[:, [column]].toarray()[votes.indices, 0] > 0
        sides = [share[side] @ vectors[side] / max(float(share[side].sum()), 1e-12)
                 for side in (has, ~has)]  # fmt: skip
        return np.asarray((sides[0] - sides[1])[None], np.float32)

    def _require_network(self) -> EmbeddingEnsemble:
        if self.network is None:
            raise UntrainedError("dxml")
        return self.network

    def save(self, folder: Path) -> None:
        if self.landmarks is not None:
            self.landmarks.save(folder, self.weights)
        else:
            save_network(folder, "network", self._require_network())
        memory = {"vectors": self.memory.vectors.astype(np.float16)}
        save_tensors(folder, "memory", memory, shard_bytes=SHARD_BYTES)
        save_tensors(folder, "centres", {"centres": self.memory.centres})
        save_csr(folder, "gold", self.gold)
        self.features.save(folder)
        chosen = {
            "epochs": self.epochs,
            "neighbours": self.neighbours,
            "exponent": self.exponent,
            "probe": self.probe,
            "ridge": self.ridge,
            "share": self.target_share,
        }
        save_model_json(folder, self.config, self.calibration, chosen=chosen)

    @classmethod
    def load(cls, folder: Path, labels: LabelSpace, *, device: str = "cpu") -> Self:
        about = load_model_json(folder, _DxmlJson)
        model = cls(build(DxmlConfig, about.config, "model"), device=device)
        model.features = MatrixFeatures.load(folder)
        model.calibration, chosen = about.calibration, about.chosen
        model.epochs, model.neighbours = chosen.epochs, chosen.neighbours
        model.exponent, model.probe = chosen.exponent, chosen.probe
        model.ridge = model.ridge if chosen.ridge is None else chosen.ridge
        model.target_share = model.target_share if chosen.share is None else chosen.share
        model.memory = _load_memory(folder)
        size = model.memory.vectors.shape[1]
        model.gold, _ = load_csr(
            folder, "gold", (len(model.memory), len(labels)), minimum=0, maximum=1
        )
        if model.config.embedding == "kernel":
            shape = (model.features.n_features, size)
            model.landmarks, model.weights = Landmarks.load(folder, model.config, shape)
        else:
            with torch.device("meta"):  # saves the memory and time of weights that are read next
                network = EmbeddingEnsemble(model.config, model.features.n_features, size, 1.0)
            load_network(folder, "network", network)
            model.network = network.to(model.device).eval()
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

"""Deep Level-wise XMLC: one network for each level of an ontology, merged into one label set.

D. Li, J. Zhang, P. Li, "Large-scale Semantic Indexing with Deep Level-wise Extreme Multi-label
Learning", WWW 2019.

    pass 1  words, keywords ─ levels ─ OFO ─┐ predictions above and below
    pass 2  words, keywords, neighbours ─ levels ─ OFO ─ pointer generator ─ label set

The modules in the order of the paper: levels, streams, word_encoder, pooling, network, training,
cross_fitting, thresholds (OFO), merge, pointer. Our reading of the text: docs/papers/levelwise.md.
Our variant `attentive-levels` is this system with another network and other constants.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Sequence
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.config import build
from ontodex.errors import ConfigError, UntrainedError
from ontodex.features.tokens import check_fields, find_doc_spans
from ontodex.io.files import write_text
from ontodex.io.json_schema import load_json
from ontodex.models.interface import Explains
from ontodex.models.layers.ragged import Ragged
from ontodex.models.levelwise import levels
from ontodex.models.levelwise.cache_key import AFTER_PASS_1, AFTER_PASS_2, make_cache_key
from ontodex.models.levelwise.cluster_levels import add_clusters, build_label_tree
from ontodex.models.levelwise.config import LevelsConfig, LevelwiseConfig
from ontodex.models.levelwise.cross_fitting import PassPredictions, cross_fit
from ontodex.models.levelwise.levels import (
    Level,
    join_levels,
    place_labels,
    plan_levels,
    split_gold_by_level,
)
from ontodex.models.levelwise.merge import Merge, Predictions
from ontodex.models.levelwise.network import LevelNetworks, PooledLevels, Tables
from ontodex.models.levelwise.pass_data import PassData, Targets
from ontodex.models.levelwise.pointer import Hierarchy
from ontodex.models.levelwise.prediction import Pass, predict
from ontodex.models.levelwise.run_json import LevelwiseJson
from ontodex.models.levelwise.stage_cache import StageCache
from ontodex.models.levelwise.streams import StreamEncoder, Streams, make_neighbour_streams
from ontodex.models.levelwise.thresholds import (
    DEPTH,
    Thresholds,
    apply_thresholds,
    average_logits,
    draw_ofo,
    find_best_shifts,
    find_matching_shifts,
    learn_level_thresholds,
    learn_thresholds,
    shift_logits,
    trace_ofo_by_level,
)
from ontodex.models.levelwise.training import Trainer, announce_training
from ontodex.models.network_training import DEV_DEPTH
from ontodex.models.trees.label_tree import LabelTree
from ontodex.ontology.levels import (
    MOST_LEVELS,
    Expand,
    choose_max_level,
    compute_label_ancestors,
    compute_label_levels,
)
from ontodex.types import Corpus, Doc, LabelSpace, Ranking
from ontodex.types.answers import Illustration, PredictionResult, SetAttention, Span

logger = logging.getLogger(__name__)


class Levelwise(Explains):
    """The system: fits the networks of all levels, ranks labels, predicts and explains sets."""

    Config: ClassVar[type[Any]] = LevelwiseConfig
    Network: ClassVar[type[LevelNetworks]] = PooledLevels

    def __init__(self, config: LevelsConfig, *, device: str = "cpu") -> None:
        self.config, self.device = config, torch.device(device)
        self.work: Path | None = None  # folder of finished stages and checkpoints
        self.stream_encoder: StreamEncoder | None = None
        self.tree: LabelTree | None = None  # without an ontology: levels are clusters of labels
        self.n_labels = 0  # columns of labels; columns of clusters follow
        self.levels: list[Level] = []
        self.passes: list[Pass] = []
        self.merging: Merge | None = None
        self.curves: dict[str, Any] = {}  # Figure 5
        self.seconds: dict[str, float] = {}  # training time of each stage
        self.memory: dict[str, int] = {}  # peak GPU memory of each stage, in bytes
        self.has_warned = False  # of documents without keywords

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        data = self.prepare_data(train, dev, labels)
        self.passes, self.seconds, self.memory = [], {}, {}
        announce_training(self.make_trainer(data), self._count_passes())
        has_two_passes = self._count_passes() > 1
        predicted = self._fit_pass(data, "pass 1", AFTER_PASS_1, is_last=not has_two_passes)
        if has_two_passes:
            data = self._add_neighbours(data, predicted.train)
            predicted = self._fit_pass(data, "pass 2", AFTER_PASS_2, predicted, is_last=True)
        self.curves = trace_ofo_by_level(self.config, self.levels, predicted.train, data.at_level)
        label_vectors = None if data.tables.labels is None else data.tables.labels[1:].numpy()
        assert self.merging is not None
        self.merging.fit(
            Predictions(predicted.train, data.gold),
            Predictions(self._predict(data.dev_streams, DEV_DEPTH)[-1], data.dev_gold),
            self.thresholds,
            self._make_stage_cache(data, data.tables, ()),
            label_vectors,
        )

    def prepare_data(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> PassData:
        """Plan the levels, encode the corpora, and return the data of pass 1."""
        check_fields(train, self.config)
        if not self.config.max_level and labels.ontology is not None:
            most = choose_max_level(labels, self.config.level_of)
            self.config = dataclasses.replace(self.config, max_level=most)
        config = self.config
        if config.folds > max(len(train), 2):  # a corpus may have one document
            raise ConfigError(
                f"[model] folds must be at most {len(train):,} (documents), not {config.folds:,}",
                hint="--set model.folds=2; each fold is one more training",
            )
        self.n_labels = labels.n_seen
        if config.ontology == "cluster":
            self.tree = build_label_tree(train, labels, config)
            labels = add_clusters(labels, self.tree)
        placed = place_labels(
            labels,
            max_level=config.max_level or MOST_LEVELS,
            rule=config.level_of,
            categories=config.categories,
        )
        # No document has a cluster as label: a cluster is true where a label below it is.
        final: Expand = "all" if self.tree is not None else "none"
        gold, dev_gold = labels.gold(train), labels.gold(dev)
        at_level = split_gold_by_level(gold, labels, placed, final)
        training_gold = at_level
        if self.tree is None and config.expand != "none":
            training_gold = split_gold_by_level(gold, labels, placed, config.expand)
        self.levels = plan_levels(
            training_gold, placed, labels.n_seen, pooling=config.pooling, chunks=config.chunks
        )
        self.merging = self._make_merge(labels)
        if config.ontology == "given" and config.max_level != 1 and len(self.levels) == 1:
            logger.warning(
                "all labels are at one level of the ontology: training one flat network, without "
                "neighbour levels"
            )
        self.stream_encoder = StreamEncoder.fit(train, config)
        dev_levels = split_gold_by_level(dev_gold, labels, placed, final)
        return PassData(
            train,
            dev,
            self.stream_encoder.encode(train, self.device),
            self.stream_encoder.encode(dev, self.device),
            Targets(self.levels, training_gold, all_documents=config.documents == "all"),
            Targets(self.levels, dev_levels, all_documents=False),
            at_level,
            csr_array(reduce(add, at_level.values())),
            dev_gold,
            self.stream_encoder.load_prepared_tables(train, labels.ids[: labels.n_seen]),
        )

    def make_trainer(self, data: PassData) -> Trainer:
        """Return the trainer of the networks of a pass."""
        tables = data.tables
        if data.streams.neighbours is None:
            tables = tables.without_labels()
        return Trainer(
            self.config,
            self.Network,
            self.levels,
            tables,
            data.streams,
            data.targets,
            data.dev_streams,
            data.dev_targets,
            self.device,
        )

    def _make_merge(self, labels: LabelSpace) -> Merge:
        """Return the merging of the levels, not yet fitted."""
        n = labels.n_seen
        level = np.zeros(n, dtype=np.int64)
        for one in self.levels:
            level[one.columns] = one.number
        above = csr_array(compute_label_ancestors(labels)[:n, :n])
        hierarchy = Hierarchy(level, above, labels.frequency[:n], n_clusters=n - self.n_labels)
        return Merge(self.config, hierarchy, str(self.device))

    def _fit_pass(
        self,
        data: PassData,
        name: str,
        later: Sequence[str],
        before: PassPredictions | None = None,
        *,
        is_last: bool,
    ) -> PassPredictions:
        """Train a pass, learn its thresholds and logit shifts, and return its predictions.

        Thresholds are learned from this pass, or from the mean of both passes.
        """
        trainer = self.make_trainer(data)
        stages = self._make_stage_cache(data, trainer.tables, later)
        earlier = before.weights if before else ()
        result = cross_fit(trainer, stages, name, earlier, keep_weights=before is None)
        dev = predict(result.network, self.levels, data.dev_streams, None, DEPTH, self.device)
        is_continued = self.config.pass2_init == "continued" and not is_last
        weights = result.weights if is_continued else ()
        predicted = PassPredictions(result.out_of_fold, dev, weights)
        if before is not None and self.config.average_passes:
            predicted = before.average_with(predicted)
        at_level = learn_level_thresholds(self.config, self.levels, predicted.train, data.at_level)
        ofo = learn_thresholds(self.config, join_levels(predicted.train), data.gold)
        shifts = self._find_shifts(predicted, data.dev_gold, ofo.thresholds, is_last=is_last)
        self.passes.append(Pass(result.network, ofo, at_level, shifts))
        return predicted

    def _find_shifts(
        self, predicted: PassPredictions, gold: csr_array, thresholds: Thresholds, *, is_last: bool
    ) -> NDArray[np.float64]:
        """Return the logit shift of each level."""
        if not self.config.logit_shift:
            return np.zeros(len(self.levels))
        if not is_last:
            return find_matching_shifts(predicted.train, predicted.dev, thresholds)
        assert self.merging is not None
        # Without clusters, which are easy to predict and would outweigh the labels.
        labels = [self.merging.drop_clusters(ranking) for ranking in predicted.dev]
        return find_best_shifts(labels, gold, thresholds)

    def _count_passes(self) -> int:
        return 2 if self.config.reads_levels and len(self.levels) > 1 else 1

    def _make_stage_cache(self, data: PassData, tables: Tables, later: Sequence[str]) -> StageCache:
        total = self._count_passes() * (1 + self.config.folds) + (
            self.config.merge in ("auto", "pointer")
        )
        key = self._cache_key(data, tables, later)
        return StageCache(self.work, key, self.seconds, total, self.memory)

    def _cache_key(self, data: PassData, tables: Tables, later: Sequence[str]) -> dict[str, Any]:
        assert self.merging is not None
        ancestors = self.merging.hierarchy.ancestors
        return make_cache_key(self.config, data, tables, self.levels, ancestors, later)

    def _add_neighbours(self, data: PassData, predictions: Sequence[Ranking]) -> PassData:
        """Return the data of pass 2: with the labels that pass 1 predicts, for training documents
        out-of-fold."""
        labels = apply_thresholds(predictions, self.passes[-1].thresholds)
        streams = make_neighbour_streams(labels, self.config.neighbours, self.device)
        dev = self._make_neighbours(self._predict(data.dev_streams, DEPTH)[-1])
        return dataclasses.replace(
            data,
            streams=dataclasses.replace(data.streams, neighbours=streams),
            dev_streams=dataclasses.replace(data.dev_streams, neighbours=dev),
        )

    def _make_neighbours(self, rankings: Sequence[Ranking]) -> list[Ragged]:
        """Return the neighbour streams of pass 2 from the predictions of pass 1."""
        labels = apply_thresholds([r.cut(DEPTH) for r in rankings], self.passes[0].thresholds)
        return make_neighbour_streams(labels, self.config.neighbours, self.device)

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        """Return the k best labels; those of the pointer generator's label set come first."""
        return self.predict(corpus, k).ranking

    def decide(self, corpus: Corpus) -> Ranking:
        """Return the label set of each document, with the probabilities of `rank`."""
        return self.predict(corpus, DEPTH).label_sets

    def predict(self, corpus: Corpus, k: int) -> PredictionResult:
        """Return the k best labels, the label sets and the standalone probabilities."""
        return self.merge_levels(self.predict_levels(corpus, k)[-1], k)

    def merge_levels(self, rankings: Sequence[Ranking], k: int) -> PredictionResult:
        """Return the same from the predictions of the levels in the last pass."""
        thresholds = self.thresholds
        assert self.merging is not None
        return self.merging.predict(rankings, thresholds, k)

    @property
    def thresholds(self) -> Thresholds:
        """The OFO threshold of each column."""
        return self._require_passes()[-1].thresholds

    def label_thresholds(self) -> Thresholds:
        """Return the OFO threshold of each column."""
        return self.thresholds

    def learn_from_decisions(
        self, corpus: Corpus, accepted: csr_array, rejected: csr_array
    ) -> None:
        """Continue OFO with the labels that people accepted or rejected for these documents."""
        predicted = join_levels([r.cut(DEPTH) for r in self.predict_levels(corpus)[-1]])
        last = self.passes[-1]
        own = len(last.thresholds)
        known = [
            csr_array(csr_array(m[:, : self.n_labels]), shape=(len(corpus), own))
            for m in (accepted, rejected)
        ]
        self.passes[-1] = dataclasses.replace(last, ofo=last.ofo.update(predicted, *known))

    def label_levels(self, labels: LabelSpace) -> NDArray[np.int32]:
        """Return the level of every column, by the settings of this system."""
        config = self.config
        most = config.max_level or MOST_LEVELS
        return compute_label_levels(labels, max_level=most, rule=config.level_of)

    def predict_levels(self, corpus: Corpus, depth: int = DEPTH) -> list[list[Ranking]]:
        """Return, for each pass and each level, the best `depth` labels of every document."""
        self._require_passes()
        return self._predict(self._encode(corpus), max(depth, DEPTH))

    def _encode(self, corpus: Corpus) -> Streams:
        """Return the streams of new documents; warn once where known keywords are missing."""
        assert self.stream_encoder is not None
        if not self.has_warned and self.stream_encoder.lacks_keywords(corpus):
            self.has_warned = True
            logger.warning(
                "this run was trained with authors' keywords, and these documents have none that "
                "it knows: its predictions will be worse; pass keywords with --keyword, or as "
                "`keywords` in a table or JSON lines"
            )
        return self.stream_encoder.encode(corpus, self.device)

    def _predict(
        self, streams: Streams, depth: int, passes: Sequence[Pass] | None = None
    ) -> list[list[Ranking]]:
        """Return, for each of these passes (None: all), the predictions of each level."""
        shifted: list[list[Ranking]] = []  # one list per pass
        logits: list[Ranking] = []
        streams = dataclasses.replace(streams, neighbours=None)
        for one in self.passes if passes is None else passes:
            if shifted:
                neighbours = self._make_neighbours(shifted[-1])
                streams = dataclasses.replace(streams, neighbours=neighbours)
            now = predict(one.network, self.levels, streams, None, depth, self.device)
            is_averaged = bool(logits) and self.config.average_passes
            logits = average_logits(logits, now) if is_averaged else now
            shifted.append(list(map(shift_logits, logits, one.logit_shifts.tolist())))
        return shifted

    def _require_passes(self) -> list[Pass]:
        if not self.passes:
            raise UntrainedError(type(self).__name__)
        return self.passes

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        """Return the contribution of each word to the logit of a label in the last pass."""
        network = self._require_passes()[-1].network
        index = next((i for i, level in enumerate(self.levels) if column in level.columns), None)
        spans = find_doc_spans(doc, self.config)[: self.config.max_length]
        if index is None or not spans:
            return []
        streams = self._encode(Corpus.of([doc]))
        if len(self.passes) > 1:
            neighbours = self._make_neighbours(self._predict(streams, DEPTH, self.passes[:1])[0])
            streams = dataclasses.replace(streams, neighbours=neighbours)
        label, row = int(np.searchsorted(self.levels[index].columns, column)), np.array([0])
        added = network.explain_logit(index, label, streams.words.pad(row), streams.pad_sets(row))
        return [
            Span(start, end, weight)
            for (start, end, _), weight in zip(spans, added[0].tolist(), strict=False)
        ]

    def explain_set(self, doc: Doc) -> SetAttention | None:
        """Return the steps of the pointer generator; None where levels are merged without one."""
        assert self.merging is not None
        if self.merging.rule != "pointer":
            return None
        rankings = self.predict_levels(Corpus.of([doc]))[-1]
        return self.merging.explain_set(rankings, self.thresholds)

    def illustrations(self) -> list[Illustration]:
        """Return Figure 5: precision, recall and F of OFO over the training documents, by level."""
        return [draw_ofo(self.curves)]

    def report_pages(self) -> dict[str, str]:
        return {}

    def save(self, folder: Path) -> None:
        passes = self._require_passes()
        assert self.stream_encoder is not None
        assert self.merging is not None
        self.stream_encoder.save(folder)
        if self.tree is not None:
            self.tree.save(folder)
        for number, one in enumerate(passes, start=1):
            one.save(folder, number)
        about = {
            "settings": dataclasses.asdict(self.config),
            "kind": self.stream_encoder.kind,
            "passes": len(passes),
            "levels": levels.to_json(self.levels),
            **self.merging.save(folder),
        }
        write_text(folder / "levelwise.json", json.dumps(about, indent=1) + "\n")
        write_text(folder / "ofo.json", json.dumps(self.curves, indent=1) + "\n")

    @classmethod
    def reads_keywords(cls, folder: Path) -> bool:
        """Return whether the run in `folder` was trained with authors' keywords."""
        return StreamEncoder.has_author_keywords(folder)

    @classmethod
    def load(cls, folder: Path, labels: LabelSpace, *, device: str = "cpu") -> Self:
        about = load_json(folder / "levelwise.json", LevelwiseJson)
        system = cls(build(cls.Config, about.settings, "model"), device=device)
        config = system.config
        system.stream_encoder = StreamEncoder.load(folder, config, about.kind)
        system.n_labels = labels.n_seen
        if config.ontology == "cluster":
            system.tree = LabelTree.load(folder, labels.n_seen)
            labels = add_clusters(labels, system.tree)
        system.levels = levels.from_json(about.levels, labels.n_seen)
        system.merging = system._make_merge(labels).load(folder, about)
        system.curves = load_json(folder / "ofo.json", dict[str, dict[str, list[float]]])
        sizes = {"levels": len(system.levels), "labels": labels.n_seen}
        for number in range(1, about.passes + 1):
            with torch.device("meta"):  # saves the memory and time of weights that are read next
                network = system.make_network(labels.n_seen if number > 1 else 0)
            system.passes.append(Pass.load(folder, number, network, sizes, system.device))
        return system

    def make_network(self, n_labels: int) -> LevelNetworks:
        """Return the networks of a pass without trained weights; pass 1 has `n_labels` = 0."""
        assert self.stream_encoder is not None
        start = [torch.zeros(len(level)) for level in self.levels]
        tables = self.stream_encoder.make_tables(n_labels)
        return self.Network(self.config, self.levels, tables, start)

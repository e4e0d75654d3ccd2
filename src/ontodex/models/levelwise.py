"""Deep Level-wise XMLC (paper 000): levels of an ontology, a network each, merged into one set.

    pass 1  words, keywords ─ levels ─ OFO ─┐ predictions above and below
    pass 2  words, keywords, neighbours ─ levels ─ OFO ─ pointer generator ─ label set
            (its log-odds, or the mean of both passes')

level_plan.py has the levels, level_reading.py the streams, level_network.py the network of a level,
level_pooling.py its pooling, level_passes.py its training, level_pieces.py what is finished of it,
level_decide.py OFO, pointer.py the pointer generator, level_merge.py the way to one set; this file
is the system they make. Readings and deviations: docs/papers/levelwise.md.
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
from ontodex.decide.ofo import OFO
from ontodex.errors import ConfigError, RunError
from ontodex.evaluate.plots import Illustration, Panel
from ontodex.features.tokens import check_fields, doc_spans
from ontodex.files import write_text
from ontodex.models import level_plan
from ontodex.models.base import Ranked, SetAttention, Span
from ontodex.models.label_tree import LabelTree
from ontodex.models.level_clusters import grow_tree, with_clusters
from ontodex.models.level_decide import (
    DEPTH,
    Thresholds,
    best_moves,
    learn_thresholds,
    level_curves,
    level_thresholds,
    matching_moves,
    mean_odds,
    moved,
    refine,
)
from ontodex.models.level_merge import Judged, Merge
from ontodex.models.level_network import LevelNetworks, LevelwiseConfig, Tables
from ontodex.models.level_passes import (
    Pass,
    Said,
    Stage,
    Streams,
    Targets,
    Trainer,
    cross_fit,
    neighbour_streams,
    predict,
    restore,
    weights_of,
)
from ontodex.models.level_pieces import Pieces, digest_of, digest_of_ones
from ontodex.models.level_plan import (
    Level,
    gold_by_level,
    place_labels,
    plan_levels,
    side_by_side,
)
from ontodex.models.level_reading import Reading
from ontodex.models.neural import DEV_DEPTH, SHARD_BYTES, Ragged
from ontodex.models.pointer import Hierarchy
from ontodex.ontology.levels import Expand, Levels, label_ancestors, label_levels
from ontodex.train import store
from ontodex.types import Corpus, Doc, LabelSpace, Ranking

logger = logging.getLogger(__name__)

PIECES = 4  # changes where finished pieces would not be made the same way any more
# What pass 1 does not depend on; trainings that differ in these share it.
AFTER_PASS_1 = (
    "inputs", "neighbours", "second", "second_epochs", "second_lr", "average_passes",
    "move_odds", "first_lambda", "ofo_prior", "ofo_passes", "merge", "pointer",
)  # fmt: skip
AFTER_PASS_2 = ("average_passes", "merge", "pointer")


class Levelwise:
    """fit, rank, decide, explain."""

    Config: ClassVar[type[LevelwiseConfig]] = LevelwiseConfig

    def __init__(self, config: LevelwiseConfig, *, device: str = "cpu") -> None:
        self.config, self.device = config, torch.device(device)
        self.work: Path | None = None  # where finished pieces and checkpoints go
        self.reading: Reading | None = None
        self.tree: LabelTree | None = None  # where levels are clusters of labels
        self.n_labels = 0  # columns that can be answers; clusters come after them
        self.levels: list[Level] = []
        self.passes: list[Pass] = []
        self.merging: Merge | None = None
        self.curves: dict[str, Any] = {}  # Figure 5
        self.seconds: dict[str, float] = {}  # what each part of the training took
        self.memory: dict[str, int] = {}  # and the most of the GPU, in bytes
        self.has_warned = False  # that documents came without the keywords it learned from

    # -------------------------------------------------------------------------------------- fit

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        stage = self.stage(train, dev, labels)
        self.passes, self.seconds, self.memory = [], {}, {}
        two = self.config.reads_levels and len(self.levels) > 1
        said = self._pass(stage, "pass 1", AFTER_PASS_1, is_last=not two)
        if two:
            stage = self._with_neighbours(stage, said.train)
            said = self._pass(stage, "pass 2", AFTER_PASS_2, said, is_last=True)
        self.curves = level_curves(self.config, self.levels, said.train, stage.at_level)
        label_vectors = None if stage.tables.labels is None else stage.tables.labels[1:].numpy()
        assert self.merging is not None
        self.merging.fit(
            Judged(said.train, stage.gold),
            Judged(self._predict(stage.dev_streams, DEV_DEPTH)[-1], stage.dev_gold),
            self.thresholds,
            self._pieces(stage, stage.tables, ()),
            label_vectors,
        )

    def stage(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> Stage:
        """Everything that pass 1 is trained from; the levels are planned and the words read."""
        config = self.config
        check_fields(train, config)
        if config.folds > max(len(train), 2):  # one document is a corpus too
            raise ConfigError(
                f"[model] folds must be at most {len(train):,} (documents), not {config.folds:,}",
                hint="--set model.folds=2; each fold is one more training",
            )
        self.n_labels = labels.n_seen
        if config.ontology == "cluster":
            self.tree = grow_tree(train, labels, config)
            labels = with_clusters(labels, self.tree)
        placed = self._placed(labels)
        # Clusters are no document's labels: they are true where a label below them is.
        final: Expand = "all" if self.tree is not None else "none"
        gold, dev_gold = labels.gold(train), labels.gold(dev)
        at_level = gold_by_level(gold, labels, placed, final)
        taught = at_level
        if self.tree is None and config.expand != "none":
            taught = gold_by_level(gold, labels, placed, config.expand)
        self.levels = plan_levels(
            taught, placed, labels.n_seen, pooling=config.pooling, chunks=config.chunks
        )
        self.merging = self._merge(labels)
        if config.ontology == "given" and config.max_level > 1 and len(self.levels) == 1:
            logger.warning(
                "all labels stand at one level of the ontology: this is one flat network, without "
                "neighbour levels"
            )
        self.reading = Reading.fit(train, config)
        dev_levels = gold_by_level(dev_gold, labels, placed, final)
        return Stage(
            train,
            dev,
            self.reading.streams(train, self.device),
            self.reading.streams(dev, self.device),
            Targets(self.levels, taught, every=config.documents == "all"),
            Targets(self.levels, dev_levels, every=False),
            at_level,
            csr_array(reduce(add, at_level.values())),
            dev_gold,
            self.reading.prepared_tables(train, labels.ids[: labels.n_seen]),
        )

    def _placed(self, labels: LabelSpace) -> Levels:
        config = self.config
        return place_labels(
            labels,
            max_level=config.max_level,
            rule=config.level_of,
            categories=config.categories,
        )

    def trainer(self, stage: Stage) -> Trainer:
        """What trains the networks of a pass."""
        tables = stage.tables
        if stage.streams.neighbours is None:
            tables = tables.without_labels()
        return Trainer(
            self.config,
            self.levels,
            tables,
            stage.streams,
            stage.targets,
            stage.dev_streams,
            stage.dev_targets,
            self.device,
        )

    def _merge(self, labels: LabelSpace) -> Merge:
        """What merges the levels, before it has learned."""
        n = labels.n_seen
        level = np.zeros(n, dtype=np.int64)
        for one in self.levels:
            level[one.columns] = one.number
        above = csr_array(label_ancestors(labels)[:n, :n])
        hierarchy = Hierarchy(level, above, labels.frequency[:n], n_clusters=n - self.n_labels)
        return Merge(self.config, hierarchy, str(self.device))

    def _pass(
        self,
        stage: Stage,
        name: str,
        later: Sequence[str],
        before: Said | None = None,
        *,
        is_last: bool,
    ) -> Said:
        """Train a pass, and its thresholds for what it says, or for the mean of both passes."""
        trainer = self.trainer(stage)
        pieces = self._pieces(stage, trainer.tables, later)
        earlier = before.weights if before else ()
        crossed = cross_fit(trainer, pieces, name, earlier, keep=before is None)
        network = crossed.network
        dev = predict(network, self.levels, stage.dev_streams, None, DEPTH, self.device)
        goes_on = self.config.second == "continued" and not is_last
        said = Said(crossed.out_of_fold, dev, crossed.weights if goes_on else ())
        if before is not None and self.config.average_passes:
            said = before.averaged_with(said)
        at_level = level_thresholds(self.config, self.levels, said.train, stage.at_level)
        ofo = learn_thresholds(self.config, side_by_side(said.train), stage.gold)
        if not self.config.move_odds:
            moves = np.zeros(len(self.levels))
        elif is_last:
            assert self.merging is not None
            # Not clusters: these are easily found and would outweigh the labels.
            answers = [self.merging.answers(ranking) for ranking in said.dev]
            moves = best_moves(answers, stage.dev_gold, ofo.thresholds)
        else:
            moves = matching_moves(said.train, said.dev, ofo.thresholds)
        self.passes.append(Pass(network, ofo, at_level, moves))
        return said

    def _pieces(self, stage: Stage, tables: Tables, later: Sequence[str]) -> Pieces:
        passes = 1 + (self.config.reads_levels and len(self.levels) > 1)
        total = passes * (1 + self.config.folds) + (self.config.merge == "pointer")
        made_from = self._made_from(stage, tables, later)
        return Pieces(self.work, made_from, self.seconds, total, self.memory)

    def _made_from(self, stage: Stage, tables: Tables, later: Sequence[str]) -> dict[str, Any]:
        settings = dataclasses.asdict(self.config)
        for table in (settings["train"], settings["pointer"]["train"]):
            del table["checkpoint_seconds"]  # changes nothing of what is learned
        unread = () if self.config.second == "continued" else ("second_epochs", "second_lr")
        kept = {name: value for name, value in settings.items() if name not in (*later, *unread)}
        assert self.merging is not None
        vectors = (tables.words, tables.keywords, tables.labels)
        return {
            "format": PIECES,
            "settings": kept,
            "keywords": self.config.reads_keywords,
            "train": stage.train.key,
            "dev": stage.dev.key,
            "levels": level_plan.to_json(self.levels),
            "ancestors": digest_of_ones(self.merging.hierarchy.ancestors),
            "targets": [digest_of_ones(gold) for gold in stage.targets.local],
            "vectors": ["" if t is None else digest_of(t.numpy()) for t in vectors],
        }

    def _with_neighbours(self, stage: Stage, predictions: Sequence[Ranking]) -> Stage:
        """What pass 2 reads: the labels that pass 1 predicts, for training documents by networks
        that did not see them."""
        chosen = refine(predictions, self.passes[-1].thresholds)
        streams = neighbour_streams(chosen, self.config.neighbours, self.device)
        dev = self._predict(stage.dev_streams, DEPTH)[-1]
        return dataclasses.replace(
            stage,
            streams=dataclasses.replace(stage.streams, neighbours=streams),
            dev_streams=dataclasses.replace(stage.dev_streams, neighbours=self._neighbours(dev)),
        )

    def _neighbours(self, rankings: Sequence[Ranking]) -> list[Ragged]:
        """The streams of labels for pass 2, from the answers of pass 1."""
        chosen = refine([r.cut(DEPTH) for r in rankings], self.passes[0].thresholds)
        return neighbour_streams(chosen, self.config.neighbours, self.device)

    # ------------------------------------------------------------------------------------- rank

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        """By the levels' calibrated probabilities; what a pointer generator chose comes first."""
        return self.rank_and_decide(corpus, k).ranking

    def decide(self, corpus: Corpus) -> Ranking:
        """The merged set of each document, with the probabilities of `rank`."""
        return self.rank_and_decide(corpus, DEPTH).chosen

    def rank_and_decide(self, corpus: Corpus, k: int) -> Ranked:
        """The ranking, the merged set, and what the levels say of each label."""
        return self.ranked(self.level_rankings(corpus, k)[-1], k)

    def ranked(self, rankings: Sequence[Ranking], k: int) -> Ranked:
        """The same of what the levels said in the last pass."""
        thresholds = self.thresholds
        assert self.merging is not None
        return self.merging.ranked(rankings, thresholds, k)

    @property
    def thresholds(self) -> Thresholds:
        """What a label's probability at its level must reach, by column."""
        return self.fitted()[-1].thresholds

    def learn_judged(self, corpus: Corpus, accepted: csr_array, rejected: csr_array) -> None:
        """OFO goes on with the labels of these documents that people judged."""
        said = side_by_side([r.cut(DEPTH) for r in self.level_rankings(corpus)[-1]])
        last = self.passes[-1]
        own = len(last.thresholds)
        known = [
            csr_array(csr_array(m[:, : self.n_labels]), shape=(len(corpus), own))
            for m in (accepted, rejected)
        ]
        self.passes[-1] = dataclasses.replace(last, ofo=last.ofo.update(said, *known))

    def label_levels(self, labels: LabelSpace) -> NDArray[np.int32]:
        """The level of every column, as this system was told to place them."""
        config = self.config
        return label_levels(labels, max_level=config.max_level, rule=config.level_of)

    def level_rankings(self, corpus: Corpus, depth: int = DEPTH) -> list[list[Ranking]]:
        """For each pass, for each level (`levels`), its best `depth` labels of every document."""
        self.fitted()
        return self._predict(self._streams(corpus), max(depth, DEPTH))

    def _streams(self, corpus: Corpus) -> Streams:
        """What is read of documents that are asked about."""
        assert self.reading is not None
        if not self.has_warned and self.reading.misses_keywords(corpus):
            self.has_warned = True
            logger.warning(
                "this run has learned from authors' keywords and these documents have none that it "
                "knows: it will find less; give theirs: --keyword, or `keywords` in a table or "
                "JSON lines"
            )
        return self.reading.streams(corpus, self.device)

    def _predict(
        self, streams: Streams, depth: int, passes: Sequence[Pass] | None = None
    ) -> list[list[Ranking]]:
        """For each of these passes (None: all), what its levels say."""
        answers: list[list[Ranking]] = []
        found: list[Ranking] = []
        streams = dataclasses.replace(streams, neighbours=None)
        for one in self.passes if passes is None else passes:
            if answers:
                neighbours = self._neighbours(answers[-1])
                streams = dataclasses.replace(streams, neighbours=neighbours)
            now = predict(one.network, self.levels, streams, None, depth, self.device)
            found = mean_odds(found, now) if found and self.config.average_passes else now
            answers.append([moved(r, by) for r, by in zip(found, one.moves, strict=True)])
        return answers

    def fitted(self) -> list[Pass]:
        if not self.passes:
            raise RunError("this system was asked before it was fitted")
        return self.passes

    # ---------------------------------------------------------------------------------- explain

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        """What each word adds to the logit of a label in the last pass."""
        network = self.fitted()[-1].network
        place = next((i for i, level in enumerate(self.levels) if column in level.columns), None)
        spans = doc_spans(doc, self.config)[: self.config.max_length]
        if place is None or not spans:
            return []
        streams = self._streams(Corpus.of([doc]))
        if len(self.passes) > 1:
            neighbours = self._neighbours(self._predict(streams, DEPTH, self.passes[:1])[0])
            streams = dataclasses.replace(streams, neighbours=neighbours)
        label, row = int(np.searchsorted(self.levels[place].columns, column)), np.array([0])
        added = network.contributions(place, label, streams.words.padded(row), streams.sets(row))
        return [
            Span(start, end, weight)
            for (start, end, _), weight in zip(spans, added[0].tolist(), strict=False)
        ]

    @property
    def is_stepwise(self) -> bool:
        return self.config.merge == "pointer"

    def explain_set(self, doc: Doc) -> SetAttention:
        """How the pointer generator merged the levels' predictions for a document."""
        rankings = self.level_rankings(Corpus.of([doc]))[-1]
        assert self.merging is not None
        return self.merging.attention(rankings, self.thresholds)

    def illustrations(self) -> list[Illustration]:
        """Figure 5: what OFO decided over the training documents, level by level."""
        panels = [
            Panel(
                f"level {level}", curve["documents"], {n: curve[n] for n in ("MaP", "MaR", "MaF")}
            )
            for level, curve in self.curves.items()
        ]
        return [
            Illustration(
                "How the thresholds settled",
                "Precision, recall and F of the labels chosen at each level, over the training "
                "documents so far: each label's threshold moves with every document "
                "(predictions out of fold).",
                "documents",
                panels,
            )
        ]

    # --------------------------------------------------------------------------------- the files

    def save(self, folder: Path) -> None:
        passes = self.fitted()
        assert self.reading is not None
        assert self.merging is not None
        self.reading.save(folder)
        if self.tree is not None:
            store.save_tensors(folder, "tree", self.tree.arrays())
        for number, one in enumerate(passes, start=1):
            store.save_tensors(
                folder, f"pass{number}", weights_of(one.network), shard_bytes=SHARD_BYTES
            )
            lambdas = {**one.ofo.arrays(), "at_level": one.at_level, "moves": one.moves}
            store.save_tensors(folder, f"ofo{number}", lambdas)
        about = {
            "settings": dataclasses.asdict(self.config),
            "kind": self.reading.kind,
            "passes": len(passes),
            "levels": level_plan.to_json(self.levels),
            **self.merging.save(folder),
        }
        write_text(folder / "levelwise.json", json.dumps(about, indent=1) + "\n")
        write_text(folder / "ofo.json", json.dumps(self.curves, indent=1) + "\n")

    @classmethod
    def reads_keywords(cls, folder: Path) -> bool:
        """Whether the run there has learned from authors' keywords."""
        return Reading.of_authors(folder)

    @classmethod
    def load(cls, folder: Path, labels: LabelSpace, *, device: str = "cpu") -> Self:
        about = json.loads((folder / "levelwise.json").read_text(encoding="utf-8"))
        system = cls(build(cls.Config, about["settings"], "model"), device=device)
        config = system.config
        system.reading = Reading.load(folder, config, about.get("kind", "text"))
        system.n_labels = labels.n_seen
        if config.ontology == "cluster":
            system.tree = LabelTree.of_arrays(store.load_tensors(folder, "tree"))
            labels = with_clusters(labels, system.tree)
        system.levels = level_plan.from_json(about["levels"])
        system.merging = system._merge(labels).load(folder, about)
        system.curves = json.loads((folder / "ofo.json").read_text(encoding="utf-8"))
        for number in range(1, about["passes"] + 1):
            lambdas = store.load_tensors(folder, f"ofo{number}")
            network = restore(
                system._network(labels.n_seen if number > 1 else 0),
                store.load_tensors(folder, f"pass{number}"),
            )
            ofo = OFO.of_arrays(lambdas)
            system.passes.append(Pass(network, ofo, lambdas["at_level"], lambdas["moves"]))
        return system

    def _network(self, n_labels: int) -> LevelNetworks:
        """The networks of a pass before their weights are loaded."""
        assert self.reading is not None
        start = [torch.zeros(len(level)) for level in self.levels]
        tables = self.reading.tables(n_labels)
        return LevelNetworks(self.config, self.levels, tables, start).to(self.device)

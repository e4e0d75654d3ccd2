"""Train one row of Deep Level-wise XMLC of bench/papers.py and keep counts of each document.

    python bench/papers_levels.py medline-passes-1 prepared out [epochs.levels=6 ...]

Writes out/results/<job>.npz (bench/papers_counts.py) and, at the end, .json. A row that continues
from another one links its finished stages.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array

from ontodex.config import build, merge_tables, read, vary
from ontodex.evaluation.metrics import evaluate
from ontodex.io.device import choose_device, describe_machine
from ontodex.io.files import write_text
from ontodex.models.layers.ragged import Ragged
from ontodex.models.levelwise.config import LevelwiseConfig
from ontodex.models.levelwise.levels import select_gold
from ontodex.models.levelwise.pass_data import PassData
from ontodex.models.levelwise.streams import make_neighbour_streams
from ontodex.models.levelwise.system import Levelwise
from ontodex.models.levelwise.thresholds import DEPTH, apply_thresholds
from ontodex.ontology.open import read_ontology
from ontodex.types import Corpus, LabelSpace, Ranking
from ontodex.types.loop_config import LoopConfig
from papers_counts import Numbers, count_levels, count_sets, write_counts
from papers_jobs import BY_NAME, CHUNKS, LEVEL_EPOCHS, LEVELS, MAX_LENGTH, NEIGHBOURS, Job

MIN_COUNT = 10  # training documents of a label, as in the paper
FIGURES = ("P@1", "P@3", "P@5", "nDCG@5", "MiP", "MiR", "MiF", "MaP", "MaR", "MaF")
# Its 2,000 steps end early where micro-F on dev does not rise.
POINTER_LOOP = LoopConfig(batch_size=256, epochs=4, ema_rate=0.01, patience=6)
SECONDS = 60.0  # between checkpoints, from which the same command goes on after a kill


class OtherNeighbours(Levelwise):
    """Pass 2 reads other labels of the neighbour levels than those that pass 1 predicts."""

    which = "predicted"
    gold: csr_array | None = None  # of the documents that are predicted now

    def _add_neighbours(self, data: PassData, predictions: Sequence[Ranking]) -> PassData:
        predicted = apply_thresholds(predictions, self.passes[-1].thresholds)
        self.gold = data.gold
        train = self._stream(predicted)
        self.gold = data.dev_gold
        dev = self._make_neighbours(self._predict(data.dev_streams, DEPTH)[-1])
        return dataclasses.replace(
            data,
            streams=dataclasses.replace(data.streams, neighbours=train),
            dev_streams=dataclasses.replace(data.dev_streams, neighbours=dev),
        )

    def _make_neighbours(self, rankings: Sequence[Ranking]) -> list[Ragged]:
        cut = [ranking.cut(DEPTH) for ranking in rankings]
        return self._stream(apply_thresholds(cut, self.passes[0].thresholds))

    def _stream(self, predicted: Sequence[Ranking]) -> list[Ragged]:
        """Return the neighbour streams of a row instead of those of the predicted labels."""
        others = list(predicted)
        if self.which == "none":  # one and the same label for every document
            one = np.ones((len(predicted[0]), 1), np.float32)
            others = [
                Ranking((one * level.columns[0]).astype(np.int32), one) for level in self.levels
            ]
        if self.which == "shuffled":
            order = np.random.default_rng(self.config.train.seed).permutation(len(predicted[0]))
            others = [ranking.take(order) for ranking in predicted]
        if self.which == "gold":
            assert self.gold is not None
            most = self.config.neighbours
            owns = [select_gold(self.gold, level.columns) for level in self.levels]
            others = [Ranking.of_sparse(own.astype(np.float32), most) for own in owns]
        return make_neighbour_streams(others, self.config.neighbours, self.device)


def main() -> None:
    name, folder, out, *overrides = sys.argv[1:]
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
    run(BY_NAME[name], Path(folder), Path(out), overrides)


def run(job: Job, folder: Path, out: Path, overrides: list[str]) -> None:
    """Train a job and write its results."""
    carried = job.prepared(folder)
    corpora = {part: Corpus.open(carried / part) for part in ("train", "dev", "test")}
    ontology = read_ontology(next(carried.glob("ontology.*")))
    labels = LabelSpace.of(corpora["train"], ontology, min_count=MIN_COUNT)
    system = OtherNeighbours(make_config(job, overrides), device=choose_device("auto"))
    if job.row in NEIGHBOURS:
        system.which = job.row
    system.work = job.work(out)
    system.work.mkdir(parents=True, exist_ok=True)
    for stage in job.list_stages(out):
        if not (system.work / stage.name).exists():
            (system.work / stage.name).symlink_to(stage.resolve())
    began = time.monotonic()
    system.fit(corpora["train"], corpora["dev"], labels)
    line: dict[str, Any] = {"job": job.name, "model": "levelwise", "row": job.row}
    line["seconds"] = round(time.monotonic() - began, 1)
    line["stages"] = {stage: round(value, 1) for stage, value in system.seconds.items()}
    line["hardware"] = describe_machine(str(system.device))
    line["memory GiB"] = round(torch.cuda.max_memory_reserved() / 2**30, 1)
    line["settings"] = dataclasses.asdict(system.config)
    line["labels"] = labels.n_seen
    line["levels"] = {str(level.number): len(level) for level in system.levels}
    line["curves"] = system.curves
    line["epochs"] = read_log(system.work / "log.jsonl")
    if system.merging is not None and system.merging.pointer_is_trained is not None:
        line["pointer is trained"] = system.merging.pointer_is_trained
    arrays: dict[str, Numbers] = {}
    for part in ("dev", "test"):
        line[part] = measure(system, corpora[part], labels, part, arrays)
    result = job.result(out)
    result.parent.mkdir(parents=True, exist_ok=True)
    write_counts(result.with_suffix(".npz"), arrays)
    write_text(result, json.dumps(line) + "\n")


def make_config(job: Job, overrides: list[str]) -> LevelwiseConfig:
    """Return the settings of a row."""
    given = read(None, overrides)
    epochs = given.get("epochs", {}).get("levels", LEVEL_EPOCHS[job.corpus])
    loop = {"seed": job.seed, "epochs": epochs, "checkpoint_seconds": SECONDS}
    own = {"train": loop, "max_length": MAX_LENGTH[job.corpus]}
    settings = merge_tables((LEVELS | CHUNKS)[job.row], own)
    settings = merge_tables(settings, given.get("model", {}))
    config: LevelwiseConfig = build(LevelwiseConfig, settings, "model")
    return vary(config, pointer=vary(config.pointer, train=POINTER_LOOP))


def measure(
    system: OtherNeighbours,
    corpus: Corpus,
    labels: LabelSpace,
    part: str,
    arrays: dict[str, Numbers],
) -> dict[str, Any]:
    """Fill the counts of all label sets and levels; return figures in percent."""
    gold, merging = labels.gold(corpus), system.merging
    assert merging is not None
    assert merging.sampling is not None
    system.gold = gold
    passes = system.predict_levels(corpus)
    figures: dict[str, Any] = {}
    sets: dict[str, Ranking] = {}
    for number, (one, rankings) in enumerate(zip(system.passes, passes, strict=True), start=1):
        sets[f"pass {number}"] = merging.join_predictions(rankings, one.thresholds)
        arrays[f"{part}, pass {number}, levels"] = count_levels(
            gold, rankings, system.levels, one.at_level
        )
    sets["sampling"] = merging.sampling.merge(sets[f"pass {len(passes)}"])
    found = system.merge_levels(passes[-1], DEPTH)
    if merging.pointer is not None:
        sets["pointer"] = found.label_sets
    for name, chosen in sets.items():
        arrays[f"{part}, {name}"] = count_sets(gold, chosen)
        metrics = evaluate(gold, found.ranking, chosen, labels, replicates=0)
        figures[name] = {figure: round(100 * metrics[figure], 2) for figure in FIGURES}
    return figures


def read_log(path: Path) -> list[Any]:
    """Return the lines of the log of all stages that were trained here."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


if __name__ == "__main__":
    main()

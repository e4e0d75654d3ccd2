"""The baseline of every level: 40 nearest neighbours, with the thresholds of Deep Level-wise XMLC.

    python bench/papers_neighbours.py medline FOLDER out      # FOLDER: train, dev, test, ontology

A document's 40 nearest training documents by TF-IDF vote; for training documents without
themselves. OFO learns a threshold for each label, level by level, from those votes. Writes
out/results/<corpus>-neighbours-1.npz and .json, as bench/papers_levels.py does; the .json also has
the micro-F of each level, over the documents with a label there.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from ontodex.corpora.open import open_corpus
from ontodex.evaluation.metrics import evaluate
from ontodex.io.device import describe_machine
from ontodex.io.files import write_text
from ontodex.models.baselines.knn import KnnConfig, KnnSystem
from ontodex.models.baselines.neighbours import Neighbours, choose_vote
from ontodex.models.levelwise.config import LevelwiseConfig
from ontodex.models.levelwise.levels import (
    Level,
    join_levels,
    place_labels,
    plan_levels,
    split_gold_by_level,
)
from ontodex.models.levelwise.thresholds import (
    DEPTH,
    Thresholds,
    apply_thresholds,
    learn_level_thresholds,
    learn_thresholds,
)
from ontodex.ontology.levels import choose_max_level
from ontodex.ontology.open import read_ontology
from ontodex.types import Corpus, LabelSpace, Ranking
from papers_counts import MOST_K, Numbers, count_levels, count_sets, write_counts
from papers_jobs import Job
from papers_levels import FIGURES, MIN_COUNT

NEIGHBOURS = 40
EXPONENTS = (1.0, 2.0, 4.0)  # of a similarity; dev chooses


def main() -> None:
    name, folder, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    began = time.monotonic()
    corpora = {
        part: open_corpus(next(folder.glob(f"{part}.jsonl*"))) for part in ("train", "dev", "test")
    }
    ontology = read_ontology(next(folder.glob("ontology.*")))
    labels = LabelSpace.of(corpora["train"], ontology, min_count=MIN_COUNT)
    config, system = LevelwiseConfig(), KnnSystem(KnnConfig(stop_words="en"))
    levels, at_level = plan(config, corpora["train"], labels)
    system.refit(corpora["train"], labels)
    nearest = {part: find_nearest(system, part, corpus) for part, corpus in corpora.items()}
    learned = csr_array(system.gold[:, : labels.n_seen])
    dev_gold = labels.gold(corpora["dev"])
    _, exponent = choose_vote(nearest["dev"], system.gold, dev_gold, (NEIGHBOURS,), EXPONENTS)
    votes = {part: vote(found, learned, exponent, levels) for part, found in nearest.items()}
    own = learn_level_thresholds(config, levels, votes["train"], at_level)
    gold = csr_array(reduce(add, at_level.values()))
    ofo = learn_thresholds(config, join_levels(votes["train"]), gold).thresholds
    arrays, line = {}, {"job": f"{name}-neighbours-1", "row": "neighbours", "exponent": exponent}
    for part in ("dev", "test"):
        truth = labels.gold(corpora[part])
        sets = choose_sets(votes[part], ofo)
        arrays[f"{part}, pass 1, levels"] = count_levels(truth, votes[part], levels, own)
        arrays[f"{part}, pass 1"] = count_sets(truth, sets)
        metrics = evaluate(truth, join_levels(votes[part]), sets, labels, replicates=0)
        line[part] = {"pass 1": {figure: round(100 * metrics[figure], 2) for figure in FIGURES}}
    line |= {"levels": {str(level.number): len(level) for level in levels}}
    line |= {"MiF by level": measure_levels(arrays)}
    line |= {"hardware": describe_machine("cpu"), "seconds": round(time.monotonic() - began)}
    result = Job(name, "neighbours", 1).result(out)
    result.parent.mkdir(parents=True, exist_ok=True)
    write_counts(result.with_suffix(".npz"), arrays)
    write_text(result, json.dumps(line) + "\n")


def plan(
    config: LevelwiseConfig, train: Corpus, labels: LabelSpace
) -> tuple[list[Level], dict[int, csr_array]]:
    """Return the levels of `levelwise`, and the gold labels of the training documents at each."""
    most = choose_max_level(labels, config.level_of)
    placed = place_labels(
        labels, max_level=most, rule=config.level_of, categories=config.categories
    )
    at_level = split_gold_by_level(labels.gold(train), labels, placed, "none")
    levels = plan_levels(
        at_level, placed, labels.n_seen, pooling=config.pooling, chunks=config.chunks
    )
    return levels, at_level


def find_nearest(system: KnnSystem, part: str, corpus: Corpus) -> Neighbours:
    """Return the 40 nearest training documents of each document, never itself."""
    is_train = part == "train"
    found = system._find_neighbours(corpus, NEIGHBOURS + is_train)
    return found.drop_self(np.arange(len(corpus))) if is_train else found


def vote(
    nearest: Neighbours, learned: csr_array, exponent: float, levels: list[Level]
) -> list[Ranking]:
    """Return, for each level, the labels with the most votes."""
    weights = nearest.weigh(NEIGHBOURS, exponent, learned.shape[0])
    scores = csr_array(weights @ learned)
    scores.data = np.minimum(scores.data, 1)
    return [Ranking.of_sparse(select_columns(scores, level), DEPTH) for level in levels]


def select_columns(scores: csr_array, level: Level) -> csr_array:
    """Return the scores of the labels of a level, in the same shape."""
    wanted = np.zeros(scores.shape[1], dtype=np.float32)
    wanted[level.columns] = 1
    found = csr_array(scores.multiply(wanted[None, :]))
    found.eliminate_zeros()
    return found


def measure_levels(arrays: Mapping[str, Numbers]) -> dict[str, list[float]]:
    """Return the micro-F of each level on test, over the documents with a label there: of OFO, and
    of the five labels with the most votes."""
    counts = arrays["test, pass 1, levels"].astype(np.int64)  # (levels, documents, 13)
    has_label = counts[..., -1] > 0
    true, fives = counts[..., -1], np.full(has_label.shape, 5)
    sides = {
        "OFO": (counts[..., MOST_K], counts[..., MOST_K + 1]),
        "K = 5": (counts[..., 4], fives),
    }
    found = {}
    for name, (hits, predicted) in sides.items():
        hit = (2 * hits * has_label).sum(axis=1)
        total = ((predicted + true) * has_label).sum(axis=1)
        found[name] = [round(100 * float(value), 2) for value in hit / np.maximum(total, 1)]
    return found


def choose_sets(rankings: list[Ranking], thresholds: Thresholds) -> Ranking:
    """Return the labels of all levels above their thresholds."""
    return join_levels(apply_thresholds(rankings, thresholds))


if __name__ == "__main__":
    main()

"""What bench/levelwise.py measures of a row: rankings, sets, each level, rare labels, time."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array

from ontodex.decide.threshold import above
from ontodex.evaluate import evaluate
from ontodex.evaluate.sets import count_by_document, count_by_label, macro, micro
from ontodex.models.level_decide import DEPTH, MOVES, moved, refine
from ontodex.models.level_passes import Batch, neighbour_streams, precision
from ontodex.models.level_plan import gold_of
from ontodex.models.levelwise import Levelwise
from ontodex.train.device import describe
from ontodex.types import Corpus, LabelSpace, Ranking

RANKED = ("P@1", "P@3", "P@5", "nDCG@1", "nDCG@3", "nDCG@5")
SETS = ("MiP", "MiR", "MiF", "MaP", "MaR", "MaF")
RANKS = 100
MOST_K = 10
JUDGED = ("MiF", "MaF")  # of a level
RARE = ((10, 14), (15, 19), (20, 29), (30, 39), (40, 50))  # training documents of rare labels


def measure(system: Levelwise, corpora: Mapping[str, Corpus], labels: LabelSpace) -> dict[str, Any]:
    """Train one row, or what of it is not there yet, and measure everything on test."""
    began = time.monotonic()
    system.fit(corpora["train"], corpora["dev"], labels)
    took = time.monotonic() - began
    began = time.monotonic()
    levels = {part: system.level_rankings(corpora[part], RANKS) for part in ("test", "dev")}
    test, dev = (system.ranked(levels[part][-1], RANKS) for part in ("test", "dev"))
    speed = (len(test.ranking) + len(dev.ranking)) / (time.monotonic() - began)
    gold = {part: labels.gold(corpora[part]) for part in ("dev", "test")}
    metrics = evaluate(gold["test"], test.ranking, test.chosen, labels, replicates=0)
    seconds = {name: round(value, 1) for name, value in system.seconds.items()}
    total = round(sum(seconds.values()), 1)
    memory = peak(system)
    return {
        "hardware": describe(str(system.device)),
        "keywords": keyword_stream(system),
        "seconds": {"in this process": round(took, 1), **seconds, "in all": total},
        "memory GiB": memory and round(memory / 2**30, 2),
        "documents a second": round(speed),
        "test": {name: round(100 * metrics[name], 2) for name in (*RANKED, "PSP@5", *SETS)},
        "dev": figures(gold["dev"], dev.chosen),
        "passes": level_metrics(system, levels, gold, labels),
        "rare": rare_recall(gold["test"], test.chosen, labels),
        "curves": system.curves,
        "share of a step": level_shares(system, corpora["dev"], levels["dev"][0]),
    }


def peak(system: Levelwise) -> int | None:
    """The most of the GPU that any piece needed, whichever process made it; unknown where one does
    not say."""
    return max(system.memory.values()) if system.memory.keys() == system.seconds.keys() else None


def keyword_stream(system: Levelwise) -> str:
    """What the stream of keywords holds: the author's, or phrases extracted from the text."""
    assert system.reading is not None
    if system.reading.keywords is None:
        return "none"
    return "keywords" if system.reading.phrases is None else "phrases"


# ------------------------------------------------------------------------------------ each level


def level_metrics(
    system: Levelwise,
    said: Mapping[str, list[list[Ranking]]],
    golds: Mapping[str, csr_array],
    labels: LabelSpace,
) -> list[dict[str, Any]]:
    """For each pass, for each level: the best fixed K (chosen on dev) and OFO, on the test
    documents that have a label there; of what was said of dev and test."""
    found = []
    for number, one in enumerate(system.passes):
        levels: dict[str, Any] = {}
        for place, level in enumerate(system.levels):
            names = {labels.name(int(column)): int(column) for column in level.columns}
            groups = {str(level.number): level.columns}
            if "Humans" in names:
                rest = level.columns[level.columns != names["Humans"]]
                groups[f"{level.number} without Humans"] = rest
            # Moved for documents that may have no label here; those measured now have one.
            as_said = [
                moved(said[part][number][place].cut(DEPTH), -one.moves[place])
                for part in ("dev", "test")
            ]
            for name, columns in groups.items():
                dev_truth, dev_ranking = of_level(golds["dev"], as_said[0], columns)
                truth, ranking = of_level(golds["test"], as_said[1], columns)
                k = {of: best_k(dev_truth, dev_ranking, of) for of in JUDGED}
                by = {of: best_move(dev_truth, dev_ranking, one.at_level, of) for of in JUDGED}
                levels[name] = {
                    "documents": len(ranking),
                    "labels": len(columns),
                    "K": k["MiF"],
                    "K macro": k["MaF"],
                    "top K": each_by_its_own(truth, {of: ranking.cut(k[of]) for of in JUDGED}),
                    "OFO": each_by_its_own(
                        truth,
                        {of: chosen(moved(ranking, by[of]), one.at_level) for of in JUDGED},
                    ),
                }
        found.append({"levels": levels})
    return found


def of_level(gold: csr_array, ranking: Ranking, columns: Any) -> tuple[csr_array, Ranking]:
    """Gold and answers of the documents that have one of these labels, of these labels only."""
    own = gold_of(gold, columns)
    known = np.diff(own.indptr) > 0
    answers = ranking.take(known)
    return csr_array(own[known]), answers.keep(np.isin(answers.columns, columns))


def best_k(gold: csr_array, ranking: Ranking, of: str) -> int:
    """The number of labels that, given to every document, has the highest micro- or macro-F."""
    return max(range(1, MOST_K + 1), key=lambda k: figures(gold, ranking.cut(k)).get(of, 0))


def best_move(gold: csr_array, ranking: Ranking, thresholds: Any, of: str) -> float:
    """How far to move log-odds for the highest micro- or macro-F of what is above thresholds."""
    found = {by: figures(gold, chosen(moved(ranking, by), thresholds)) for by in MOVES}
    return max(MOVES, key=lambda by: found[by].get(of, 0))


def chosen(ranking: Ranking, thresholds: Any) -> Ranking:
    return ranking.keep(above(ranking, thresholds))


def each_by_its_own(gold: csr_array, decided: Mapping[str, Ranking]) -> dict[str, float]:
    """Micro figures of the sets that were tuned for micro-F, macro figures of the others."""
    return {
        name: value
        for of, sets in decided.items()
        for name, value in figures(gold, sets).items()
        if name[:2] == of[:2]
    }


def figures(gold: csr_array, decided: Ranking) -> dict[str, float]:
    if not len(decided):
        return {}
    counts = count_by_document(gold, decided)
    return {n: round(100 * v, 2) for n, v in {**micro(counts), **macro(counts)}.items()}


def rare_recall(gold: csr_array, decided: Ranking, labels: LabelSpace) -> dict[str, Any]:
    """By training documents of a label: how many there are, how often they are true in test, how
    often predicted, and how often both."""
    counts = count_by_label(gold, decided)
    found = {}
    for least, most in RARE:
        rare = np.flatnonzero((labels.frequency >= least) & (labels.frequency <= most))
        found[f"{least} to {most}"] = {
            "labels": len(rare),
            "true": int(counts.gold[rare].sum()),
            "predicted": int(counts.predicted[rare].sum()),
            "hit": int(counts.hit[rare].sum()),
        }
    return found


# ------------------------------------------------------------------------------------------ time


def level_shares(
    system: Levelwise, dev: Corpus, said: Sequence[Ranking], batches: int = 8
) -> dict[str, float]:
    """What all levels share ("shared") and each level, as parts of the time of a training step of
    the last pass, by its forward; the backward is taken to be in proportion. On a GPU the LSTMs of
    all levels may run in one kernel, and are shared then. The levels train together, so this is
    measured apart, on dev, of which pass 1 `said` what neighbours are; and after everything else:
    it moves the figures of batch norm."""
    assert system.reading is not None
    streams = system.reading.streams(dev, system.device)
    if len(system.passes) > 1:
        chosen = refine([r.cut(DEPTH) for r in said], system.passes[0].thresholds)
        neighbours = neighbour_streams(chosen, system.config.neighbours, system.device)
        streams = dataclasses.replace(streams, neighbours=neighbours)
    some = np.arange(min(len(dev), batches * system.config.train.batch))
    network = system.passes[-1].network.train()
    found = []
    for rows in np.array_split(some, batches):
        ends = [clock(system.device)]
        with precision(system.device):
            batch = Batch(network, streams, rows)
            ends.append(clock(system.device))
            for place in range(len(system.levels)):
                batch.logits(place, np.arange(len(rows)))
                ends.append(clock(system.device))
        found.append(np.diff(ends))
    network.eval()
    seconds = np.median(found, axis=0)  # the first batches may have something compiled
    share = seconds / max(seconds.sum(), 1e-9)
    names = ["shared", *(str(level.number) for level in system.levels)]
    return {name: round(float(s), 3) for name, s in zip(names, share, strict=True)}


def clock(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()

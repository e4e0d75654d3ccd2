"""Measurements of a row of bench/levelwise.py: rankings, sets, levels, rare labels, time."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array

from ontodex.decide.entries import mask_above
from ontodex.evaluation.metrics import evaluate
from ontodex.evaluation.sets import count_by_document, count_by_label, macro, micro
from ontodex.io.device import describe_machine
from ontodex.models.levelwise.levels import select_gold
from ontodex.models.levelwise.prediction import Batch
from ontodex.models.levelwise.streams import make_neighbour_streams
from ontodex.models.levelwise.system import Levelwise
from ontodex.models.levelwise.thresholds import DEPTH, LOGIT_SHIFTS, apply_thresholds, shift_logits
from ontodex.models.network_training import autocast
from ontodex.types import Corpus, LabelSpace, Ranking

RANKED = ("P@1", "P@3", "P@5", "nDCG@1", "nDCG@3", "nDCG@5")
SETS = ("MiP", "MiR", "MiF", "MaP", "MaR", "MaF")
RANKS = 100
MAX_K = 10
TUNED = ("MiF", "MaF")  # metrics that K and shifts of a level are tuned for
RARE = ((10, 14), (15, 19), (20, 29), (30, 39), (40, 50))  # training documents of rare labels


def measure(system: Levelwise, corpora: Mapping[str, Corpus], labels: LabelSpace) -> dict[str, Any]:
    """Train the unfinished stages of a row, and measure everything on test."""
    began = time.monotonic()
    system.fit(corpora["train"], corpora["dev"], labels)
    took = time.monotonic() - began
    began = time.monotonic()
    levels = {part: system.predict_levels(corpora[part], RANKS) for part in ("test", "dev")}
    test, dev = (system.merge_levels(levels[part][-1], RANKS) for part in ("test", "dev"))
    speed = (len(test.ranking) + len(dev.ranking)) / (time.monotonic() - began)
    gold = {part: labels.gold(corpora[part]) for part in ("dev", "test")}
    metrics = evaluate(gold["test"], test.ranking, test.label_sets, labels, replicates=0)
    seconds = {name: round(value, 1) for name, value in system.seconds.items()}
    total = round(sum(seconds.values()), 1)
    memory = find_peak_memory(system)
    return {
        "hardware": describe_machine(str(system.device)),
        "keywords": name_keyword_stream(system),
        "seconds": {"in this process": round(took, 1), **seconds, "in all": total},
        "memory GiB": memory and round(memory / 2**30, 2),
        "documents a second": round(speed),
        "test": {name: round(100 * metrics[name], 2) for name in (*RANKED, "PSP@5", *SETS)},
        "dev": compute_set_metrics(gold["dev"], dev.label_sets),
        "passes": measure_levels(system, levels, gold, labels),
        "rare": count_rare(gold["test"], test.label_sets, labels),
        "curves": system.curves,
        "share of a step": measure_level_shares(system, corpora["dev"], levels["dev"][0]),
    }


def find_peak_memory(system: Levelwise) -> int | None:
    """Return the peak GPU memory of all stages, by any process; None where a stage has none."""
    return max(system.memory.values()) if system.memory.keys() == system.seconds.keys() else None


def name_keyword_stream(system: Levelwise) -> str:
    """Return the content of the keyword stream: author keywords, extracted phrases, or none."""
    assert system.stream_encoder is not None
    if system.stream_encoder.keywords is None:
        return "none"
    return "keywords" if system.stream_encoder.phrases is None else "phrases"


def measure_levels(
    system: Levelwise,
    predicted: Mapping[str, list[list[Ranking]]],
    golds: Mapping[str, csr_array],
    labels: LabelSpace,
) -> list[dict[str, Any]]:
    """Return, for each pass and level, the best fixed K (tuned on dev) and OFO.

    They are measured on test documents with a label at the level, from the predictions for dev and
    test.
    """
    found = []
    for number, one in enumerate(system.passes):
        levels: dict[str, Any] = {}
        for place, level in enumerate(system.levels):
            names = {labels.name(int(column)): int(column) for column in level.columns}
            groups = {str(level.number): level.columns}
            if "Humans" in names:
                rest = level.columns[level.columns != names["Humans"]]
                groups[f"{level.number} without Humans"] = rest
            # Without the shifts for documents that may have no label here; those measured have one.
            unshifted = [
                shift_logits(predicted[part][number][place].cut(DEPTH), -one.logit_shifts[place])
                for part in ("dev", "test")
            ]
            for name, columns in groups.items():
                dev_truth, dev_ranking = select_level(golds["dev"], unshifted[0], columns)
                truth, ranking = select_level(golds["test"], unshifted[1], columns)
                k = {of: find_best_k(dev_truth, dev_ranking, of) for of in TUNED}
                by = {of: find_best_shift(dev_truth, dev_ranking, one.at_level, of) for of in TUNED}
                levels[name] = {
                    "documents": len(ranking),
                    "labels": len(columns),
                    "K": k["MiF"],
                    "K macro": k["MaF"],
                    "top K": merge_metrics(truth, {of: ranking.cut(k[of]) for of in TUNED}),
                    "OFO": merge_metrics(
                        truth,
                        {
                            of: apply_threshold(shift_logits(ranking, by[of]), one.at_level)
                            for of in TUNED
                        },
                    ),
                }
        found.append({"levels": levels})
    return found


def select_level(gold: csr_array, ranking: Ranking, columns: Any) -> tuple[csr_array, Ranking]:
    """Return gold and predictions of these labels for documents that have one of them."""
    own = select_gold(gold, columns)
    known = np.diff(own.indptr) > 0
    answers = ranking.take(known)
    return csr_array(own[known]), answers.keep(np.isin(answers.columns, columns))


def find_best_k(gold: csr_array, ranking: Ranking, of: str) -> int:
    """Return the fixed number of labels per document with the highest micro- or macro-F."""
    return max(
        range(1, MAX_K + 1), key=lambda k: compute_set_metrics(gold, ranking.cut(k)).get(of, 0)
    )


def find_best_shift(gold: csr_array, ranking: Ranking, thresholds: Any, of: str) -> float:
    """Return the logit shift with the highest micro- or macro-F."""
    found = {
        by: compute_set_metrics(gold, apply_threshold(shift_logits(ranking, by), thresholds))
        for by in LOGIT_SHIFTS
    }
    return max(LOGIT_SHIFTS, key=lambda by: found[by].get(of, 0))


def apply_threshold(ranking: Ranking, thresholds: Any) -> Ranking:
    return ranking.keep(mask_above(ranking, thresholds))


def merge_metrics(gold: csr_array, decided: Mapping[str, Ranking]) -> dict[str, float]:
    """Return micro metrics of the sets tuned for micro-F, and macro metrics of the others."""
    return {
        name: value
        for of, sets in decided.items()
        for name, value in compute_set_metrics(gold, sets).items()
        if name[:2] == of[:2]
    }


def compute_set_metrics(gold: csr_array, decided: Ranking) -> dict[str, float]:
    if not len(decided):
        return {}
    counts = count_by_document(gold, decided)
    return {n: round(100 * v, 2) for n, v in {**micro(counts), **macro(counts)}.items()}


def count_rare(gold: csr_array, decided: Ranking, labels: LabelSpace) -> dict[str, Any]:
    """Return, by training documents of a label: labels, true, predicted and hit in test."""
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


def measure_level_shares(
    system: Levelwise, dev: Corpus, predicted: Sequence[Ranking], batches: int = 8
) -> dict[str, float]:
    """Return the shares of each level, and of "shared" work, in the time of a training step.

    Only the forward pass of the last pass is measured; the backward pass is taken as proportional.
    On a GPU one kernel may run the LSTMs of all levels, which is then shared work. `predicted` are
    the predictions of pass 1 for dev, read as neighbours. Call it last: it changes the statistics
    of batch norm.
    """
    assert system.stream_encoder is not None
    streams = system.stream_encoder.encode(dev, system.device)
    if len(system.passes) > 1:
        chosen = apply_thresholds([r.cut(DEPTH) for r in predicted], system.passes[0].thresholds)
        neighbours = make_neighbour_streams(chosen, system.config.neighbours, system.device)
        streams = dataclasses.replace(streams, neighbours=neighbours)
    some = np.arange(min(len(dev), batches * system.config.train.batch_size))
    network = system.passes[-1].network.train()
    found = []
    for rows in np.array_split(some, batches):
        ends = [read_clock(system.device)]
        with autocast(system.device):
            batch = Batch(network, streams, rows)
            ends.append(read_clock(system.device))
            for place in range(len(system.levels)):
                batch.compute_logits(place, np.arange(len(rows)))
                ends.append(read_clock(system.device))
        found.append(np.diff(ends))
    network.eval()
    seconds = np.median(found, axis=0)  # kernels may be compiled in the first batches
    share = seconds / max(seconds.sum(), 1e-9)
    names = ["shared", *(str(level.number) for level in system.levels)]
    return {name: round(float(s), 3) for name, s in zip(names, share, strict=True)}


def read_clock(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()

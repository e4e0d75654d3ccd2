"""Verdicts on the claims of Deep Level-wise XMLC, from the counts of each test document.

    python bench/claims_levels.py medline "neighbours: pass 1"       # tables of each level

A side is a row of bench/papers_jobs.py and what is judged of it: `passes: pass 2`. A metric ending
in `by level` is the mean over levels of the micro-F over the documents with a label there, by OFO;
such a claim is held where it is held at every level, and not held where it is not at one. The other
side may be a fixed number of labels of the same row: `K = 5`, `best K`, `best K by level` (both
chosen on dev). Behind `by level` may stand which documents count: those with labels at every level,
as in the paper's test set, or those for which OFO predicts a label of the level.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ontodex.evaluation.significance import REPLICATES, Interval, resample_sums

FIXED = ("K = 5", "best K", "best K by level")
BY_LEVEL = " by level"
EVERY_LEVEL = "documents with labels at every level"
PREDICTED = "documents with a prediction"
TRAINED = "pointer is trained"
SLICES = ("", EVERY_LEVEL, PREDICTED)
RESULTS = Path(__file__).resolve().parent / "results" / "claims"
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Compared:
    """Two sides: the figure of each seed in percent, and their difference."""

    first: Sequence[float]
    second: Sequence[float]
    difference: Interval
    levels: Sequence[Interval] = ()  # difference at each level
    note: str = ""


def compare_counts(
    corpus: str, first: str, second: str, metric: str, folder: Path
) -> Compared | None:
    """Compare two sides; None where one of them has no files."""
    _, by_level, documents = metric.partition(BY_LEVEL)
    if by_level:
        documents = documents.removeprefix(", ")
        sides = ((first, ""), (first, second) if second in FIXED else (second, ""))
        one, other = (
            [to_micro_f(counts, documents) for counts in load_levels(corpus, *side, folder)]
            for side in sides
        )
        return _compare_levels(one, other) if one and other else None
    one, other = (load_sets(corpus, side, folder) for side in (first, second))
    if not one or not other:
        return None
    return replace(
        _compare_sets(one, other, metric), note=count_trained(corpus, (first, second), folder)
    )


def count_trained(corpus: str, sides: Sequence[str], folder: Path) -> str:
    """Return in how many trainings the pointer generator learned something that helped on dev; else
    the untrained one was kept. Empty where no side has one."""
    rows = dict.fromkeys(side.split(": ")[0] for side in sides if side.endswith(": pointer"))
    files = [one for row in rows for one in _load(corpus, row, folder)]
    kept = [bool(one[TRAINED]) for one in files if TRAINED in one]
    return f"pointer generator trained in {sum(kept)} of {len(kept)}" if kept else ""


def _load(corpus: str, row: str, folder: Path) -> list[dict[str, NDArray[Any]]]:
    files = sorted(folder.glob(f"{corpus}-levels-{row}-[0-9].npz"))
    return [dict(np.load(file)) for file in files]


def load_sets(corpus: str, side: str, folder: Path) -> list[Numbers]:
    """Return (documents, 3) for each seed: hits, predicted and true labels."""
    row, key = side.split(": ")
    return [one[key].astype(np.float64) for one in _load(corpus, row, folder) if key in one]


def load_levels(corpus: str, side: str, fixed: str, folder: Path) -> list[Numbers]:
    """Return (documents, levels, 4) for each seed: hits, predicted and true labels, and those that
    OFO predicts. Sets are those of OFO, or of a fixed K."""
    row, key = side.split(": ")
    name, found = f"{key}, levels", []
    for one in _load(corpus, row, folder):
        if name not in one:
            continue
        counts = one[name].astype(np.float64)  # (levels, documents, 6)
        ofo, true = counts[:, :, 4], counts[:, :, 5]
        hit, predicted = counts[:, :, 3], ofo
        if fixed:
            place = FIXED.index(fixed)
            hit = counts[:, :, place]
            predicted = np.broadcast_to(one[f"{name}, predicted"][:, place, None], ofo.shape)
        found.append(np.stack([hit, predicted, true, ofo], axis=2).transpose(1, 0, 2))
    return found


def mask_documents(counts: Numbers, documents: str) -> NDArray[np.bool_]:
    """Return (documents, levels): which documents count at which level."""
    if documents not in SLICES:
        raise SystemExit(f"there are no documents {documents!r}; known: {', '.join(SLICES)}")
    has_label = counts[:, :, 2] > 0
    if documents == EVERY_LEVEL:
        return has_label & has_label.all(axis=1, keepdims=True)
    return has_label & (counts[:, :, 3] > 0) if documents == PREDICTED else has_label


def to_micro_f(counts: Numbers, documents: str = "") -> Numbers:
    """Return (documents, levels, 2): 2 hits, and predicted + true labels, where a document counts,
    else 0."""
    hit, predicted, true, _ = counts.transpose(2, 0, 1)
    pair = np.stack([2 * hit, predicted + true], axis=2)
    return np.asarray(pair * mask_documents(counts, documents)[:, :, None])


def format_levels(corpus: str, side: str, folder: Path) -> Iterator[str]:
    """Return lines of Markdown: for each kind of documents the micro-F and the F of mean precision
    and mean recall (Eq. 10) at each level, mean over seeds, of OFO and of each fixed K."""
    sides = {name or "OFO": load_levels(corpus, side, name, folder) for name in ("", *FIXED)}
    if not sides["OFO"]:
        raise SystemExit(f"{folder} has no counts of {corpus}, {side}")
    levels = range(1, sides["OFO"][0].shape[1] + 1)
    for documents in SLICES:
        yield f"| {documents or 'all documents'} | {' | '.join(map(str, levels))} |"
        yield "|---|" + "---:|" * len(levels)
        counted = np.mean([mask_documents(one, documents).sum(axis=0) for one in sides["OFO"]], 0)
        yield f"| documents | {' | '.join(f'{n:,.0f}' for n in counted)} |"
        for metric, measure in (("micro-F", measure_micro_f), ("macro-F", measure_macro_f)):
            for name, seeds in sides.items():
                each = 100 * np.mean([measure(one, documents) for one in seeds], axis=0)
                yield f"| {metric}, {name} | {' | '.join(f'{value:.2f}' for value in each)} |"
        yield ""


def measure_micro_f(counts: Numbers, documents: str) -> Numbers:
    """Return the micro-F of each level."""
    hits, all_labels = to_micro_f(counts, documents).sum(axis=0).T
    return np.asarray(hits / np.maximum(all_labels, 1))


def measure_macro_f(counts: Numbers, documents: str) -> Numbers:
    """Return the F of the mean precision and the mean recall of each level; a document without a
    prediction has precision 0."""
    is_counted = mask_documents(counts, documents)
    hit, predicted, true, _ = counts.transpose(2, 0, 1)
    n = np.maximum(is_counted.sum(axis=0), 1)
    precision = (is_counted * hit / np.maximum(predicted, 1)).sum(axis=0) / n
    recall = (is_counted * hit / np.maximum(true, 1)).sum(axis=0) / n
    return np.asarray(2 * precision * recall / np.maximum(precision + recall, 1e-12))


def _compare_levels(first: Sequence[Numbers], second: Sequence[Numbers]) -> Compared:
    n_docs, n_levels, _ = first[0].shape
    rows = np.concatenate([one.reshape(n_docs, -1) for one in (*first, *second)], axis=1)
    shape = (len(first) + len(second), n_levels, 2)

    def differ(sums: Numbers) -> tuple[Numbers, Numbers]:
        """Return (sides and seeds, levels) and the difference (levels,), for each replicate."""
        parts = sums.reshape(len(sums), *shape)
        micro_f = parts[..., 0] / np.maximum(parts[..., 1], 1)
        gap = micro_f[:, : len(first)].mean(axis=1) - micro_f[:, len(first) :].mean(axis=1)
        return micro_f, gap

    micro_f, gap = differ(rows.sum(axis=0, keepdims=True))
    drawn = differ(resample_sums(rows, replicates=REPLICATES, seed=0))[1]
    each = 100 * micro_f[0].mean(axis=1)
    return Compared(
        each[: len(first)].tolist(),
        each[len(first) :].tolist(),
        _interval(float(gap.mean()), drawn.mean(axis=1)),
        [_interval(float(gap[0, level]), drawn[:, level]) for level in range(n_levels)],
    )


def _compare_sets(first: Sequence[Numbers], second: Sequence[Numbers], metric: str) -> Compared:
    has_label = first[0][:, 2] > 0
    rows = np.concatenate([_to_sums(one[has_label], metric) for one in (*first, *second)], axis=1)

    def differ(sums: Numbers) -> tuple[Numbers, Numbers]:
        values = _from_sums(sums.reshape(len(sums), -1, 2), metric)  # (replicates, sides and seeds)
        return values, values[:, : len(first)].mean(axis=1) - values[:, len(first) :].mean(axis=1)

    values, gap = differ(rows.sum(axis=0, keepdims=True))
    drawn = differ(resample_sums(rows, replicates=REPLICATES, seed=0))[1]
    each = (100 * values[0]).tolist()
    return Compared(each[: len(first)], each[len(first) :], _interval(float(gap[0]), drawn))


def _to_sums(counts: Numbers, metric: str) -> Numbers:
    """Return two numbers a document, whose sums give the metric."""
    hit, predicted, true = counts.T
    if metric == "MiF":
        return np.stack([2 * hit, predicted + true], axis=1)
    precision, recall = hit / np.maximum(predicted, 1), hit / np.maximum(true, 1)
    return np.stack([precision, recall], axis=1) / len(counts)


def _from_sums(sums: Numbers, metric: str) -> Numbers:
    first, second = sums[..., 0], sums[..., 1]
    if metric == "MiF":
        return np.asarray(first / np.maximum(second, 1))
    both = {"MaP": first, "MaR": second, "MaF": 2 * first * second / (first + second + 1e-12)}
    return both[metric]


def _interval(estimate: float, drawn: Numbers) -> Interval:
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Interval(estimate, float(low), float(high))


def main() -> None:
    corpus, side = sys.argv[1:]
    sys.stdout.write("\n".join(format_levels(corpus, side, RESULTS)))


if __name__ == "__main__":
    main()

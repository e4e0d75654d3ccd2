"""The documents that trials are measured on, from few to all.

A trial on the first rung is cheap and shows what a setting changes; only rankings of the last rung
decide the consensus. Documents that a trial ranks are never among those that it learns.

    dev is large    700 train documents ─ 2,800 ─ 11,000 ─ all 45,000  ranked: dev
    dev is small    1 of 5 folds ─ 2 ─ 3 ─ all 5 of train + dev        ranked: each fold in turn

Where time is short, fewer folds are the last rung. The splits of a rung of folds are the first ones
of the next, so that each is trained once. A dev of 100 documents or more is the first fold: what
ranks it has learned train, and is not trained again to be a member.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, vstack

from ontodex.io.counts import format_count
from ontodex.types import Corpus, LabelSpace

ENOUGH_DEV = 500  # dev documents that need no cross-validation
_FOLDS = 5
_GROWTH = 4  # times the documents of the rung below
_SMALLEST = 250  # training documents of a rung
_DEV_FOLD = 100  # dev documents that are a fold of their own
_SOME_FOLDS = (1, 2, 3)  # of those of the last rung
_HELD_OUT = 1_500  # dev documents ranked on lower rungs


@dataclass(frozen=True, eq=False)
class Split:
    """Documents to learn, and others to rank."""

    train: Corpus
    held_out: Corpus
    labels: LabelSpace  # of the documents to learn


@dataclass(frozen=True, eq=False)
class Rung:
    """The splits of one trial."""

    name: str
    splits: tuple[Split, ...]
    gold: csr_array  # of the held-out documents of all splits, in the columns of the final labels
    part: Rung | None = None  # the rung below, where its splits are the first ones of this rung

    @property
    def documents(self) -> int:
        """Number of documents that a trial learns in each split."""
        return max(len(split.train) for split in self.splits)


def make_rungs(
    train: Corpus, dev: Corpus, labels: LabelSpace, *, folds: int, seed: int
) -> list[Rung]:
    """Return the rungs, smallest first."""
    if not folds and len(dev) < ENOUGH_DEV:
        folds = _FOLDS
    if folds:
        return _make_folds(train, dev, labels, folds, seed)
    order = np.random.default_rng(seed).permutation(len(train))
    few = dev.select(np.random.default_rng(seed).permutation(len(dev))[:_HELD_OUT])
    sizes = [len(train)]
    while sizes[0] // _GROWTH >= _SMALLEST:
        sizes.insert(0, sizes[0] // _GROWTH)
    rungs = []
    for size in sizes[:-1]:
        part = train.select(order[:size])
        split = Split(part, few, LabelSpace.of(part, labels.ontology))
        rungs.append(_make_rung(format_count(size, "document"), [split], labels))
    whole = Split(train, dev, labels)
    return [*rungs, _make_rung(f"all {format_count(len(train), 'document')}", [whole], labels)]


def _make_folds(
    train: Corpus, dev: Corpus, labels: LabelSpace, folds: int, seed: int
) -> list[Rung]:
    """Return rungs of a few folds and of all; a corpus too small to split ranks itself."""
    corpus = train.join(dev) if len(dev) else train
    folds = min(folds, len(corpus))
    if folds < 2:
        return [_make_rung("the only document", [Split(corpus, corpus, labels)], labels)]
    rng = np.random.default_rng(seed)
    splits = []
    if len(dev) >= _DEV_FOLD and folds > 2:
        splits.append(Split(train, dev, labels))
        part = np.full(len(corpus), folds - 1)
        part[: len(train)] = rng.permutation(len(train)) % (folds - 1)
    else:
        part = rng.permutation(len(corpus)) % folds
    for fold in range(folds - len(splits)):
        learned = corpus.select(part != fold)
        own = LabelSpace.of(learned, labels.ontology)
        splits.append(Split(learned, corpus.select(part == fold), own))
    rungs: list[Rung] = []
    for count in (*(count for count in _SOME_FOLDS if count < folds), folds):
        name = f"{count} of {folds} folds"
        if count == folds:
            name = f"{folds} folds of {format_count(len(corpus), 'document')}"
        rungs.append(_make_rung(name, splits[:count], labels, rungs[-1] if rungs else None))
    return rungs


def _make_rung(
    name: str, splits: Sequence[Split], labels: LabelSpace, part: Rung | None = None
) -> Rung:
    golds = [labels.gold(split.held_out) for split in splits]
    width = max(gold.shape[1] for gold in golds)
    wide = [
        csr_array((gold.data, gold.indices, gold.indptr), shape=(gold.shape[0], width))
        for gold in golds
    ]
    return Rung(name, tuple(splits), csr_array(vstack(wide, format="csr")), part)

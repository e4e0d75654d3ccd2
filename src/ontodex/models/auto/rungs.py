"""The documents that trials are measured on, from few to all.

A trial on the first rung is cheap and shows what a setting changes; only rankings of the last rung
decide the consensus. Documents that a trial ranks are never among those that it learns.

    dev is large    700 train documents ─ 2,800 ─ 11,000 ─ all 45,000  ranked: dev
    dev is small    1 of 5 folds ─ 2 folds ─ all 5 of train + dev      ranked: each fold in turn

Where time is short, 2 folds or 1 are the last rung.
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
_SMALLEST = 500  # training documents of a rung
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
        return _make_folds(train.join(dev) if len(dev) else train, labels, folds, seed)
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


def _make_folds(corpus: Corpus, labels: LabelSpace, folds: int, seed: int) -> list[Rung]:
    """Return rungs of one fold, two and all; a corpus too small to split ranks itself."""
    folds = min(folds, len(corpus))
    if folds < 2:
        return [_make_rung("the only document", [Split(corpus, corpus, labels)], labels)]
    part = np.random.default_rng(seed).permutation(len(corpus)) % folds
    splits = []
    for fold in range(folds):
        learned = corpus.select(part != fold)
        own = LabelSpace.of(learned, labels.ontology)
        splits.append(Split(learned, corpus.select(part == fold), own))
    some = [
        _make_rung(f"{count} of {folds} folds", splits[:count], labels)
        for count in (1, 2)
        if count < folds
    ]
    return [
        *some,
        _make_rung(f"{folds} folds of {format_count(len(corpus), 'document')}", splits, labels),
    ]


def _make_rung(name: str, splits: Sequence[Split], labels: LabelSpace) -> Rung:
    golds = [labels.gold(split.held_out) for split in splits]
    width = max(gold.shape[1] for gold in golds)
    wide = [
        csr_array((gold.data, gold.indices, gold.indptr), shape=(gold.shape[0], width))
        for gold in golds
    ]
    return Rung(name, tuple(splits), csr_array(vstack(wide, format="csr")))

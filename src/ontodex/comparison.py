"""`ontodex compare`: several runs on the same documents, side by side.

    runs ─ rankings and sets, columns by concept id ─ metrics a document ─ table, ranks, tests

Label spaces may differ: everything is measured in their union, so a label that one run does not
know is a label it misses.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex import tables
from ontodex.decide import Decision
from ontodex.decide.expected_f import ExpectedF
from ontodex.errors import ConfigError, DataError
from ontodex.evaluate.compare import (
    Difference,
    average_ranks,
    compare_means,
    compare_micro_f,
    overlap,
    wilcoxon,
)
from ontodex.evaluate.ranking import (
    Numbers,
    gold_sizes,
    hits,
    ndcg,
    precision,
    propensity_gains,
    propensity_of_columns,
    psp,
)
from ontodex.evaluate.sets import Counts, count_by_document, macro, micro
from ontodex.models.consensus import Consensus
from ontodex.recipe import train
from ontodex.run import Run, load
from ontodex.settings import resolve
from ontodex.types import Corpus, LabelSpace, Ranking

KS = (1, 3, 5)
OVERLAPS = (1, 2, 3, 4, 5)  # paper 002, Table 4
TESTED = ("P@1", "P@5", "nDCG@5")  # by Wilcoxon, document by document


@dataclass(frozen=True)
class Pair:
    """Two systems: share of the first's top k in the second's, and p-values of "no difference"."""

    first: str
    second: str
    overlap: Mapping[str, float]
    wilcoxon: Mapping[str, float]


@dataclass(frozen=True)
class Comparison:
    """The figures of several systems on the same documents; rows are metrics."""

    systems: tuple[str, ...]
    documents: int  # counted
    without_gold: int  # left out
    values: Mapping[str, tuple[float, ...]]
    average_rank: Mapping[str, tuple[float, ...]]  # over rows of one kind, and over all of them
    differences: Mapping[str, tuple[Difference, ...]]  # each later system minus the first one
    pairs: tuple[Pair, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, by system."""
        by_system = {
            name: {metric: row[column] for metric, row in self.values.items()}
            for column, name in enumerate(self.systems)
        }
        ranks = {
            name: {kind: row[column] for kind, row in self.average_rank.items()}
            for column, name in enumerate(self.systems)
        }
        differences = {
            name: {m: dataclasses.asdict(row[column]) for m, row in self.differences.items()}
            for column, name in enumerate(self.systems[1:])
        }
        return {
            "documents": self.documents,
            "without_gold": self.without_gold,
            "systems": by_system,
            "average_rank": ranks,
            "minus_first": differences,
            "pairs": [dataclasses.asdict(pair) for pair in self.pairs],
        }

    def text(self) -> str:
        """The tables for a terminal; metrics in percent."""
        return "\n\n".join(f"{title}\n{tables.aligned(rows)}" for title, rows in self._tables())

    def markdown(self) -> str:
        return "\n\n".join(f"{title}\n\n{tables.markdown(rows)}" for title, rows in self._tables())

    def _tables(self) -> list[tuple[str, list[list[str]]]]:
        left_out = f", {self.without_gold:,} without labels left out" if self.without_gold else ""
        figures = [["", *self.systems]]
        figures += [
            [metric, *(f"{100 * value:.2f}" for value in row)]
            for metric, row in self.values.items()
        ]
        figures += [
            [f"rank, {kind}", *(f"{value:.2f}" for value in row)]
            for kind, row in self.average_rank.items()
        ]
        differences = [["", *self.systems[1:]]]
        differences += [[metric, *map(_signed, row)] for metric, row in self.differences.items()]
        pairs = [["", *self.pairs[0].overlap, *(f"p {name}" for name in TESTED)]]
        pairs += [
            [
                f"{pair.first}, {pair.second}",
                *(f"{100 * share:.0f} %" for share in pair.overlap.values()),
                *(f"{value:.2g}" for value in pair.wilcoxon.values()),
            ]
            for pair in self.pairs
        ]
        return [
            (f"{self.documents:,} documents{left_out}; average ranks, 1 the best", figures),
            (f"Difference from {self.systems[0]}, 95 % interval (paired bootstrap)", differences),
            ("Overlap of the top k, and Wilcoxon signed-rank p-values over documents", pairs),
        ]


def _signed(difference: Difference) -> str:
    low, high = 100 * difference.low, 100 * difference.high
    return f"{100 * difference.estimate:+.2f} ({low:+.2f} to {high:+.2f})"


def compare_folders(
    folders: Sequence[Path],
    corpus: Corpus,
    *,
    consensus: bool = False,
    device: str = "auto",
) -> Comparison:
    """Runs from their folders compared on a labelled corpus; with `consensus`, Eq. 9 of all of them
    is one more system."""
    runs = dict(zip(_names(folders), (load(f, device=device) for f in folders), strict=True))
    if consensus:
        runs["consensus"] = consensus_of(list(runs.values()))
    return compare(runs, corpus)


def save_consensus(
    folders: Sequence[Path],
    out: Path,
    *,
    train_corpus: Corpus,
    dev: Corpus | None = None,
    device: str = "auto",
) -> Run:
    """The consensus of runs as a run folder of its own; label frequencies come from the training
    corpus, and thresholds are tuned on dev (a tenth of train when there is none)."""
    ontologies = (load(folder, device="cpu").labels.ontology for folder in folders)
    ontology = next((found for found in ontologies if found is not None), None)
    model = {"name": "consensus", "members": [str(folder) for folder in folders]}
    return train(
        {"model": model}, out, train=train_corpus, dev=dev, ontology=ontology, device=device
    )


def consensus_of(runs: Sequence[Run]) -> Run:
    """1 - prod (1 - P_i) of loaded runs (paper 002, Eq. 9), in memory. No dev documents are at
    hand, so its sets are those with the highest expected F."""
    settings = resolve({"model": {"name": "consensus"}, "decide": {"rule": "expected-f"}})
    labels = common_labels([run.labels for run in runs])
    decision = Decision(settings.decide, ExpectedF())
    return Run(Path("consensus"), {}, settings, labels, Consensus.of(runs, labels), decision)


def common_labels(spaces: Sequence[LabelSpace]) -> LabelSpace:
    """All labels of several spaces; a frequency is the highest that one of them counted."""
    frequency: dict[str, int] = {}
    for space in spaces:
        for label, count in zip(space.ids, space.frequency.tolist(), strict=True):
            frequency[label] = max(count, frequency.get(label, 0))
    counts = np.array(list(frequency.values()), dtype=np.int64)
    n_docs = max(space.n_docs for space in spaces)
    ontology = next((space.ontology for space in spaces if space.ontology is not None), None)
    return LabelSpace(tuple(frequency), counts, n_docs, ontology)


@dataclass(frozen=True, eq=False)
class _Measured:
    """What one system got, document by document."""

    per_document: Mapping[str, Numbers]
    counts: Counts
    top: Ranking

    def values(self) -> dict[str, float]:
        sets = micro(self.counts) | macro(self.counts)
        means = {name: float(numbers.mean()) for name, numbers in self.per_document.items()}
        return means | {"MiF": sets["MiF"], "MaF": sets["MaF"]}


def compare(runs: Mapping[str, Run], corpus: Corpus) -> Comparison:
    """Loaded runs, by the names to show, on one labelled corpus."""
    if len(runs) < 2:
        raise ConfigError(f"a comparison needs two runs or more, not {len(runs)}")
    labels = common_labels([run.labels for run in runs.values()])
    gold = labels.gold(corpus)
    counted = gold_sizes(gold) > 0
    if not counted.any():
        raise DataError(
            f"none of the {len(counted):,} documents has a label, so nothing can be measured",
            hint="compare on a labelled corpus",
        )
    gold, corpus = csr_array(gold[counted]), corpus.select(counted)
    measured = {name: _measure(run, corpus, labels, gold) for name, run in runs.items()}
    by_system = [system.values() for system in measured.values()]
    values = {name: tuple(row[name] for row in by_system) for name in by_system[0]}
    return Comparison(
        tuple(runs),
        int(counted.sum()),
        int(len(counted) - counted.sum()),
        values,
        _ranks(values),
        _differences(list(measured.values())),
        tuple(
            _pair(names, measured[names[0]], measured[names[1]])
            for names in itertools.combinations(runs, 2)
        ),
    )


def _measure(run: Run, corpus: Corpus, labels: LabelSpace, gold: csr_array) -> _Measured:
    """One run's figures in the common label space."""
    place = np.array([labels.column[label] for label in run.labels.ids], dtype=np.int32)
    own = run.rank(corpus)
    ranking = _moved(own, place)
    decided = _moved(run.decide(corpus, own), place)
    found, sizes = hits(gold, ranking), gold_sizes(gold)
    propensity = propensity_of_columns(labels, gold.shape[1])
    gains, best = propensity_gains(max(KS), gold, ranking, propensity)
    per_document = {f"P@{k}": precision(k, found, sizes) for k in KS}
    per_document |= {f"nDCG@{k}": ndcg(k, found, sizes) for k in KS}
    per_document |= {f"PSP@{k}": psp(k, gains, best) for k in KS}
    return _Measured(per_document, count_by_document(gold, decided), ranking.cut(max(OVERLAPS)))


def _moved(ranking: Ranking, place: NDArray[np.int32]) -> Ranking:
    """The same answers in the same order, by columns of the common space; padding stays."""
    return Ranking(np.append(place, np.int32(-1))[ranking.columns], ranking.probabilities)


def _ranks(values: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, ...]]:
    """Average ranks over the rows of P@k, nDCG@k, PSP@k (paper 002, Tables 2 and 3), and all."""
    kinds = {f"{kind}@k": [f"{kind}@{k}" for k in KS] for kind in ("P", "nDCG", "PSP")}
    return {
        kind: tuple(average_ranks(np.round([values[name] for name in names], 12)).tolist())
        for kind, names in (*kinds.items(), ("all", list(values)))
    }


def _differences(measured: Sequence[_Measured]) -> dict[str, tuple[Difference, ...]]:
    first, *others = measured
    differences = {
        name: tuple(compare_means(other.per_document[name], numbers) for other in others)
        for name, numbers in first.per_document.items()
    }
    sets = tuple(compare_micro_f(other.counts, first.counts) for other in others)
    return differences | {"MiF": sets}


def _pair(names: tuple[str, str], first: _Measured, second: _Measured) -> Pair:
    return Pair(
        *names,
        overlap={f"top {k}": overlap(first.top, second.top, k) for k in OVERLAPS},
        wilcoxon={
            name: wilcoxon(first.per_document[name], second.per_document[name]) for name in TESTED
        },
    )


def _names(folders: Sequence[Path]) -> list[str]:
    """The folders' last names, or the paths as given where two would be called the same."""
    short = [folder.resolve().name for folder in folders]
    names = short if len(set(short)) == len(short) else [str(folder) for folder in folders]
    if len(set(names)) < len(names):
        raise ConfigError("a run is named twice", hint="give each run folder once")
    return names


__all__ = [
    "Comparison",
    "Pair",
    "common_labels",
    "compare",
    "compare_folders",
    "consensus_of",
    "save_consensus",
]

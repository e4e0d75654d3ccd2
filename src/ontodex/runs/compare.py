"""Compare several runs on the same documents: metrics, ranks and significance, side by side.

    runs ─ predictions, columns by concept id ─ metrics per document ─ table, ranks, tests

Label spaces may differ: everything is measured in their union, so a label that one run does not
know is a label it misses.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.corpora.field_mapping import NO_MAPPING, FieldMapping
from ontodex.corpora.open import Documents
from ontodex.decide.decision import Decision
from ontodex.decide.expected_f import ExpectedF
from ontodex.errors import ConfigError, DataError
from ontodex.evaluation.ranking import (
    Numbers,
    compute_propensities,
    compute_propensity_gains,
    count_gold_labels,
    find_hits,
    ndcg,
    precision,
    psp,
)
from ontodex.evaluation.sets import Counts, count_by_document, macro, micro
from ontodex.evaluation.significance import (
    Difference,
    average_ranks,
    compare_means,
    compare_micro_f,
    overlap,
    wilcoxon,
)
from ontodex.io import tables
from ontodex.io.counts import format_count
from ontodex.models.consensus.system import Consensus
from ontodex.runs.documents import open_documents
from ontodex.runs.languages import describe_foreign
from ontodex.runs.recipe import train as train_run
from ontodex.runs.run import Run, load, locate_run, predict
from ontodex.runs.settings import resolve
from ontodex.types import Corpus, LabelSpace, Ranking

logger = logging.getLogger(__name__)

KS = (1, 3, 5)
OVERLAPS = (1, 2, 3, 4, 5)  # AttentionXML, Table 4
TESTED = ("P@1", "P@5", "nDCG@5")  # by the Wilcoxon signed-rank test over documents


@dataclass(frozen=True)
class Pair:
    """Two systems: the overlap of their k best labels, and p-values of "no difference"."""

    first: str
    second: str
    overlap: Mapping[str, float]
    wilcoxon: Mapping[str, float]


@dataclass(frozen=True)
class Comparison:
    """The metrics of several systems on the same documents; rows are metrics."""

    systems: tuple[str, ...]
    documents: int  # with labels: those that count
    without_gold: int  # without labels: left out
    values: Mapping[str, tuple[float, ...]]
    average_rank: Mapping[str, tuple[float, ...]]  # over rows of one kind, and over all of them
    differences: Mapping[str, tuple[Difference, ...]]  # each later system minus the first one
    pairs: tuple[Pair, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, by system."""
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
        """Return the tables for a terminal; metrics in percent."""
        return "\n\n".join(
            f"{title}\n{tables.align_columns(rows)}" for title, rows in self._tables()
        )

    def markdown(self) -> str:
        return "\n\n".join(
            f"{title}\n\n{tables.format_markdown(rows)}" for title, rows in self._tables()
        )

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
        differences += [
            [metric, *map(_format_difference, row)] for metric, row in self.differences.items()
        ]
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
            (
                f"{format_count(self.documents, 'document')}{left_out}; average ranks, 1 the best",
                figures,
            ),
            (f"Difference from {self.systems[0]}, 95 % interval (paired bootstrap)", differences),
            ("Overlap of the top k, and Wilcoxon signed-rank p-values over documents", pairs),
        ]


def _format_difference(difference: Difference) -> str:
    low, high = 100 * difference.low, 100 * difference.high
    return f"{100 * difference.estimate:+.2f} ({low:+.2f} to {high:+.2f})"


def compare(
    runs: Sequence[Run | str | Path] | Mapping[str, Run],
    corpus: Documents,
    *,
    consensus: bool = False,
    device: str = "auto",
    mapping: FieldMapping = NO_MAPPING,
) -> Comparison:
    """Compare runs on a labelled corpus.

    `runs` are loaded runs or run folders, or a dict that names loaded runs. With `consensus`, the
    consensus of all of them is one more system. `device` is used for folders. `mapping` names
    columns of a table; by default they are those with which the first run was trained.

    >>> found = ontodex.compare(["runs/floor", "runs/linear"], "test.jsonl", consensus=True)
    >>> found.systems
    ('floor', 'linear', 'consensus')
    >>> [round(value, 3) for value in found.values["P@1"]]
    [0.667, 1.0, 1.0]
    """
    loaded = dict(runs) if isinstance(runs, Mapping) else _load_runs(runs, device)
    labels = common_labels([run.labels for run in loaded.values()])
    about = next((run.about for run in loaded.values()), {})
    opened = open_documents(corpus, labels, about, mapping)
    if consensus:
        loaded["consensus"] = consensus_of(list(loaded.values()))
    return _compare(loaded, opened)


def _load_runs(runs: Sequence[Run | str | Path], device: str) -> dict[str, Run]:
    names = _name_runs([locate_run(run) for run in runs])
    loaded = (run if isinstance(run, Run) else load(run, device=device) for run in runs)
    return dict(zip(names, loaded, strict=True))


def save_consensus(
    runs: Sequence[Run | str | Path],
    out: str | Path,
    *,
    train: Documents,
    dev: Documents | None = None,
    device: str = "auto",
    mapping: FieldMapping = NO_MAPPING,
) -> Run:
    """Write the consensus of runs to the run folder `out`, and return the run.

    Label frequencies come from the training corpus; thresholds are tuned on dev (a tenth of the
    training corpus when there is none).

    >>> ontodex.save_consensus(["runs/floor", "runs/linear"], "runs/both", train="train.jsonl")
    Run('runs/both', consensus, 4 labels)
    """
    folders = [locate_run(run) for run in runs]
    ontologies = (load(folder, device="cpu").labels.ontology for folder in folders)
    ontology = next((found for found in ontologies if found is not None), None)
    return train_run(
        "consensus",
        members=[str(folder) for folder in folders],
        train=train,
        dev=dev,
        ontology=ontology,
        out=out,
        device=device,
        mapping=mapping,
    )


def consensus_of(runs: Sequence[Run]) -> Run:
    """Return the consensus 1 - prod (1 - P_i) of loaded runs (AttentionXML, Eq. 9), in memory.

    There are no dev documents, so its label sets are those with the highest expected F.
    """
    settings = resolve({"model": {"name": "consensus"}, "decide": {"rule": "expected-f"}})
    labels = common_labels([run.labels for run in runs])
    decision = Decision(settings.decide, ExpectedF())
    return Run(Path("consensus"), {}, settings, labels, Consensus.of(runs, labels), decision)


def common_labels(spaces: Sequence[LabelSpace]) -> LabelSpace:
    """Return all labels of several spaces, each with its highest frequency in any of them."""
    frequency: dict[str, int] = {}
    for space in spaces:
        for label, count in zip(space.ids, space.frequency.tolist(), strict=True):
            frequency[label] = max(count, frequency.get(label, 0))
    counts = np.array(list(frequency.values()), dtype=np.int64)
    n_docs = max(space.n_docs for space in spaces)
    ontology = next((space.ontology for space in spaces if space.ontology is not None), None)
    return LabelSpace(tuple(frequency), counts, n_docs, ontology)


@dataclass(frozen=True, eq=False)
class _SystemScores:
    """The metrics of one system for each document, its set counts and its best labels."""

    per_document: Mapping[str, Numbers]
    counts: Counts
    top: Ranking

    def values(self) -> dict[str, float]:
        sets = micro(self.counts) | macro(self.counts)
        means = {name: float(numbers.mean()) for name, numbers in self.per_document.items()}
        return means | {"MiF": sets["MiF"], "MaF": sets["MaF"]}


def _compare(runs: Mapping[str, Run], corpus: Corpus) -> Comparison:
    if len(runs) < 2:
        raise ConfigError(f"a comparison needs two runs or more, not {len(runs)}")
    labels = common_labels([run.labels for run in runs.values()])
    gold = labels.gold(corpus)
    counted = count_gold_labels(gold) > 0
    if not counted.any():
        raise DataError(
            f"no document (of {len(counted):,}) has a label, so nothing can be measured",
            hint="compare on a labelled corpus",
        )
    gold, corpus = csr_array(gold[counted]), corpus.select(counted)
    _warn_foreign(runs, corpus)
    scores = {name: _score(run, corpus, labels, gold) for name, run in runs.items()}
    by_system = [system.values() for system in scores.values()]
    values = {name: tuple(row[name] for row in by_system) for name in by_system[0]}
    return Comparison(
        tuple(runs),
        int(counted.sum()),
        int(len(counted) - counted.sum()),
        values,
        _average_ranks(values),
        _compute_differences(list(scores.values())),
        tuple(
            _compare_pair(names, scores[names[0]], scores[names[1]])
            for names in itertools.combinations(runs, 2)
        ),
    )


def _warn_foreign(runs: Mapping[str, Run], corpus: Corpus) -> None:
    """Warn, for the runs of each language, of texts in other languages."""
    for languages in dict.fromkeys(run.languages for run in runs.values()):
        if warning := describe_foreign(corpus, languages):
            names = (name for name, run in runs.items() if run.languages == languages)
            logger.warning("%s: %s", ", ".join(names), warning)


def _score(run: Run, corpus: Corpus, labels: LabelSpace, gold: csr_array) -> _SystemScores:
    """Compute the metrics of one run in the common label space."""
    column = np.array([labels.column[label] for label in run.labels.ids], dtype=np.int32)
    result = predict(run, corpus)
    ranking = _translate_columns(result.ranking, column)
    label_sets = _translate_columns(result.label_sets, column)
    found, sizes = find_hits(gold, ranking), count_gold_labels(gold)
    propensity = compute_propensities(labels, gold.shape[1])
    gains, best = compute_propensity_gains(max(KS), gold, ranking, propensity)
    per_document = {f"P@{k}": precision(k, found, sizes) for k in KS}
    per_document |= {f"nDCG@{k}": ndcg(k, found, sizes) for k in KS}
    per_document |= {f"PSP@{k}": psp(k, gains, best) for k in KS}
    counts = count_by_document(gold, label_sets)
    return _SystemScores(per_document, counts, ranking.cut(max(OVERLAPS)))


def _translate_columns(ranking: Ranking, column: NDArray[np.int32]) -> Ranking:
    """Return the same ranking in the columns of the common space; padding stays."""
    return Ranking(np.append(column, np.int32(-1))[ranking.columns], ranking.probabilities)


def _average_ranks(values: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, ...]]:
    """Average the ranks over the rows of P@k, nDCG@k and PSP@k (AttentionXML, Tables 2 and 3), and
    over all rows."""
    kinds = {f"{kind}@k": [f"{kind}@{k}" for k in KS] for kind in ("P", "nDCG", "PSP")}
    return {
        kind: tuple(average_ranks(np.round([values[name] for name in names], 12)).tolist())
        for kind, names in (*kinds.items(), ("all", list(values)))
    }


def _compute_differences(scores: Sequence[_SystemScores]) -> dict[str, tuple[Difference, ...]]:
    first, *others = scores
    differences = {
        name: tuple(compare_means(other.per_document[name], numbers) for other in others)
        for name, numbers in first.per_document.items()
    }
    sets = tuple(compare_micro_f(other.counts, first.counts) for other in others)
    return differences | {"MiF": sets}


def _compare_pair(names: tuple[str, str], first: _SystemScores, second: _SystemScores) -> Pair:
    return Pair(
        *names,
        overlap={f"top {k}": overlap(first.top, second.top, k) for k in OVERLAPS},
        wilcoxon={
            name: wilcoxon(first.per_document[name], second.per_document[name]) for name in TESTED
        },
    )


def _name_runs(folders: Sequence[Path]) -> list[str]:
    """Return the last names of the folders, or their paths where two names are the same."""
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
    "consensus_of",
    "save_consensus",
]

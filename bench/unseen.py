"""Recall of concepts that no training document has: by single runs, and by rankers joined of them.

    python bench/unseen.py RUN RUN ... --dev dev.jsonl --test test.jsonl --train train.jsonl
    python bench/unseen.py RUN RUN ... --dev D --test E --train T --every 12 --by language

An occurrence counts where the concept is among the first 10 or 100 of all concepts. Documents with
such a concept are ranked, and besides one in `--every`, by a hash of the id: nDCG@5 is that of the
latter, and they fit what is fitted. Joined rankers are each join with equal weights, and the
consensus whose join, weights and model of ranking again are chosen on dev. What is ranked again is
cross-validated on dev.

`--rankings FOLDER` keeps the ranking of each run, and reads those that are there. With `--every 1`
they are complete, as bench/consensus.py reads them.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from consensus import Kept, Member
from ontodex.corpora.open import open_corpus
from ontodex.models.consensus.joins import JOINS
from ontodex.models.consensus.member_selection import measure_ndcg
from ontodex.models.consensus.reranker import LabelCounts
from ontodex.models.consensus.system import Consensus
from ontodex.runs.run import Run, load
from ontodex.types import Corpus, LabelSpace, Ranking

RANKS = 100
FIRST = (10, 100)


@dataclass(frozen=True, eq=False)
class Part:
    """The documents of dev or test that are ranked: a sample, and those with an unseen concept."""

    name: str
    documents: Corpus  # all that are ranked
    sample: Corpus
    unseen: Corpus
    wanted: list[tuple[int, int]]  # (row of `unseen`, column) of each occurrence
    n_unknown: int  # further occurrences, of labels that are no concepts of the ontology

    @classmethod
    def of(cls, name: str, corpus: Corpus, labels: LabelSpace, every: int) -> Part:
        is_seen = np.append(labels.frequency > 0, False)  # the last one: no concept
        columns = [[labels.column.get(one, -1) for one in own] for own in corpus.labels()]
        is_wanted = np.array([not is_seen[own].all() for own in columns])
        is_sampled = np.array([hash_id(one) % every == 0 for one in corpus.ids])
        rows = np.flatnonzero(is_wanted)
        unseen = [
            (row, column)
            for row, document in enumerate(rows.tolist())
            for column in columns[document]
            if not is_seen[column]
        ]
        wanted = [(row, column) for row, column in unseen if column >= 0]
        return cls(
            name,
            corpus.select(np.flatnonzero(is_wanted | is_sampled)),
            corpus.select(np.flatnonzero(is_sampled)),
            corpus.select(rows),
            wanted,
            len(unseen) - len(wanted),
        )

    def divide(self, ranking: Ranking) -> dict[str, Ranking]:
        """Return the ranking of the sample and of the documents with unseen concepts, by key."""
        row = {one: number for number, one in enumerate(self.documents.ids)}
        parts = (self.sample, self.unseen)
        return {part.key: ranking.take(np.array([row[one] for one in part.ids])) for part in parts}

    def find_wanted(self, ranking: Ranking) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return (occurrences,): the rank of each unseen concept, infinity where it has none."""
        ranks = [np.flatnonzero(ranking.columns[row] == column) for row, column in self.wanted]
        return np.array([found[0] if len(found) else np.inf for found in ranks])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--dev", type=Path, required=True)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--by", default="", help="also by this metadata, e.g. language")
    parser.add_argument("--rankings", type=Path)
    given = parser.parse_args()
    runs = [load(folder) for folder in given.runs]
    labels = runs[0].labels
    parts = [
        Part.of(name, open_corpus(path), labels, given.every)
        for name, path in (("dev", given.dev), ("test", given.test))
    ]
    for part in parts:
        say(
            f"{part.name}: {len(part.sample):,} documents sampled; {len(part.unseen):,} with "
            f"{len(part.wanted):,} occurrences of {len({c for _, c in part.wanted}):,} unseen "
            f"concepts, and {part.n_unknown:,} of labels that the ontology does not have"
        )
    members = [Member(run.folder, labels, keep(run, parts, given.rankings)) for run in runs]
    header = [f"{part.name} {name}" for part in parts for name in ("nDCG@5", "R@10", "R@100")]
    groups = np.unique([group for doc in parts[1].unseen if (group := find_group(doc, given.by))])
    header += [f"test {group} R@{k}" for group in groups for k in FIRST]
    say(f"\n| ranker | {' | '.join(header)} |\n{'|---' * (len(header) + 1)}|")
    counts = LabelCounts.of(labels, labels.gold(open_corpus(given.train)))
    for name, model in list_rankers(members, labels, parts[0], counts):
        cells = [cell for part in parts for cell in measure(part, model, labels)]
        cells += measure_groups(parts[1], model, given.by, groups.tolist())
        say(f"| {name} | {' | '.join(f'{value:.1f}' for value in cells)} |")


def keep(run: Run, parts: Sequence[Part], folder: Path | None) -> Kept:
    """Return the rankings of a run, from the folder where they are there."""
    path = folder / f"{run.folder.name}.npz" if folder else None
    arrays = dict(np.load(path)) if path and path.exists() else {}
    kept = {}
    for part in parts:
        if f"{part.name}_columns" not in arrays:
            ranking = run.rank(part.documents, RANKS)
            arrays[f"{part.name}_columns"] = ranking.columns
            arrays[f"{part.name}_p"] = ranking.probabilities
            if path:
                path.parent.mkdir(parents=True, exist_ok=True)
                np.savez_compressed(path, **arrays)
        ranking = Ranking(arrays[f"{part.name}_columns"], arrays[f"{part.name}_p"])
        kept.update(part.divide(ranking))
    return Kept(kept)


def list_rankers(
    members: Sequence[Member], labels: LabelSpace, dev: Part, counts: LabelCounts
) -> list[tuple[str, Any]]:
    """Return every run and every ranker joined of them all, by name."""
    found: list[tuple[str, Any]] = [(one.folder.name, one.model) for one in members]
    found += [(f"all, {join}", Consensus.of(members, labels, join=join)) for join in JOINS]
    for rerank in (False, True):
        chosen = Consensus.of(members, labels, join="best", rerank=rerank)
        chosen.select(dev.sample, labels.gold(dev.sample), counts)
        weights = [
            f"{one.folder.name} {weight:g}"
            for one, weight in zip(chosen.members, chosen.weights, strict=True)
        ]
        name = f"chosen: {chosen.join}, {', '.join(weights)}"
        if rerank:
            found.append((f"{name}, ranked again", CrossValidated(chosen, dev, labels, counts)))
        else:
            found.append((name, chosen))
    return found


class CrossValidated:
    """A consensus that ranks the documents it was fitted to by the models of other folds."""

    def __init__(
        self, model: Consensus, dev: Part, labels: LabelSpace, counts: LabelCounts
    ) -> None:
        self.model = model
        found = model._collect(dev.sample, RANKS)
        held_out = model.calibrate(found, labels.gold(dev.sample), counts)
        row = {one: number for number, one in enumerate(dev.sample.ids)}
        unseen = model.rank(dev.unseen, RANKS)
        fitted = np.flatnonzero([one in row for one in dev.unseen.ids])
        own = held_out.take(np.array([row[dev.unseen.ids[place]] for place in fitted], np.int64))
        columns, p = unseen.columns.copy(), unseen.probabilities.copy()
        columns[fitted], p[fitted] = own.columns, own.probabilities
        self.held_out = {dev.sample.key: held_out, dev.unseen.key: Ranking(columns, p)}

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        found = self.held_out.get(corpus.key)
        return self.model.rank(corpus, k) if found is None else found.cut(k)


def measure(part: Part, model: Any, labels: LabelSpace) -> list[float]:
    """Return nDCG@5 of the sample, and recall of unseen concepts."""
    ndcg = measure_ndcg(labels.gold(part.sample), model.rank(part.sample, RANKS))
    ranks = part.find_wanted(model.rank(part.unseen, RANKS))
    return [100 * ndcg, *(100 * float(np.mean(ranks < k)) for k in FIRST)]


def measure_groups(part: Part, model: Any, key: str, groups: Sequence[str]) -> list[float]:
    """Return recall of unseen concepts in the documents of each group."""
    ranks = part.find_wanted(model.rank(part.unseen, RANKS))
    own = [find_group(doc, key) for doc in part.unseen]
    is_own = np.array([[own[row] == group for row, _ in part.wanted] for group in groups])
    return [100 * float(np.mean(ranks[some] < k)) for some in is_own for k in FIRST]


def find_group(doc: Any, key: str) -> str:
    return str(doc.metadata.get(key, "")) if key else ""


def hash_id(one: str) -> int:
    """Return a number that does not depend on the parts of a corpus: those are of other digits."""
    return int(hashlib.sha256(one.encode()).hexdigest(), 16) // 100


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

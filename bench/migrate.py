"""Measure `ontodex migrate` on two versions of MeSH, with MEDLINE abstracts as the corpus.

    python bench/migrate.py pubmed20n0014.xml.gz mesh_id_label_mappings.tsv.gz WORK --model linear
    python bench/migrate.py MEDLINE MESH WORK --merged 100 --removed 100
    python bench/migrate.py MEDLINE MESH WORK --old mesh-2019.tsv

The old version is a file of an earlier year (`--old`: ids, names, synonyms), or it is made: MeSH
without the descriptors above `--first-new`. (MeSH numbers descriptors in the order of their
introduction: D040000 was reached in 2003.) It has the names that MeSH changed after the baseline of
2020, whose citations still have the old names. The new version is the MeSH file. There
`--merged` descriptors without narrower ones are merged into a broader one as MeSH does it (their
names become synonyms of it; nothing is stated), and `--removed` ones are left out.

Training documents have no label that is not in the old version, as before the update; test
documents have the labels of the new version. Prints Markdown: the old run, the migrated one, and
one trained from scratch on the new labels of the training documents, which is what an update is
worth at most. The dev documents are decided with their old labels, and the decisions are migrated.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import html
import re
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import ontodex
from ontodex.corpora.open import open_corpus
from ontodex.corpora.split import split_by_hash
from ontodex.io.files import read_lines
from ontodex.runs.migrate import Migration, migrate
from ontodex.runs.run import Run, predict
from ontodex.runs.vocabulary import get_vocabulary_key
from ontodex.serve.database.database import Database
from ontodex.types import Corpus

NAME = re.compile(r'<DescriptorName UI="(D\d+)"[^>]*>([^<]+)<')
RARE = range(5, 101)  # training documents of a descriptor that goes out of use
DESCRIPTOR = re.compile(r"D\d+")
Rows = dict[str, list[str]]  # id -> name, synonyms, tree numbers; the last two between bars


@dataclass(frozen=True)
class Versions:
    """Two versions of MeSH, and what becomes of the labels of documents between them."""

    old: Rows
    new: Rows
    merged: Mapping[str, str]  # descriptor that is gone -> the broader one that has its names

    @property
    def fresh(self) -> set[str]:
        return self.new.keys() - self.old.keys()

    def label_before(self, corpus: Corpus) -> Corpus:
        return corpus.with_labels([[x for x in own if x in self.old] for own in corpus.labels()])

    def label_today(self, corpus: Corpus) -> Corpus:
        lists = [[self.merged.get(label, label) for label in own] for own in corpus.labels()]
        return corpus.with_labels(
            [list(dict.fromkeys(x for x in own if x in self.new)) for own in lists]
        )

    def label_merged(self, corpus: Corpus) -> Corpus:
        """Return the documents with the successors of their merged labels alone."""
        return corpus.with_labels(
            [sorted({self.merged[x] for x in own if x in self.merged}) for own in corpus.labels()]
        )


def read_rows(path: Path) -> Rows:
    fields = (line.split("\t") for _, line in read_lines(path))
    return {label: [*row, "", ""][:3] for label, *row in fields if DESCRIPTOR.fullmatch(label)}


def make_versions(options: argparse.Namespace, train: Corpus) -> Versions:
    today = read_rows(options.mesh)
    if options.old:
        # An old table may have no tree numbers: those of today stand for them.
        old = {
            label: [*row[:2], row[2] or today.get(label, ["", "", ""])[2]]
            for label, row in read_rows(options.old).items()
        }
    else:
        names = read_names(options.medline)
        old = {
            label: rename(row, names.get(label, row[0]))
            for label, row in today.items()
            if int(label[1:]) <= options.first_new
        }
    gone = choose_gone(old, today, train)
    merged = dict(gone[: options.merged])
    removed = {label for label, _ in gone[options.merged : options.merged + options.removed]}
    new = {label: list(row) for label, row in today.items()}
    for label, target in merged.items():
        new[target][1] = "|".join(filter(None, [new[target][1], *today[label][:2]]))
    for label in (*merged, *removed):
        del new[label]
    return Versions(old, new, merged)


def read_names(medline: Path) -> dict[str, str]:
    """Return the names of descriptors as the citations have them."""
    with gzip.open(medline, "rt", encoding="utf-8") as file:
        return {label: html.unescape(name) for label, name in NAME.findall(file.read())}


def rename(row: list[str], name: str) -> list[str]:
    others = [other for other in row[1].split("|") if other != name]
    return [name, "|".join(others), row[2]]


def choose_gone(old: Rows, today: Rows, train: Corpus) -> list[tuple[str, str]]:
    """Return rare descriptors without narrower ones, and a broader one of each, shuffled."""
    place = {number: label for label, row in today.items() for number in row[2].split("|")}
    above = {number.rpartition(".")[0] for number in place}
    count = Counter(label for own in train.labels() for label in own)
    rare = {label for label, n in count.items() if n in RARE}
    found = []
    for label in sorted(old.keys() & today.keys(), key=hash_text):
        numbers = [number for number in today[label][2].split("|") if number]
        targets = [place.get(number.rpartition(".")[0], "") for number in numbers]
        if label in rare and targets and targets[0] in old and above.isdisjoint(numbers):
            found.append((label, targets[0]))
    return found


def hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def write_rows(rows: Rows, path: Path) -> Path:
    lines = ("\t".join([label, *row]) + "\n" for label, row in rows.items())
    path.write_text("".join(lines), encoding="utf-8")
    return path


def measure(run: Run, test: Corpus, versions: Versions) -> dict[str, float]:
    """Return metrics over all labels, of new descriptors, and of successors of merged ones."""
    today = versions.label_today(test)
    result = predict(run, today)
    gold = run.labels.gold(today)
    whole = ontodex.evaluate(run, today).to_dict()
    found = {name: 100 * whole[name] for name in ("P@1", "P@5", "nDCG@5", "MiF")}
    labels = dict.fromkeys(run.labels.ids)  # gold has the labels that the run lacks behind them
    labels |= dict.fromkeys(label for own in today.labels() for label in own)
    is_fresh = np.array([label in versions.fresh for label in labels])
    ranked = result.ranking.cut(10).scores(gold.shape[1]) > 0
    sets = result.label_sets.scores(gold.shape[1]) > 0
    new_gold = gold[:, is_fresh]
    hits = sets[:, is_fresh].multiply(new_gold).sum()
    found["new R@10"] = divide(ranked[:, is_fresh].multiply(new_gold).sum(), new_gold.sum())
    found["new precision"] = divide(hits, sets[:, is_fresh].sum())
    found["new recall"] = divide(hits, new_gold.sum())
    successors = run.labels.gold(versions.label_merged(test))
    width = successors.shape[1]
    for name, answers in (("merged R@10", result.ranking.cut(10)), ("merged recall",
                          result.label_sets)):  # fmt: skip
        hits = csr_array(answers.scores(width) > 0).multiply(successors).sum()
        found[name] = divide(hits, successors.sum())
    kept = [label in versions.new for label in run.labels.ids]
    suggested = sets[:, : len(kept)]
    found["sets without removed"] = divide(suggested[:, np.array(kept)].sum(), suggested.sum())
    return found


def divide(part: float | np.integer[Any], whole: float | np.integer[Any]) -> float:
    return 100 * float(part) / float(whole) if whole else float("nan")


def migrate_decisions(before: Run, done: Migration, docs: Corpus, path: Path) -> dict[str, int]:
    """Decide documents with the labels that they have, and move the decisions."""
    database = Database.open(path)
    project = database.projects.open(get_vocabulary_key(before.about, before.labels), "old")
    database.add_indexed_documents(
        list(docs), run="old", batch="dev", user="curator", project=project
    )
    n_decisions = database.count_decisions()
    database.close()
    return {"decisions": n_decisions, **ontodex.migrate_decisions(path, before, done)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("medline", type=Path)
    parser.add_argument("mesh", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--model", default="parabel")
    parser.add_argument("--old", type=Path, help="table of an earlier year")
    parser.add_argument("--first-new", type=int, default=40_000)
    parser.add_argument("--merged", type=int, default=0)
    parser.add_argument("--removed", type=int, default=0)
    options = parser.parse_args()
    work = options.work
    work.mkdir(parents=True, exist_ok=True)
    whole = open_corpus(options.medline)
    usable = [bool(doc.labels) and "abstract" in doc.fields for doc in whole]
    train, dev, test = split_by_hash(whole.select(np.array(usable)))
    versions = make_versions(options, train)
    old = ontodex.read_ontology(write_rows(versions.old, work / "old.tsv"))
    new = ontodex.read_ontology(write_rows(versions.new, work / "new.tsv"))
    rows: dict[str, dict[str, float]] = {}

    def add(name: str, run: Run, started: float) -> None:
        seconds = time.perf_counter() - started
        rows[name] = {"seconds": seconds, **measure(run, test, versions)}
        sys.stderr.write(f"{name}: {rows[name]}\n")

    earlier, started = versions.label_before(train), time.perf_counter()
    before = ontodex.train(
        options.model, train=earlier, dev=versions.label_before(dev), ontology=old,
        out=work / "old", device="cpu",
    )  # fmt: skip
    add("before", before, started)
    Corpus.write(earlier, work / "train")
    started = time.perf_counter()
    done = migrate(work / "old", new, work / "migrated", train=work / "train")
    add("migrated", done.run, started)
    print({kind: len(found) for kind, found in done.diff.to_dict().items()})
    print({"successors": len(done.successors), "without one": len(done.lost)})
    print(migrate_decisions(before, done, versions.label_before(dev), work / "decisions.sqlite"))
    started = time.perf_counter()
    scratch = ontodex.train(
        options.model, train=versions.label_today(train), dev=versions.label_today(dev),
        ontology=new, out=work / "scratch", device="cpu",
    )  # fmt: skip
    add("trained from scratch", scratch, started)
    print("| run | " + " | ".join(rows["before"]) + " |")
    print("|---" * (1 + len(rows["before"])) + "|")
    for name, row in rows.items():
        print(f"| {name} | " + " | ".join(f"{value:.1f}" for value in row.values()) + " |")


if __name__ == "__main__":
    main()

"""Measure `ontodex migrate` on two versions of MeSH, with MEDLINE abstracts as the corpus.

    python bench/migrate.py pubmed20n0014.xml.gz mesh_id_label_mappings.tsv.gz WORK --model linear

The new version is the MeSH file as it is. The old version has neither the descriptors above
`--first-new` (MeSH numbers descriptors in the order of their introduction: D040000 was reached in
2003) nor the names that MeSH changed after the baseline of 2020, whose citations still have the old
names. Training documents have no label that is not in the old version, as before the update; test
documents have the labels of today. Prints Markdown: the old run, the migrated one, and one trained
from scratch on today's labels of the training documents, which is what an update is worth at most.
"""

from __future__ import annotations

import argparse
import gzip
import html
import re
import sys
import time
from pathlib import Path

import numpy as np

import ontodex
from ontodex.corpora.open import open_corpus
from ontodex.corpora.split import split_by_hash
from ontodex.runs.migrate import migrate
from ontodex.runs.run import Run, predict
from ontodex.types import Corpus

NAME = re.compile(r'<DescriptorName UI="(D\d+)"[^>]*>([^<]+)<')
RANKS = (10, 100)


def is_new(label: str, first: int) -> bool:
    return int(label[1:]) > first


def write_old_version(source: Path, target: Path, names: dict[str, str], first: int) -> None:
    """Write the MeSH table without new descriptors, and with the names that were changed later."""
    with gzip.open(source, "rt", encoding="utf-8") as file, target.open("w") as out:
        for line in file:
            label, name, synonyms, *rest = line.rstrip("\n").split("\t")
            if re.fullmatch(r"D\d+", label) and is_new(label, first):
                continue
            old = names.get(label, name)
            others = [other for other in synonyms.split("|") if other != old]
            out.write("\t".join([label, old, "|".join(others), *rest]) + "\n")


def drop_new(corpus: Corpus, first: int) -> Corpus:
    """Return the documents without the labels that the old version does not have."""
    kept = [[label for label in own if not is_new(label, first)] for own in corpus.labels()]
    return corpus.with_labels(kept)


def measure(run: Run, test: Corpus, first: int) -> dict[str, float]:
    """Return metrics over all labels, and those of the new descriptors alone."""
    result = predict(run, test)
    gold = run.labels.gold(test)
    n = gold.shape[1]
    labels = dict.fromkeys(run.labels.ids)  # gold has the labels that the run lacks behind them
    labels |= dict.fromkeys(label for own in test.labels() for label in own)
    mask = np.array([is_new(label, first) for label in labels])
    whole = ontodex.evaluate(run, test).to_dict()
    found = {name: 100 * whole[name] for name in ("P@1", "P@5", "nDCG@5", "MiF")}
    new_gold = gold[:, mask]
    for k in RANKS:
        hits = (result.ranking.cut(k).scores(n) > 0)[:, mask].multiply(new_gold).sum()
        found[f"new R@{k}"] = 100 * hits / max(new_gold.sum(), 1)
    sets = (result.label_sets.scores(n) > 0)[:, mask]
    hits = sets.multiply(new_gold).sum()
    found["new precision"] = 100 * hits / max(sets.sum(), 1)
    found["new recall"] = 100 * hits / max(new_gold.sum(), 1)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("medline", type=Path)
    parser.add_argument("mesh", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--model", default="parabel")
    parser.add_argument("--first-new", type=int, default=40_000)
    options = parser.parse_args()
    first, work = options.first_new, options.work
    work.mkdir(parents=True, exist_ok=True)
    whole = open_corpus(options.medline)
    usable = [bool(doc.labels) and "abstract" in doc.fields for doc in whole]
    train, dev, test = split_by_hash(whole.select(np.array(usable)))
    with gzip.open(options.medline, "rt", encoding="utf-8") as file:
        text = file.read()
    names = {label: html.unescape(name) for label, name in NAME.findall(text)}
    write_old_version(options.mesh, work / "old.tsv", names, first)
    new = ontodex.read_ontology(options.mesh)
    old = ontodex.read_ontology(work / "old.tsv")
    rows: dict[str, dict[str, float]] = {}
    seconds: dict[str, float] = {}

    def add(name: str, run: Run, started: float) -> None:
        seconds[name] = time.perf_counter() - started
        rows[name] = measure(run, test, first)
        sys.stderr.write(f"{name}: {rows[name]}\n")

    started = time.perf_counter()
    before = ontodex.train(
        options.model, train=drop_new(train, first), dev=drop_new(dev, first), ontology=old,
        out=work / "old", device="cpu",
    )  # fmt: skip
    add("before", before, started)
    corpus = work / "train"
    Corpus.write(drop_new(train, first), corpus)
    for name, source in (("migrated, no corpus", None), ("migrated", corpus)):
        started = time.perf_counter()
        done = migrate(work / "old", new, work / name.replace(", ", "-"), train=source)
        add(name, done.run, started)
    print({kind: len(found) for kind, found in done.diff.to_dict().items()})
    started = time.perf_counter()
    scratch = ontodex.train(
        options.model, train=train, dev=dev, ontology=new, out=work / "scratch", device="cpu"
    )
    add("trained from scratch", scratch, started)
    print("| run | seconds | " + " | ".join(rows["before"]) + " |")
    print("|---" * (2 + len(rows["before"])) + "|")
    for name, row in rows.items():
        cells = " | ".join(f"{value:.1f}" for value in row.values())
        print(f"| {name} | {seconds[name]:.0f} | {cells} |")


if __name__ == "__main__":
    main()

"""`migrate` on two real versions of a vocabulary, each with documents that were indexed with it.

    python bench/migrate_hpo.py OLD NEW WORK

OLD and NEW are folders with hp.obo and phenotype.hpoa, releases of the Human Phenotype Ontology. A
document is a disease of OMIM: its text is its name, its labels are its phenotypes. Test documents
are a tenth of the diseases of both releases, by a hash of the id, with the labels of the new
release, and so with what people have changed by hand too. The other diseases of the
old release are learned, a tenth of them as dev. Prints Markdown: the old run, the migrated one, and
one trained from scratch on the names and labels that the new release has for the same diseases.
"""

from __future__ import annotations

import argparse
from collections.abc import Set
from pathlib import Path

from scipy.sparse import csr_array

import ontodex
from migrate import divide
from ontodex.corpora.split import split_by_hash
from ontodex.io.files import read_lines
from ontodex.runs.migrate import Migration, migrate
from ontodex.runs.run import Run, predict
from ontodex.types import Corpus, Doc

_SOURCE = "OMIM:"
_NAME, _QUALIFIER, _LABEL = 1, 2, 3  # columns of phenotype.hpoa
Diseases = dict[str, Doc]


def read_diseases(folder: Path) -> Diseases:
    """Return the diseases of OMIM with the phenotypes that they have."""
    names: dict[str, str] = {}
    labels: dict[str, dict[str, None]] = {}
    for _, line in read_lines(folder / "phenotype.hpoa"):
        cells = line.split("\t")
        if cells[0].startswith(_SOURCE) and cells[_QUALIFIER] != "NOT":
            names[cells[0]] = cells[_NAME]
            labels.setdefault(cells[0], {})[cells[_LABEL]] = None
    return {id_: Doc(id_, {"text": names[id_]}, (), tuple(own)) for id_, own in labels.items()}


def select(diseases: Diseases, ids: Set[str]) -> Corpus:
    return Corpus.of(diseases[id_] for id_ in sorted(ids))


def list_successors(done: Migration, before: Doc, after: Doc) -> list[str]:
    """Return the labels of a disease that have taken the place of a label that it had."""
    found = {done.successors[label] for label in before.labels if label in done.successors}
    return sorted(found & set(after.labels))


def measure(run: Run, done: Migration, test: Corpus, replaced: Corpus) -> dict[str, float]:
    """Return metrics over all labels, of added concepts, and of successors."""
    result = predict(run, test)
    whole = ontodex.evaluate(run, test).to_dict()
    found = {name: 100 * whole[name] for name in ("P@1", "P@5", "nDCG@5", "MiF")}
    added = set(done.diff.added)
    fresh = test.with_labels([[x for x in own if x in added] for own in test.labels()])
    for name, wanted in (("added", fresh), ("successors", replaced)):
        gold = run.labels.gold(wanted)
        for rank, answers in (("R@10", result.ranking.cut(10)), ("recall", result.label_sets)):
            hits = csr_array(answers.scores(gold.shape[1]) > 0).multiply(gold).sum()
            found[f"{name} {rank}"] = divide(hits, gold.sum())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("old", "new", "work"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--model", default="parabel")
    options = parser.parse_args()
    before, after = read_diseases(options.old), read_diseases(options.new)
    both = select(before, before.keys() & after.keys())
    train, dev, test = (set(part.ids) for part in split_by_hash(both))

    def fit(folder: Path, diseases: Diseases) -> Run:
        return ontodex.train(
            options.model, train=select(diseases, train), dev=select(diseases, dev),
            ontology=folder / "hp.obo", out=options.work / folder.name, device="cpu",
        )  # fmt: skip

    old = fit(options.old, before)
    Corpus.write(select(before, train), options.work / "train")
    done = migrate(
        old, options.new / "hp.obo", options.work / "migrated", train=options.work / "train"
    )
    asked = select(after, test)
    replaced = asked.with_labels([list_successors(done, before[x], after[x]) for x in asked.ids])
    runs = {"before": old, "migrated": done.run, "trained from scratch": fit(options.new, after)}
    rows = {name: measure(run, done, asked, replaced) for name, run in runs.items()}
    added = set(done.diff.added)
    print({"train": len(train), "dev": len(dev), "test": len(test)})
    print({kind: len(found) for kind, found in done.diff.to_dict().items()})
    print({"successors": len(done.successors), "without one": len(done.lost)})
    print({"test labels": sum(map(len, asked.labels())),
           "added": sum(len(added & set(own)) for own in asked.labels()),
           "successors": sum(map(len, replaced.labels()))})  # fmt: skip
    print("| run | " + " | ".join(rows["before"]) + " |")
    print("|---" * (1 + len(rows["before"])) + "|")
    for name, row in rows.items():
        print(f"| {name} | " + " | ".join(f"{value:.1f}" for value in row.values()) + " |")


if __name__ == "__main__":
    main()

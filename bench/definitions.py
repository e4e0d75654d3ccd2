"""Do definitions of concepts help `semantic`? Recall with names, with definitions, and with both.

    python bench/definitions.py encoders/minilm train.jsonl dev.jsonl mesh.tsv hp.obo

Few vocabularies have documents and definitions. So the concepts of the first one that share a name
with a concept of the second one take its definition, and only these are ranked: MeSH and the Human
Phenotype Ontology have some 1,700 such concepts. "both" treats a definition as one more name.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from ontodex.corpora.open import open_corpus
from ontodex.models.semantic.name_vectors import NameVectors
from ontodex.models.semantic.system import SemanticConfig, SemanticSystem
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.ontology.open import read_ontology
from ontodex.types import Corpus, LabelSpace, Ontology, Ranking

FIRST = (1, 10, 100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("encoder", type=Path)
    parser.add_argument("train", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("ontology", type=Path)
    parser.add_argument("described", type=Path)
    parser.add_argument("--documents", type=int, default=300)
    given = parser.parse_args()
    own = read_ontology(given.ontology)
    definitions = match_definitions(own, read_ontology(given.described))
    train = open_corpus(given.train)
    test = pick(open_corpus(given.test), definitions.keys(), given.documents)
    wanted = [(row, one) for row, labels in enumerate(test.labels()) for one in labels]
    wanted = [(row, one) for row, one in wanted if one in definitions]
    say(f"{len(definitions):,} concepts, {len(test):,} documents, {len(wanted):,} occurrences\n")
    say(f"| vectors of | {' | '.join(f'R@{k}' for k in FIRST)} |\n|{'---|' * (len(FIRST) + 1)}")
    system = SemanticSystem(SemanticConfig(encoder=str(given.encoder), background=200))
    labels = make_labels({one: list_names(own, one) for one in definitions})
    system.fit(train, Corpus.of([]), labels)
    documents = system._encode_documents(test)
    every = range(len(labels))
    described = system._encode_names(make_labels({k: [v] for k, v in definitions.items()}), every)
    owner = np.concatenate([system.names.owner, described.owner])
    order = np.argsort(owner, kind="stable")
    joined = np.concatenate([system.names.vectors, described.vectors])
    for name, vectors in (
        ("names", system.names),
        ("definitions", described),
        ("both", NameVectors(owner[order], joined[order])),
    ):
        system.names = vectors
        system.mean, system.deviation = system._measure_usual(vectors, len(labels))
        columns = Ranking.top(system._score(documents), max(FIRST)).columns
        places = [np.flatnonzero(columns[row] == labels.column[one]) for row, one in wanted]
        ranks = np.array([place[0] if len(place) else np.inf for place in places])
        say(f"| {name} | {' | '.join(f'{100 * np.mean(ranks < k):.1f}' for k in FIRST)} |")


def make_labels(names: Mapping[str, Sequence[str]]) -> LabelSpace:
    """Return concepts with these names, which no document has."""
    concepts = [Concept(one, {"en": own[0]}, {"en": own[1:]}) for one, own in names.items()]
    return LabelSpace(tuple(names), np.zeros(len(names), np.int64), 0, build_ontology(concepts))


def match_definitions(own: Ontology, described: Ontology) -> dict[str, str]:
    """Return the definitions of another ontology for concepts that share a name with one of it."""
    by_name = {
        name.lower(): text
        for one in described.ids
        if (text := described.definition(one))
        for name in list_names(described, one)
    }
    found = {}
    for one in own.ids:
        texts = [by_name[name.lower()] for name in list_names(own, one) if name.lower() in by_name]
        if texts:
            found[one] = texts[0]
    return found


def list_names(ontology: Ontology, concept: str) -> list[str]:
    return [ontology.name(concept), *ontology.synonyms_of(concept)]


def pick(corpus: Corpus, concepts: Collection[str], n: int) -> Corpus:
    """Return n documents that have one of the concepts, by a hash of the id."""
    order = sorted(
        (hashlib.sha256(one.encode()).hexdigest(), row)
        for row, (one, labels) in enumerate(zip(corpus.ids, corpus.labels(), strict=True))
        if any(label in concepts for label in labels)
    )
    return corpus.select(np.array(sorted(row for _, row in order[:n])))


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

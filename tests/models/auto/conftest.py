from __future__ import annotations

import numpy as np
import pytest

from ontodex.ontology.graph import Concept, build_ontology
from ontodex.types import Corpus, Doc, Ontology

TOPICS = {
    "water": ["river", "trout", "flood", "stream"],
    "trees": ["oak", "leaf", "forest", "bark"],
    "roads": ["bridge", "tarmac", "lorry", "lane"],
    "music": ["choir", "violin", "concert", "drum"],
}


@pytest.fixture(scope="session")
def make_corpus():
    """Documents of one or two topics, with words of each, misleading ones and filler."""

    def make(n: int, seed: int) -> Corpus:
        rng = np.random.default_rng(seed)
        docs = []
        for i in range(n):
            topics = rng.choice(list(TOPICS), size=rng.integers(1, 3), replace=False)
            words = [word for topic in topics for word in rng.choice(TOPICS[topic], 2)]
            words += rng.choice([word for own in TOPICS.values() for word in own], 2).tolist()
            words += rng.choice(["the", "and", "of", "is"], 6).tolist()
            rng.shuffle(words)
            docs.append(Doc(f"{seed}-{i}", {"text": " ".join(words)}, labels=tuple(topics)))
        return Corpus.of(docs)

    return make


@pytest.fixture(scope="session")
def ontology() -> Ontology:
    return build_ontology(
        Concept(topic, {"en": topic}, {"en": tuple(words[:2])}) for topic, words in TOPICS.items()
    )

"""Small documents of one or two topics, whose words tell which: for systems with neighbours."""

from __future__ import annotations

import numpy as np

from ontodex.types import Corpus, Doc, LabelSpace

TOPICS = {"sea": "wave ship tide", "sky": "cloud wind star", "soil": "root worm clay"}


def corpus(n: int, seed: int) -> Corpus:
    rng = np.random.default_rng(seed)
    docs = []
    for i in range(n):
        topics = rng.choice(list(TOPICS), size=rng.integers(1, 3), replace=False)
        words = [w for t in topics for w in rng.choice(TOPICS[t].split(), 2)] + ["the", "of"]
        docs.append(Doc(f"{seed}-{i}", {"text": " ".join(words)}, labels=tuple(topics)))
    return Corpus.of(docs)


TRAIN, DEV, TEST = corpus(80, 0), corpus(30, 1), corpus(30, 2)
LABELS = LabelSpace.of(TRAIN)

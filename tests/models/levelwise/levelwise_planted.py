"""Planted documents of two levels, and a small `levelwise` that learns them in seconds."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from ontodex.models.levelwise.config import LevelwiseConfig, PointerConfig
from ontodex.models.levelwise.system import Levelwise
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.types import Corpus, Doc, LabelSpace
from ontodex.types.loop_config import LoopConfig

ABOVE = {"water": "nature", "trees": "nature", "roads": "town", "homes": "town"}


ONTOLOGY = build_ontology(
    [
        Concept("nature", {"en": "Nature"}),
        Concept("town", {"en": "Town"}),
        *(Concept(topic, {"en": topic.title()}, parents=[top]) for topic, top in ABOVE.items()),
    ]
)


CONFIG = LevelwiseConfig(
    word_aggregation="pooling",
    keyword_encoder="pooling",
    encoder="level",
    windows=(3, 4, 5),
    bag=0,
    width=12,
    maps=6,
    keyword_maps=4,
    hidden=8,
    value_dim=8,
    bottleneck=12,
    chunks=3,
    min_count=1,
    keyword_min_count=1,
    word_dropout=0.0,
    dropout=0.1,
    merge="threshold",
    train=LoopConfig(epochs=10, batch_size=24, lr=0.03, patience=0, ema_rate=0.2, warmup_steps=2),
    pointer=PointerConfig(
        embedding=8, hidden=8, train=LoopConfig(epochs=4, batch_size=16, lr=0.02, patience=0)
    ),
)


def plant(n: int, seed: int) -> Corpus:
    """One or two topics, named by a word, with the branch they belong to."""
    rng = np.random.default_rng(seed)
    docs = []
    for i in range(n):
        topics = rng.choice(list(ABOVE), size=rng.integers(1, 3), replace=False).tolist()
        words = [*topics, *rng.choice(["so", "very", "much"], size=3)]
        rng.shuffle(words)
        labels = tuple({*topics, *(ABOVE[topic] for topic in topics)})
        docs.append(Doc(f"{seed}-{i}", {"text": " ".join(words)}, tuple(topics), labels))
    return Corpus.of(docs)


BRIEF = LoopConfig(epochs=2, batch_size=24, lr=0.02, patience=0)


TRAIN, DEV, TEST = plant(48, 1), plant(16, 2), plant(16, 3)


LABELS = LabelSpace.of(TRAIN, ONTOLOGY)


GOLD = LABELS.gold(TEST)


def fit_system(work: Path | None = None, **more: object) -> Levelwise:
    system = Levelwise(dataclasses.replace(CONFIG, **more))  # type: ignore[arg-type]
    system.work = work
    system.fit(TRAIN, DEV, LABELS)
    return system

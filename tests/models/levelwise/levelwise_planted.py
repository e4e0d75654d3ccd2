"""Planted documents of two levels, and a small `levelwise` that learns them in seconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

from ontodex.config import vary
from ontodex.models.levelwise.config import Categories, LevelwiseConfig, PointerConfig
from ontodex.models.levelwise.system import Levelwise
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.ontology.levels import Expand
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


@dataclass(frozen=True)
class PlantedPointerConfig(PointerConfig):
    """A pointer generator with the constants of `attentive-levels`, which learns faster."""

    train: ClassVar[LoopConfig] = LoopConfig(batch_size=16, lr=0.02, patience=0)
    order: ClassVar[str] = "forward"
    length_reward: ClassVar[bool] = True
    candidate_threshold_ratio: ClassVar[float] = 0.4


@dataclass(frozen=True)
class PlantedConfig(LevelwiseConfig):
    """The network of the paper with the constants of `attentive-levels`."""

    pointer: PlantedPointerConfig = field(default_factory=PlantedPointerConfig)
    documents: ClassVar[str] = "all"
    expand: ClassVar[Expand] = "none"
    categories: ClassVar[Categories] = "balanced"
    pass2_init: ClassVar[str] = "scratch"
    average_passes: ClassVar[bool] = True
    logit_shift: ClassVar[bool] = True
    ofo_prior: ClassVar[float] = 50.0


class PlantedLevelwise(Levelwise):
    """The system with these constants."""

    Config = PlantedConfig


CONFIG = PlantedConfig(
    width=12,
    maps=6,
    hidden=8,
    bottleneck=12,
    chunks=3,
    min_count=1,
    max_level=7,
    dropout=0.1,
    merge="threshold",
    train=LoopConfig(epochs=10, batch_size=24, lr=0.03, patience=0, ema_rate=0.2, warmup_steps=2),
    pointer=PlantedPointerConfig(embedding=8, hidden=8, steps=0),
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


def fit_system(work: Path | None = None, **more: object) -> PlantedLevelwise:
    system = PlantedLevelwise(vary(CONFIG, **more))
    system.work = work
    system.fit(TRAIN, DEV, LABELS)
    return system

"""levelwise on every kind of real ontology; run by hand where they are (-m data)."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from ontodex.config import vary
from ontodex.corpora.open import open_corpus
from ontodex.evaluation.ranking import precision, score_documents
from ontodex.evaluation.sets import set_metrics
from ontodex.models.baselines.popularity import PopularityConfig, PopularitySystem
from ontodex.models.levelwise.config import LevelwiseConfig, PointerConfig
from ontodex.models.levelwise.system import Levelwise
from ontodex.ontology.graph import compute_ancestors
from ontodex.ontology.open import read_ontology
from ontodex.types import Corpus, Doc, LabelSpace, Ontology
from ontodex.types.loop_config import LoopConfig

DATA = Path(os.environ.get("ONTODEX_DATA", Path(__file__).parents[3] / "../shared/data"))
pytestmark = pytest.mark.data
CONFIG = vary(
    LevelwiseConfig(
        width=32,
        maps=16,
        hidden=16,
        bottleneck=32,
        chunks=4,
        min_count=1,
        dropout=0.1,
        merge="pointer",
        train=LoopConfig(
            epochs=12, batch_size=32, lr=0.01, patience=0, ema_rate=0.1, warmup_steps=2
        ),
        pointer=vary(PointerConfig(embedding=16, hidden=16, steps=0), epochs=2, order="forward"),
    ),
    documents="all",
    expand="none",
    categories="balanced",
    pass2_init="scratch",
    average_passes=True,
    logit_shift=True,
    ofo_prior=50.0,
)


def found(name: str) -> Path:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{path} is not here; set ONTODEX_DATA")
    return path


def make_naming_corpus(ontology: Ontology, n_docs: int, seed: int) -> Corpus:
    """Texts that name one or two of forty concepts; their labels are these and what is above."""
    rng = np.random.default_rng(seed)
    above = compute_ancestors(ontology)
    parents = np.diff(above.indptr)
    alive = [i for i, one in enumerate(ontology.ids) if one not in ontology.deprecated]
    deep = sorted(alive, key=lambda i: (-int(parents[i]), i))[: len(alive) // 2]
    known = np.random.default_rng(0).choice(deep, 40, replace=False)
    docs = []
    for number in range(n_docs):
        chosen = rng.choice(known, rng.integers(1, 3), replace=False)
        columns = {int(i) for i in chosen}.union(*(above[[i]].indices.tolist() for i in chosen))
        text = " and ".join(ontology.name(ontology.ids[i]) for i in chosen)
        labels = tuple(ontology.ids[i] for i in sorted(columns))
        docs.append(Doc(f"{seed}-{number}", {"text": text}, (), labels))
    return Corpus.of(docs)


def train_above_floor(
    config: LevelwiseConfig, train: Corpus, test: Corpus, labels: LabelSpace
) -> Levelwise:
    """A system that is above the floor on test documents."""
    system, floor = Levelwise(config), PopularitySystem(PopularityConfig())
    for one in (system, floor):
        one.fit(train, test, labels)
    gold = labels.gold(test)
    own, least = (
        score_documents(precision, 5, gold, one.rank(test, 5)).mean() for one in (system, floor)
    )
    assert own > least + 0.05
    return system


@pytest.mark.parametrize(
    ("file", "max_level"),
    [
        ("mesh/mesh_id_label_mappings.tsv.gz", 7),
        ("eurlex57k/eurovoc.json", 4),
        ("vocab/stw-skos.ttl.gz", 7),
        ("vocab/hp.obo.gz", 7),
    ],
)
def test_every_real_ontology_has_levels_that_are_learned(file, max_level):
    ontology = read_ontology(found(file))
    train, test = make_naming_corpus(ontology, 240, 1), make_naming_corpus(ontology, 60, 2)
    config = vary(CONFIG, max_level=max_level)
    labels = LabelSpace.of(train, ontology)
    system = train_above_floor(config, train, test, labels)
    assert (system.decide(test).columns[:, 0] >= 0).mean() > 0.8, "nearly all have a label"
    assert 3 <= len(system.levels) <= max_level
    assert sum(map(len, system.levels)) == labels.n_seen


def test_clusters_of_labels_are_levels_for_bibtex():
    corpus = open_corpus(found("bibtex/bibtex_train.txt.gz"))
    train, test = corpus.select(np.arange(800)), corpus.select(np.arange(800, 1000))
    config = vary(CONFIG, ontology="cluster", max_level=3)
    labels = LabelSpace.of(train)
    system = train_above_floor(config, train, test, labels)
    assert len(system.levels) > 1
    assert set_metrics(labels.gold(test), system.decide(test))["MiF"] > 0.18

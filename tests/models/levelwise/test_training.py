"""The loss, batch norm and batches of the networks."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch

from ontodex.config import vary
from ontodex.errors import ConfigError
from ontodex.models.levelwise import prediction, training
from ontodex.models.levelwise.config import LevelwiseConfig
from ontodex.models.levelwise.prediction import predict
from ontodex.models.levelwise.streams import make_neighbour_streams
from ontodex.models.levelwise.system import Levelwise
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.runs.evaluate import evaluate, find_levels
from ontodex.runs.recipe import train
from ontodex.runs.run import load, suggest_in_context
from ontodex.types import Corpus, Doc, LabelSpace, Ranking
from ontodex.types.loop_config import LoopConfig

ONTOLOGY = build_ontology(
    [
        Concept("nature", {"en": "Nature"}),
        *(Concept(topic, {"en": topic}, parents=["nature"]) for topic in ("water", "trees")),
    ]
)


TOPICS = [("water",), ("trees",), ("water", "trees")] * 8


TRAIN = Corpus.of(
    Doc(f"{i}", {"text": " ".join(topics)}, topics, ("nature", *topics))
    for i, topics in enumerate(TOPICS)
)


CONFIG = vary(
    LevelwiseConfig(
        width=8,
        maps=4,
        hidden=4,
        bottleneck=8,
        chunks=2,
        min_count=1,
        merge="threshold",
        train=LoopConfig(epochs=1, batch_size=8, lr=0.01),
    ),
    expand="none",
)


@pytest.mark.parametrize("documents", ["all", "level"])
def test_the_loss_is_cross_entropy_over_labels_and_levels_in_the_mean_of_documents(documents):
    """Eq. 1 with loops. Document 0 has no label at level 2, and teaches it only if all do."""
    bare = Doc("bare", {"text": "very much"}, (), ("nature",))
    corpus = Corpus.of([bare, *list(TRAIN)[:5]])
    labels = LabelSpace.of(corpus, ONTOLOGY)
    system = Levelwise(vary(CONFIG, documents=documents, max_norm=0.0))
    trainer = system.make_trainer(system.prepare_data(corpus, TRAIN, labels))
    rows = np.arange(len(corpus))
    network = trainer.make_network(rows).eval()
    gold = labels.gold(corpus).toarray()
    total = 0.0
    for row in rows.tolist():
        for place, level in enumerate(system.levels):
            if documents == "level" and not gold[row, level.columns].any():
                continue
            words = trainer.data.words.pad(np.array([row]))
            sets = network.embed_sets(trainer.data.pad_sets(np.array([row])))
            logits = network(place, network.encode_words(place, words), sets)[0]
            for logit, column in zip(logits.tolist(), level.columns.tolist(), strict=True):
                chance = 1 / (1 + math.exp(-logit))
                total -= math.log(chance if gold[row, column] else 1 - chance)
    loss = trainer.make_loss(network)(rows).item()
    assert loss == pytest.approx(total / len(corpus), rel=1e-4)


def test_documents_of_no_level_change_no_weights():
    """A batch may have no others."""
    corpus = Corpus.of([Doc("bare", {"text": "very much"}), *TRAIN])
    labels = LabelSpace.of(corpus, ONTOLOGY)
    system = Levelwise(vary(CONFIG, documents="level"))
    trainer = system.make_trainer(system.prepare_data(corpus, TRAIN, labels))
    network = trainer.make_network(np.arange(len(corpus)))
    loss = trainer.make_loss(network)(np.array([0]))
    loss.backward()
    assert loss.item() == 0
    assert not any(p.grad is not None and p.grad.any() for p in network.parameters())


def test_batch_norm_is_measured_with_the_training_documents_of_a_level(monkeypatch):
    """Three of 99 have a label at level 2, and only one is in the first two batches."""
    monkeypatch.setattr(training, "NORM_BATCHES", 2)
    bare = [
        Doc(f"bare {i}", {"text": "very much " * (1 + i % 3)}, (), ("nature",)) for i in range(96)
    ]
    corpus = Corpus.of([*bare, *list(TRAIN)[:3]])
    system = Levelwise(vary(CONFIG, documents="level", inputs="words"))
    trainer = system.make_trainer(
        system.prepare_data(corpus, TRAIN, LabelSpace.of(corpus, ONTOLOGY))
    )
    rows = np.arange(len(corpus))
    first = trainer.plan_batches(rows, 0)[:2]
    assert np.isin([96, 97, 98], np.concatenate(first)).sum() == 1
    network, other = trainer.make_network(rows), trainer.make_network(rows).eval()
    trainer.measure_batch_norms(network, rows)
    for place, measured in enumerate([first, [np.array([96, 97, 98])]]):
        seen: list[torch.Tensor] = []
        other.level(place).pools.norm.register_forward_pre_hook(
            lambda _, x, to=seen: to.append(x[0])
        )
        for some in measured:
            prediction.Batch(other, trainer.data, some).compute_logits(place, np.arange(len(some)))
        norm = network.level(place).pools.norm
        torch.testing.assert_close(norm.running_mean, sum(x.mean(0) for x in seen) / len(seen))
        torch.testing.assert_close(norm.running_var, sum(x.var(0) for x in seen) / len(seen))


@pytest.mark.parametrize(("most", "sizes"), [(2**30, {8, 4}), (48, {2, 3}), (1, {1})])
def test_a_batch_holds_what_the_labels_of_the_largest_level_leave_room_for(
    monkeypatch, most, sizes
):
    """Level 2 has two labels: 48 numbers are 24 tokens, 2 of the long documents; or 3 documents of
    7 units, however short."""
    texts = ["water " * 12] * 4 + ["trees water"] * 8
    corpus = Corpus.of(
        Doc(f"{i}", {"text": text}, (), ("nature", "water", "trees"))
        for i, text in enumerate(texts)
    )
    labels = LabelSpace.of(corpus, ONTOLOGY)
    system = Levelwise(vary(CONFIG, bottleneck=7))
    stage = system.prepare_data(corpus, corpus, labels)
    network = system.make_trainer(stage).make_network(np.arange(len(corpus))).eval()
    seen = []
    network.level(1).register_forward_pre_hook(lambda _, read: seen.append(len(read[0].h)))

    def ask():
        return predict(network, system.levels, stage.streams, None, 2, torch.device("cpu"))

    expected = ask()
    seen.clear()
    monkeypatch.setattr(prediction, "MAX_NUMBERS", most)
    found = ask()
    assert set(seen) == sizes
    assert sum(seen) == len(corpus)
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one.columns, other.columns)
        np.testing.assert_allclose(one.probabilities, other.probabilities, rtol=1e-5)


def test_a_level_between_two_reads_the_one_above_and_the_one_below_each_as_such(monkeypatch):
    chain = build_ontology(
        [
            Concept("world", {"en": "World"}),
            Concept("land", {"en": "Land"}, parents=["world"]),
            Concept("hill", {"en": "Hill"}, parents=["land"]),
        ]
    )
    docs = [
        Doc(f"{i}", {"text": "world land hill"}, (), ("world", "land", "hill")) for i in range(6)
    ]
    corpus = Corpus.of(docs)
    labels = LabelSpace.of(corpus, chain)
    system = Levelwise(vary(CONFIG, inputs="words+keywords+levels"))
    stage = system.prepare_data(corpus, corpus, labels)
    predicted = [
        Ranking(np.full((6, 1), level.columns[0], np.int32), np.ones((6, 1), np.float32))
        for level in system.levels
    ]
    streams = dataclasses.replace(
        stage.streams, neighbours=make_neighbour_streams(predicted, 3, torch.device("cpu"))
    )
    trainer = system.make_trainer(dataclasses.replace(stage, streams=streams))
    network = trainer.make_network(np.arange(6)).eval()
    read: dict[int, dict[str, torch.Tensor]] = {}
    for place in range(3):
        level = network.level(place)

        def record(_: object, sets: Any, at: int = place, bias: Any = level.bias) -> torch.Tensor:
            read[at] = {name: vectors for name, (vectors, _) in sets.items()}
            return bias.expand(6, -1)

        monkeypatch.setattr(level, "forward", record)
    with torch.no_grad():
        trainer.make_loss(network)(np.arange(6))
        for place, names in ((0, ["below"]), (1, ["above", "below"]), (2, ["above"])):
            assert [name for name in read[place] if name != "keywords"] == names
            for name in names:
                column = int(system.levels[place + (1 if name == "below" else -1)].columns[0])
                vectors = network.embed("labels", torch.tensor([[column + 1]] * 6))
                torch.testing.assert_close(read[place][name], vectors)


def test_settings_that_are_refused_leave_the_folder_free(tmp_path):
    settings = dataclasses.asdict(CONFIG) | {"name": "levelwise"}
    out = tmp_path / "run"
    with pytest.raises(ConfigError, match="no ontology was given"):
        train(config={"model": settings}, out=out, train=TRAIN, dev=TRAIN)
    assert not out.exists()
    train(config={"model": settings | {"ontology": "cluster"}}, out=out, train=TRAIN, dev=TRAIN)
    assert suggest_in_context(load(out), "water").standalone


def test_a_run_is_measured_by_the_levels_that_its_system_has(tmp_path):
    brief = vary(CONFIG, inputs="words", max_level=1)
    settings = dataclasses.asdict(brief) | {"name": "levelwise"}
    run = train(
        config={"model": settings}, out=tmp_path / "run", train=TRAIN, dev=TRAIN, ontology=ONTOLOGY
    )
    assert find_levels(run).tolist() == [1, 1, 1]
    assert [group.name for group in evaluate(run, TRAIN).by_level] == ["level 1"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("windows", ()), ("chunks", 0), ("max_level", -1), ("dropout", 1.0), ("folds", 1)],
)
def test_settings_that_mean_nothing_are_refused(name, value):
    with pytest.raises(ValueError, match=name):
        vary(CONFIG, **{name: value})

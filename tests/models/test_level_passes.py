"""How levels are taught together, what a pass reads of its neighbours, and what pieces take."""

from __future__ import annotations

import dataclasses
import math
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ontodex.errors import ConfigError
from ontodex.models import level_passes
from ontodex.models.level_network import LevelwiseConfig
from ontodex.models.level_passes import encode_labels, neighbour_streams, predict
from ontodex.models.level_pieces import Pieces
from ontodex.models.level_plan import place_labels
from ontodex.models.levelwise import Levelwise
from ontodex.ontology.graph import Concept, build
from ontodex.recipe import train
from ontodex.run import load
from ontodex.train import store
from ontodex.train.loop import LoopConfig
from ontodex.types import Corpus, Doc, LabelSpace, Ranking

ONTOLOGY = build(
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
CONFIG = LevelwiseConfig(
    reader="pooling",
    sets="pooling",
    encoder="level",
    windows=(3, 4, 5),
    bag=0,
    width=8,
    maps=4,
    set_maps=4,
    hidden=4,
    bottleneck=8,
    chunks=2,
    min_count=1,
    keyword_count=1,
    word_dropout=0.0,
    merge="threshold",
    train=LoopConfig(epochs=1, batch=8, lr=0.01),
)


@pytest.mark.parametrize("documents", ["all", "level"])
def test_the_loss_is_cross_entropy_over_labels_and_levels_in_the_mean_of_documents(documents):
    """Eq. 1 with loops. Document 0 has no label at level 2, and teaches it only if all do."""
    bare = Doc("bare", {"text": "very much"}, (), ("nature",))
    corpus = Corpus.of([bare, *list(TRAIN)[:5]])
    labels = LabelSpace.of(corpus, ONTOLOGY)
    system = Levelwise(dataclasses.replace(CONFIG, documents=documents, row_norm=0.0))
    trainer = system.trainer(system.stage(corpus, TRAIN, labels))
    rows = np.arange(len(corpus))
    network = trainer.network(rows).eval()
    gold = labels.gold(corpus).toarray()
    total = 0.0
    for row in rows.tolist():
        for place, level in enumerate(system.levels):
            if documents == "level" and not gold[row, level.columns].any():
                continue
            words = trainer.data.words.padded(np.array([row]))
            sets = network.read_sets(trainer.data.sets(np.array([row])))
            logits = network(place, network.read(place, words), sets)[0]
            for logit, column in zip(logits.tolist(), level.columns.tolist(), strict=True):
                chance = 1 / (1 + math.exp(-logit))
                total -= math.log(chance if gold[row, column] else 1 - chance)
    loss = trainer.losses(network)(rows).item()
    assert loss == pytest.approx(total / len(corpus), rel=1e-4)


def test_documents_that_teach_no_level_move_nothing():
    """A batch may have no others."""
    corpus = Corpus.of([Doc("bare", {"text": "very much"}), *TRAIN])
    labels = LabelSpace.of(corpus, ONTOLOGY)
    system = Levelwise(dataclasses.replace(CONFIG, documents="level"))
    trainer = system.trainer(system.stage(corpus, TRAIN, labels))
    network = trainer.network(np.arange(len(corpus)))
    loss = trainer.losses(network)(np.array([0]))
    loss.backward()
    assert loss.item() == 0
    assert not any(p.grad is not None and p.grad.any() for p in network.parameters())


def test_batch_norm_is_measured_with_documents_that_teach_a_level(monkeypatch):
    """Three of 99 have a label at level 2, and only one is in the first two batches."""
    monkeypatch.setattr(level_passes, "NORM_BATCHES", 2)
    bare = [
        Doc(f"bare {i}", {"text": "very much " * (1 + i % 3)}, (), ("nature",)) for i in range(96)
    ]
    corpus = Corpus.of([*bare, *list(TRAIN)[:3]])
    system = Levelwise(dataclasses.replace(CONFIG, documents="level", inputs="words"))
    trainer = system.trainer(system.stage(corpus, TRAIN, LabelSpace.of(corpus, ONTOLOGY)))
    rows = np.arange(len(corpus))
    first = trainer.plan(rows, 0)[:2]
    assert np.isin([96, 97, 98], np.concatenate(first)).sum() == 1
    network, other = trainer.network(rows), trainer.network(rows).eval()
    trainer.measure_norms(network, rows)
    for place, measured in enumerate([first, [np.array([96, 97, 98])]]):
        seen: list[torch.Tensor] = []
        other.level(place).pools.norm.register_forward_pre_hook(
            lambda _, x, to=seen: to.append(x[0])
        )
        for some in measured:
            level_passes.Batch(other, trainer.data, some).logits(place, np.arange(len(some)))
        norm = network.level(place).pools.norm
        torch.testing.assert_close(norm.running_mean, sum(x.mean(0) for x in seen) / len(seen))
        torch.testing.assert_close(norm.running_var, sum(x.var(0) for x in seen) / len(seen))


def test_levels_without_batch_norm_are_not_measured(monkeypatch):
    system = Levelwise(dataclasses.replace(CONFIG, reader="attention", sets="bag"))
    trainer = system.trainer(system.stage(TRAIN, TRAIN, LabelSpace.of(TRAIN, ONTOLOGY)))
    asked: list[object] = []
    monkeypatch.setattr(level_passes, "Batch", lambda *given: asked.append(given))
    trainer.measure_norms(trainer.network(np.arange(3)), np.arange(3))
    assert asked == []


@pytest.mark.parametrize(("most", "sizes"), [(2**30, {8, 4}), (48, {2, 3}), (1, {1})])
def test_a_batch_holds_what_the_labels_of_the_largest_level_leave_room_for(
    monkeypatch, most, sizes
):
    """Level 2 has two labels: 48 numbers are 24 tokens, 2 of the long documents; or 3 documents of
    7 values, however short."""
    texts = ["water " * 12] * 4 + ["trees water"] * 8
    corpus = Corpus.of(
        Doc(f"{i}", {"text": text}, (), ("nature", "water", "trees"))
        for i, text in enumerate(texts)
    )
    labels = LabelSpace.of(corpus, ONTOLOGY)
    system = Levelwise(dataclasses.replace(CONFIG, reader="attention", sets="bag", value=7))
    stage = system.stage(corpus, corpus, labels)
    network = system.trainer(stage).network(np.arange(len(corpus))).eval()
    seen = []
    network.level(1).register_forward_pre_hook(lambda _, told: seen.append(len(told[0].h)))

    def ask():
        return predict(network, system.levels, stage.streams, None, 2, torch.device("cpu"))

    expected = ask()
    seen.clear()
    monkeypatch.setattr(level_passes, "MOST_NUMBERS", most)
    found = ask()
    assert set(seen) == sizes
    assert sum(seen) == len(corpus)
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one.columns, other.columns)
        np.testing.assert_allclose(one.probabilities, other.probabilities, rtol=1e-5)


def test_of_many_tops_the_largest_have_categories_of_their_own_or_all_are_dealt_out():
    tops = [Concept(f"t{i}", {"en": f"t{i}"}) for i in range(20)]
    below = [Concept(f"b{i}", {"en": f"b{i}"}, parents=[f"t{i}"]) for i in range(20)]
    corpus = Corpus.of(Doc(f"{i}", {"text": "x"}, (), (f"b{i}",)) for i in range(20))
    labels = LabelSpace.of(corpus, build([*tops, *below]))
    dealt, largest = (
        place_labels(labels, max_level=1, rule="min", categories=way)
        for way in ("dealt", "largest")
    )
    sizes = [
        np.sort(np.bincount(p.membership[:20].indices))[::-1].tolist() for p in (dealt, largest)
    ]
    assert sizes == [[2] * 4 + [1] * 12, [5] + [1] * 15]


def test_predicted_labels_are_read_best_first():
    columns, chances = [[1, 3, 2], [5, -1, -1]], [[0.2, 0.9, 0.5], [0.4, 0, 0]]
    ranking = Ranking.sort(np.array(columns), np.array(chances), 3)
    encoded = encode_labels(ranking)
    assert encoded.ids.tolist() == [4, 3, 2, 6], "column j is row j + 1 of the table"
    assert encoded.offsets.tolist() == [0, 3, 4]
    (cut,) = neighbour_streams([ranking], 2, torch.device("cpu"))
    assert cut.padded(np.array([0]))[0].tolist() == [[4, 3]]


def test_a_level_between_two_reads_the_one_above_and_the_one_below_each_as_such(monkeypatch):
    chain = build(
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
    system = Levelwise(dataclasses.replace(CONFIG, inputs="words+keywords+levels"))
    stage = system.stage(corpus, corpus, labels)
    predicted = [
        Ranking(np.full((6, 1), level.columns[0], np.int32), np.ones((6, 1), np.float32))
        for level in system.levels
    ]
    streams = dataclasses.replace(
        stage.streams, neighbours=neighbour_streams(predicted, 3, torch.device("cpu"))
    )
    trainer = system.trainer(dataclasses.replace(stage, streams=streams))
    network = trainer.network(np.arange(6)).eval()
    read: dict[int, dict[str, torch.Tensor]] = {}
    for place in range(3):
        level = network.level(place)

        def watched(_: object, sets: Any, at: int = place, bias: Any = level.bias) -> torch.Tensor:
            read[at] = {name: vectors for name, (vectors, _) in sets.items()}
            return bias.expand(6, -1)

        monkeypatch.setattr(level, "forward", watched)
    with torch.no_grad():
        trainer.losses(network)(np.arange(6))
        for place, names in ((0, ["below"]), (1, ["above", "below"]), (2, ["above"])):
            assert [name for name in read[place] if name != "keywords"] == names
            for name in names:
                column = int(system.levels[place + (1 if name == "below" else -1)].columns[0])
                vectors = network.embed("labels", torch.tensor([[column + 1]] * 6))
                torch.testing.assert_close(read[place][name], vectors)


def test_a_piece_counts_the_time_of_processes_that_were_killed_in_it(tmp_path):
    def killed(folder: Path | None) -> dict[str, np.ndarray]:
        assert folder is not None
        (folder / "checkpoint").write_text("half")
        later = time.time() + 100  # the last sign of life of a process that worked 100 seconds
        os.utime(folder / "checkpoint", (later, later))
        raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            Pieces(tmp_path, {}, {}, 1).get("pass 1", killed)
        (running,) = tmp_path.glob("*.running")
        seen = running / "clock.json"
        assert seen.exists()
        os.utime(seen)
    seconds: dict[str, float] = {}
    Pieces(tmp_path, {}, seconds, 1).get("pass 1", lambda folder: {"a": np.ones(1)})
    assert seconds["pass 1"] == pytest.approx(200, abs=5), "twice 100"
    Pieces(tmp_path, {}, again := {}, 1).get("pass 1", lambda folder: {})
    assert again["pass 1"] == pytest.approx(seconds["pass 1"])


def test_a_piece_keeps_its_peak_of_gpu_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: None)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 5)
    Pieces(tmp_path, {}, {}, 1, made := {}).get("pass 1", lambda folder: {"a": np.ones(1)})
    found = Pieces(tmp_path, {}, {}, 1, again := {}).get("pass 1", lambda folder: {})
    assert made == again == {"pass 1": 5}
    assert found.keys() == {"a"}


def test_a_piece_that_was_made_without_a_gpu_has_no_peak(tmp_path):
    Pieces(tmp_path, {}, {}, 1).get("pass 1", lambda folder: {"a": np.ones(1)})
    found = Pieces(tmp_path, {}, {}, 1, memory := {}).get("pass 1", lambda folder: {})
    assert memory == {}
    assert found.keys() == {"a"}


def test_time_that_nobody_worked_is_not_counted(tmp_path):
    assert store.earlier_seconds(tmp_path) == 0
    assert store.earlier_seconds(tmp_path) < 1


def test_settings_that_are_refused_leave_the_folder_free(tmp_path):
    settings = dataclasses.asdict(CONFIG) | {"name": "levelwise"}
    out = tmp_path / "run"
    with pytest.raises(ConfigError, match="none was given"):
        train({"model": settings}, out, train=TRAIN, dev=TRAIN)
    assert not out.exists()
    train({"model": settings | {"ontology": "cluster"}}, out, train=TRAIN, dev=TRAIN)
    assert load(out).considered("water")


def test_a_run_is_measured_by_the_levels_that_its_system_has(tmp_path):
    brief = dataclasses.replace(CONFIG, inputs="words", max_level=1)
    settings = dataclasses.asdict(brief) | {"name": "levelwise"}
    run = train({"model": settings}, tmp_path / "run", train=TRAIN, dev=TRAIN, ontology=ONTOLOGY)
    assert run.levels().tolist() == [1, 1, 1]
    assert [group.name for group in run.evaluate(TRAIN).by_level] == ["level 1"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("ofo_prior", -3.0), ("first_lambda", 7.0), ("row_norm", -1.0), ("bag", -1), ("folds", 1)],
)
def test_settings_that_mean_nothing_are_refused(name, value):
    with pytest.raises(ValueError, match=name):
        dataclasses.replace(CONFIG, **{name: value})

"""The system as a whole: levels, passes, folds, merging, files, and a training that is killed."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from scipy.special import expit, logit
from typer.testing import CliRunner

from ontodex.cli import app
from ontodex.errors import ConfigError, DataError, RunError
from ontodex.evaluate.sets import set_metrics
from ontodex.features.prepare import PrepareConfig, prepare
from ontodex.models.base import (
    Decides,
    Explains,
    ExplainsSet,
    RanksAndDecides,
    ReadsKeywords,
)
from ontodex.models.level_decide import DEPTH, moved
from ontodex.models.level_merge import Merge
from ontodex.models.level_network import LevelwiseConfig
from ontodex.models.level_passes import Batch, fold_of, neighbour_streams
from ontodex.models.level_pieces import Pieces
from ontodex.models.levelwise import AFTER_PASS_2, Levelwise
from ontodex.models.pointer import Pointer, PointerConfig, Predicted
from ontodex.ontology.graph import Concept, build
from ontodex.ontology.levels import lists_with_ancestors
from ontodex.outline import CLOSE
from ontodex.recipe import train
from ontodex.run import load
from ontodex.settings import resolve
from ontodex.train import loop, store
from ontodex.train.loop import LoopConfig
from ontodex.types import Corpus, Doc, LabelSpace, Ranking

ABOVE = {"water": "nature", "trees": "nature", "roads": "town", "homes": "town"}
ONTOLOGY = build(
    [
        Concept("nature", {"en": "Nature"}),
        Concept("town", {"en": "Town"}),
        *(Concept(topic, {"en": topic.title()}, parents=[top]) for topic, top in ABOVE.items()),
    ]
)
CONFIG = LevelwiseConfig(
    reader="pooling",
    sets="pooling",
    encoder="level",
    windows=(3, 4, 5),
    bag=0,
    width=12,
    maps=6,
    set_maps=4,
    hidden=8,
    value=8,
    bottleneck=12,
    chunks=3,
    min_count=1,
    keyword_count=1,
    word_dropout=0.0,
    dropout=0.1,
    merge="threshold",
    train=LoopConfig(epochs=10, batch=24, lr=0.03, patience=0, average=0.2, warmup=2),
    pointer=PointerConfig(
        embedding=8, hidden=8, train=LoopConfig(epochs=4, batch=16, lr=0.02, patience=0)
    ),
)


def planted(n: int, seed: int) -> Corpus:
    """One or two topics, told by a word, with the branch they belong to."""
    rng = np.random.default_rng(seed)
    docs = []
    for i in range(n):
        topics = rng.choice(list(ABOVE), size=rng.integers(1, 3), replace=False).tolist()
        words = [*topics, *rng.choice(["so", "very", "much"], size=3)]
        rng.shuffle(words)
        labels = tuple({*topics, *(ABOVE[topic] for topic in topics)})
        docs.append(Doc(f"{seed}-{i}", {"text": " ".join(words)}, tuple(topics), labels))
    return Corpus.of(docs)


BRIEF = LoopConfig(epochs=2, batch=24, lr=0.02, patience=0)


TRAIN, DEV, TEST = planted(48, 1), planted(16, 2), planted(16, 3)
LABELS = LabelSpace.of(TRAIN, ONTOLOGY)
GOLD = LABELS.gold(TEST)


def fitted(work: Path | None = None, **more: object) -> Levelwise:
    system = Levelwise(dataclasses.replace(CONFIG, **more))  # type: ignore[arg-type]
    system.work = work
    system.fit(TRAIN, DEV, LABELS)
    return system


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the trainings below leave their pieces: those that differ late share the early ones."""
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def system(work: Path) -> Levelwise:
    return fitted(work)


def test_log_odds_of_new_documents_are_moved_by_a_number_a_level(system):
    """Seen in the first pass, which no neighbours change."""
    first = system.passes[0]
    before = system.level_rankings(DEV)[0]
    by = np.array([0.75, -1.25])
    try:
        system.passes[0] = dataclasses.replace(first, moves=first.moves + by)
        after = system.level_rankings(DEV)[0]
    finally:
        system.passes[0] = first
    for old, new, far in zip(before, after, by, strict=True):
        assert new.columns.tolist() == old.columns.tolist()
        np.testing.assert_allclose(new.probabilities, moved(old, far).probabilities, rtol=1e-4)


def test_log_odds_are_not_moved_where_the_paper_does_not(work):
    short = dataclasses.replace(CONFIG.train, epochs=3)  # what is hardly trained moves the most
    pass_1 = {"inputs": "words+keywords", "documents": "level", "train": short}
    assert fitted(work, **pass_1).passes[0].moves.any()
    assert not fitted(work, **pass_1, move_odds=False).passes[0].moves.any()


def test_answers_are_the_mean_of_both_passes_or_those_of_the_second(system, work):
    alone = fitted(work, average_passes=False, merge="threshold")
    said = [
        [moved(r, -by) for r, by in zip(found, one.moves, strict=True)]
        for found, one in zip(alone.level_rankings(DEV), alone.passes, strict=True)
    ]
    both = system.level_rankings(DEV)[-1]
    for one, other, mean, by in zip(*said, both, system.passes[-1].moves, strict=True):
        n = len(LABELS)
        odds = [logit(r.scores(n).toarray()[:, one.columns[0]]) for r in (one, other, mean)]
        np.testing.assert_allclose((odds[0] + odds[1]) / 2 + by, odds[2], rtol=1e-3, atol=1e-3)


def test_an_explanation_reads_the_neighbours_that_the_answer_read(system, monkeypatch):
    """Log-odds of pass 1 that are moved far down leave none."""
    read = []
    monkeypatch.setattr(
        "ontodex.models.level_network.LevelNetworks.contributions",
        lambda network, place, label, words, sets: read.append(sets) or torch.zeros(1, 0),
    )
    first = system.passes[0]
    doc = next(iter(TEST))
    for by in (0.0, -50.0):
        changed = [dataclasses.replace(first, moves=first.moves + by), *system.passes[1:]]
        monkeypatch.setattr(system, "passes", changed)
        system.explain(doc, 0)
    levels = range(len(system.levels))
    some, none = (sum(int(found[level][1].sum()) for level in levels) for found in read)
    assert some > 0
    assert none == 0


def test_the_pointer_generator_reads_what_reaches_a_share_of_the_threshold(system):
    rankings = system.level_rankings(DEV)[-1]
    kept, more = (system.merging.union(rankings, system.thresholds, share) for share in (1.0, 0.2))
    assert (more.columns >= 0).sum() > (kept.columns >= 0).sum()
    for few, many in zip(kept.columns, more.columns, strict=True):
        assert set(few[few >= 0]) <= set(many)


def test_it_has_two_levels_and_two_passes_and_finds_the_planted_labels(system):
    assert [level.number for level in system.levels] == [1, 2]
    assert [[LABELS.ids[c] for c in level.columns] for level in system.levels] == [
        ["nature", "town"],
        ["homes", "roads", "trees", "water"],
    ]
    assert len(system.passes) == 2
    assert set_metrics(GOLD, system.decide(TEST))["MiF"] > 0.75


def test_pass_1_reads_no_neighbours_and_pass_2_does(system):
    first, second = (one.network for one in system.passes)
    assert first.labels is None
    assert [first.level(place).sets for place in (0, 1)] == [("keywords",), ("keywords",)]
    assert second.level(0).sets == ("keywords", "below")
    assert second.level(1).sets == ("keywords", "above")


def test_what_is_decided_stands_in_the_ranking_with_the_same_probability(system):
    ranking, decided = system.rank(TEST, 6), system.decide(TEST)
    chances = ranking.scores(len(LABELS)).toarray()
    for row, columns in enumerate(decided.columns):
        for column, probability in zip(columns, decided.probabilities[row], strict=True):
            assert column < 0 or chances[row, column] == pytest.approx(probability, abs=1e-6)


def test_finished_pieces_are_found_again_and_another_merging_shares_them(system, work, caplog):
    before = sorted(path.name for path in work.iterdir())
    with caplog.at_level("INFO"):
        again = fitted(work, merge="sampling")
    finished = [line for line in caplog.messages if line.endswith("finished before")]
    assert len(finished) == 6, "two passes, each of all documents and two folds"
    assert sorted(path.name for path in work.iterdir()) == before
    for mine, theirs in zip(
        again.level_rankings(TEST)[1], system.level_rankings(TEST)[1], strict=True
    ):
        np.testing.assert_array_equal(mine.probabilities, theirs.probabilities)
    assert not any(path.name.endswith(".running") for path in work.iterdir())


def test_the_log_says_which_piece_an_epoch_was_of(system, work):
    lines = [json.loads(line) for line in (work / "log.jsonl").read_text().splitlines()]
    names = {line["piece"] for line in lines}
    assert {f"pass {m}{f}" for m in (1, 2) for f in ("", " fold 1", " fold 2")} <= names


def test_more_inputs_share_what_comes_before_them(system, work, caplog):
    with caplog.at_level("INFO"):
        fewer = fitted(work, inputs="words+keywords")
    assert "pass 1 fold 2: finished before" in caplog.messages
    assert len(fewer.passes) == 1
    assert len(fitted(inputs="words", train=BRIEF).passes[0].network.level(1).sets) == 0


def test_folds_are_near_equal_and_cover_every_document():
    fold = fold_of(11, 3, seed=5)
    assert sorted(np.bincount(fold).tolist()) == [3, 4, 4]
    np.testing.assert_array_equal(fold, fold_of(11, 3, seed=5))


def test_more_folds_than_documents_are_refused_before_anything_is_read():
    system = Levelwise(dataclasses.replace(CONFIG, folds=len(TRAIN) + 1))
    with pytest.raises(ConfigError, match=f"folds must be at most {len(TRAIN)}"):
        system.fit(TRAIN, DEV, LABELS)
    assert system.reading is None


def test_predictions_for_training_documents_come_from_networks_that_never_saw_them(monkeypatch):
    """A label that all documents of one fold have, and none of the other: what both passes say,
    what the second reads, and what Figure 5 and the merging learn from."""
    from ontodex.models import levelwise

    fold = fold_of(len(TRAIN), 2, CONFIG.train.seed)
    docs = [
        dataclasses.replace(doc, labels=(*doc.labels, "secret")) if fold[i] == 0 else doc
        for i, doc in enumerate(TRAIN)
    ]
    corpus = Corpus.of(docs)
    labels = LabelSpace.of(corpus, ONTOLOGY)
    seen: dict[str, list[list[Ranking]]] = {}

    def watch(owner: object, name: str, rankings: Callable[..., list[Ranking]]) -> None:
        original = getattr(owner, name)

        def watched(*arguments: object, **more: object) -> object:
            result = original(*arguments, **more)
            seen.setdefault(name, []).append(rankings(result, *arguments))
            return result

        monkeypatch.setattr(owner, name, watched)

    watch(levelwise, "cross_fit", lambda crossed, *_: crossed.out_of_fold)
    watch(levelwise, "neighbour_streams", lambda _, chosen, *__: chosen)
    watch(levelwise, "level_curves", lambda _, __, ___, rankings, ____: rankings)
    watch(Merge, "fit", lambda _, __, train, *___: train.rankings)
    Levelwise(dataclasses.replace(CONFIG, train=BRIEF)).fit(corpus, DEV, labels)
    assert {name: len(calls) for name, calls in seen.items()} == {
        "cross_fit": 2, "neighbour_streams": 3, "level_curves": 1, "fit": 1,
    }  # fmt: skip
    seen["neighbour_streams"] = seen["neighbour_streams"][:1]  # the others are of dev
    for name, calls in seen.items():
        for rankings in calls:
            scores = rankings[0].scores(len(labels)).toarray()[:, labels.column["secret"]]
            assert scores[fold == 0].max() < 0.2, f"{name}: fold 0 is answered by fold 1 alone"
            assert scores[fold == 1].min() > 0.8, f"{name}: where fold 1 was not there, all have it"


def test_thresholds_of_a_level_learn_from_its_documents_those_for_merging_from_all(monkeypatch):
    """A label at level 2 that is too rare to be learned makes no document one of this level."""
    from ontodex.models import level_decide, levelwise

    rare = [f"rare {i}" for i in range(0, len(TRAIN), 3)]
    ontology = build(
        [
            *(Concept(top) for top in ("nature", "town")),
            *(Concept(topic, parents=[top]) for topic, top in ABOVE.items()),
            *(Concept(name, parents=["town"]) for name in rare),
        ]
    )
    docs = [
        dataclasses.replace(doc, labels=("town", f"rare {i}")) if i % 3 == 0 else doc
        for i, doc in enumerate(TRAIN)
    ]
    labels = LabelSpace.of(Corpus.of(docs), ontology, min_count=2)
    learned: list[tuple[int, int]] = []
    original = levelwise.learn_thresholds

    def watched(config: LevelwiseConfig, ranking: Ranking, gold: csr_array) -> object:
        learned.append((len(ranking), gold.nnz))
        return original(config, ranking, gold)

    monkeypatch.setattr(levelwise, "learn_thresholds", watched)
    monkeypatch.setattr(level_decide, "learn_thresholds", watched)
    system = Levelwise(dataclasses.replace(CONFIG, inputs="words", train=BRIEF))
    system.fit(Corpus.of(docs), DEV, labels)
    true = [label for doc in docs for label in doc.labels if label not in rare]
    tops = sum(label in ("nature", "town") for label in true)
    # Two levels, of each its own documents and labels, and all.
    assert learned == [(48, tops), (32, len(true) - tops), (48, len(true))]
    assert [system.curves[level]["documents"][-1] for level in ("1", "2")] == [48, 32]


def test_another_graph_makes_other_pieces():
    """The same labels at the same levels of the same category, but one below another."""
    names = ["x", "y", "z", "far"]
    docs = [Doc(str(i), {"text": label}, (), (label,)) for i, label in enumerate(names)]
    corpus, made_from = Corpus.of(docs), []
    for parent in ("x", "y"):
        concepts = [
            Concept("top", {"en": "Top"}),
            Concept("aside", {"en": "Aside"}),  # a lone top would give way to x and y
            Concept("far", {"en": "Far"}, parents=["aside"]),
            Concept("x", {"en": "X"}, parents=["top"]),
            Concept("y", {"en": "Y"}, parents=["top"]),
            Concept("z", {"en": "Z"}, parents=[parent]),
        ]
        system = Levelwise(dataclasses.replace(CONFIG, expand="lowest"))
        stage = system.stage(corpus, DEV, LabelSpace.of(corpus, build(concepts)))
        made_from.append(system._made_from(stage, stage.tables, ()))
    one, other = made_from
    assert {name for name in one if one[name] != other[name]} == {"ancestors", "targets"}


def made_from(**more: object) -> dict[str, Any]:
    """What tells a finished piece of pass 2 from others."""
    system = Levelwise(dataclasses.replace(CONFIG, **more))  # type: ignore[arg-type]
    stage = system.stage(TRAIN, DEV, LABELS)
    return system._made_from(stage, stage.tables, AFTER_PASS_2)


def test_settings_that_change_nothing_of_a_piece_make_no_other_pieces():
    often = dataclasses.replace(CONFIG.train, checkpoint_seconds=5.0)
    assert made_from(train=often) == made_from()
    more: dict[str, object] = {"second_epochs": 9, "second_lr": 0.5}
    assert made_from(**more) == made_from(), "pass 2 is trained anew"
    continued = made_from(second="continued")
    assert made_from(**more, second="continued") != continued
    assert continued != made_from()


def test_how_often_checkpoints_are_written_makes_no_other_pieces(tmp_path, caplog):
    few: dict[str, object] = {"merge": "pointer", "train": BRIEF}
    fitted(tmp_path, **few)
    own = dataclasses.replace(CONFIG.pointer.train, checkpoint_seconds=7.0)
    few["pointer"] = dataclasses.replace(CONFIG.pointer, train=own)
    few["train"] = dataclasses.replace(BRIEF, checkpoint_seconds=7.0)
    with caplog.at_level("INFO"):
        fitted(tmp_path, **few)
    finished = [line for line in caplog.messages if line.endswith("finished before")]
    assert len(finished) == 7, "two passes, each of all documents and two folds, and the pointer"


@pytest.mark.parametrize(("second", "networks"), [("anew", 0), ("continued", 3)])
def test_weights_of_pass_1_stay_in_memory_only_where_pass_2_goes_on_from_them(
    monkeypatch, second, networks
):
    held, original = [], Levelwise._pass

    def watched(*given: Any, **more: Any) -> Any:
        said = original(*given, **more)
        held.append(len(said.weights))
        return said

    monkeypatch.setattr(Levelwise, "_pass", watched)
    fitted(train=BRIEF, second=second, second_epochs=1)
    assert held == [networks, 0]


def test_a_kill_before_checkpoints_were_removed_leaves_none_behind(tmp_path):
    def make(folder: Path | None) -> dict[str, np.ndarray]:
        assert folder is not None
        folder.mkdir(exist_ok=True)
        (folder / "log.jsonl").write_text('{"epoch": 1}\n')
        return {"a": np.ones(1)}

    pieces = Pieces(tmp_path, {}, {}, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pieces, "_clear", lambda *_: None)  # killed before
        pieces.get("piece", make)
    assert len(list(tmp_path.glob("*.running"))) == 1
    assert pieces.get("piece", make)["a"] == 1
    assert not list(tmp_path.glob("*.running"))
    assert json.loads((tmp_path / "log.jsonl").read_text()) == {"piece": "piece", "epoch": 1}


@pytest.mark.parametrize("sets", ["pooling", "bag"])
def test_a_pass_that_is_continued_begins_with_what_the_first_said(sets):
    config = dataclasses.replace(CONFIG, sets=sets, dropout=0.0, second="continued", train=BRIEF)
    system = Levelwise(config)
    first = system.stage(TRAIN, DEV, LABELS)
    every, some = np.arange(len(TRAIN)), np.arange(20)
    earlier = system.trainer(first).network(every)
    with torch.no_grad():  # what training would have changed
        for parameter in earlier.parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.1)
    everything = [level.columns[None].repeat(len(TRAIN), axis=0) for level in system.levels]
    predicted = [Ranking(columns, np.ones(columns.shape)) for columns in everything]
    neighbours = neighbour_streams(predicted, 10, torch.device("cpu"))
    second = dataclasses.replace(
        first, streams=dataclasses.replace(first.streams, neighbours=neighbours)
    )
    later = system.trainer(second).network(every)
    told = [Batch(earlier.train(), first.streams, some), Batch(later.train(), second.streams, some)]
    places = range(len(system.levels))
    assert not any(torch.allclose(*(b.logits(place, some) for b in told)) for place in places)
    later.continue_from({k: v.detach().numpy() for k, v in earlier.named_parameters()})
    told[1] = Batch(later, second.streams, some)
    said = [[b.logits(place, some) for place in places] for b in told]
    torch.testing.assert_close(said[1], said[0])
    with pytest.raises(RunError, match=r"no 'words.table.weight' to go on from"):
        later.continue_from({})
    torch.stack([logits.square().sum() for logits in said[1]]).sum().backward()
    for place, name in enumerate(["below", "above"]):  # two levels: each has one neighbour
        level = later.level(place)
        if sets == "bag":
            learned = level.set_bags[name].get_parameter("output.weight").grad
        else:
            known = level.pools.columns_but({"above", "below"})[0]
            gradient = level.pools.get_parameter("bottlenecks.0.weight").grad
            assert gradient is not None
            learned = gradient[:, ~known]
        assert learned is not None
        assert learned.any(), "what neighbours say can be learned"


def test_a_pass_that_is_continued_shares_the_first_and_takes_its_own_epochs(work, caplog):
    fitted(work)
    before = {path.name for path in work.iterdir()}
    with caplog.at_level("INFO"):
        system = fitted(work, second="continued", second_epochs=3, average_passes=False)
    finished = [r.getMessage() for r in caplog.records if "finished before" in r.getMessage()]
    assert [line.split(":")[0] for line in finished] == ["pass 1", "pass 1 fold 1", "pass 1 fold 2"]
    new = {path.name for path in work.iterdir()} - before
    assert sorted(name.rsplit("-", 1)[0] for name in new) == [
        "pass-2", "pass-2-fold-1", "pass-2-fold-2",
    ]  # fmt: skip
    weights = {
        path.name.rsplit("-", 1)[0]: "words.table.weight" in store.load_tensors(path, "arrays")
        for path in work.iterdir()
        if "fold" in path.name
    }
    assert weights == {"pass-1-fold-1": True, "pass-1-fold-2": True} | dict.fromkeys(
        ["pass-2-fold-1", "pass-2-fold-2"], False
    ), "nothing goes on from pass 2"
    lines = [json.loads(line) for line in (work / "log.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines if line["piece"].startswith("pass 2")][-9:] == [
        0,
        1,
        2,
    ] * 3
    assert set_metrics(GOLD, system.decide(TEST))["MiF"] > 0.6


def test_a_pass_that_is_continued_learns_at_its_own_rate(work, monkeypatch):
    fitted(work)
    rates, original = [], loop.fit

    def watched(network: object, **settings: object) -> object:
        rates.append(settings["config"].lr)  # type: ignore[attr-defined]
        return original(network, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "fit", watched)
    fitted(work, second="continued", second_epochs=1, second_lr=0.5)
    assert rates == pytest.approx([CONFIG.train.lr / 2] * 3), "pass 1 was finished before"


@pytest.mark.parametrize("encoder", ["level", "shared"])
def test_a_level_may_learn_from_its_own_documents_which_are_read_as_they_are_alone(encoder):
    config = dataclasses.replace(CONFIG, documents="level", encoder=encoder, train=BRIEF)
    bare = Corpus.of(
        Doc(f"{i}", {"text": "very much roads"}, ("roads",), ("town",)) for i in range(4)
    )
    system = Levelwise(config)
    system.fit(Corpus.of([*bare, *TRAIN]), DEV, LABELS)
    stage = system.stage(Corpus.of([*bare, *TRAIN]), DEV, LABELS)
    assert stage.targets.teaches[0].all()
    assert not stage.targets.teaches[1][:4].any(), "they have no label at level 2"
    network, rows, inside = system.passes[0].network, np.arange(9), np.array([1, 4, 8])
    some = Batch(network, stage.streams, rows).logits(1, inside)
    alone = Batch(network, stage.streams, rows[inside]).logits(1, np.arange(3))
    torch.testing.assert_close(some, alone)


def test_one_level_is_a_flat_network(work):
    flat = fitted(work, max_level=1)
    assert [len(level) for level in flat.levels] == [6]
    assert len(flat.passes) == 1
    assert set_metrics(GOLD, flat.decide(TEST))["MiF"] > 0.75


def test_labels_may_read_the_words_by_attention(work):
    longer = dataclasses.replace(CONFIG.train, epochs=25)
    attentive = fitted(work, reader="attention", inputs="words", train=longer)
    assert set_metrics(GOLD, attentive.decide(TEST))["MiF"] > 0.75
    weights = attentive.explain(Doc("", {"text": "so water very"}), LABELS.column["water"])
    assert max(weights, key=lambda span: span.weight).start == 3


@pytest.mark.parametrize("reader", ["pooling", "attention"])
def test_words_that_only_the_bag_reads_speak_too(reader):
    system = fitted(reader=reader, inputs="words", bag=16, train=BRIEF)
    told = []
    for _ in range(2):
        spans = system.explain(Doc("", {"text": "water and trees"}), LABELS.column["water"])
        told.append(np.array([span.weight for span in spans]))
        network = system.passes[-1].network
        assert network.bag is not None
        with torch.no_grad():  # then without what the bag says
            network.bag.words.weight.zero_()
    assert len(told[0]) == 2
    assert (np.abs(told[0] - told[1]) > 1e-6).all()


def test_the_word_that_told_a_label_speaks_for_it(system):
    assert isinstance(system, Explains)
    text = "much water so very"
    spans = system.explain(Doc("", {"text": text}, ()), LABELS.column["water"])
    best = max(spans, key=lambda span: span.weight)
    assert text[best.start : best.end] == "water"


def test_the_pointer_generator_decides_and_shows_what_it_attended_to(work):
    merged = fitted(work, merge="pointer")
    assert isinstance(merged, Decides)
    assert isinstance(merged, ExplainsSet)
    decided, ranking = merged.decide(TEST), merged.rank(TEST, 6)
    for row in range(len(TEST)):
        chosen = set(decided.columns[row][decided.columns[row] >= 0].tolist())
        assert set(ranking.columns[row][: len(chosen)].tolist()) == chosen, "the set comes first"
    relative = dataclasses.replace(CONFIG.pointer, odds="threshold")
    seen = fitted(work, merge="pointer", pointer=relative).explain_set(TEST[0])
    assert seen.coverage.shape[1] == 2
    said = {
        column: p
        for ranking in merged.level_rankings(Corpus.of([TEST[0]]))[-1]
        for column, p in zip(ranking.columns[0], ranking.probabilities[0], strict=True)
    }
    shown = zip(seen.predicted, seen.predicted_probabilities, strict=True)
    assert all(said[column] == p for column, p in shown), "not what the network is told"


@pytest.mark.parametrize("odds", ["threshold", "plain"])
def test_the_pointer_generator_is_told_odds_against_thresholds_or_as_they_are(work, odds):
    pointer = dataclasses.replace(CONFIG.pointer, odds=odds)
    merged = fitted(work, merge="pointer", pointer=pointer)
    rankings = [r.cut(DEPTH) for r in merged.level_rankings(TEST)[-1]]
    told = merged.merging.predicted(rankings, merged.thresholds)
    said = {
        (row, column): p
        for ranking in rankings
        for row in range(len(TEST))
        for column, p in zip(ranking.columns[row], ranking.probabilities[row], strict=True)
    }
    for row, column in np.argwhere(told.columns >= 0):
        label = told.columns[row, column]
        expected = float(said[row, label])
        if odds == "threshold":
            expected = expit(logit(expected) - logit(merged.thresholds[label]))
        assert told.probabilities[row, column] == pytest.approx(expected, abs=1e-4)


def test_a_saved_run_says_whether_it_has_learned_from_authors_keywords(system, work, tmp_path):
    phrases = fitted(work, keywords="phrases", train=BRIEF)
    words = fitted(work, inputs="words", train=BRIEF)
    assert isinstance(system, ReadsKeywords)
    for name, one, learned in (("a", system, True), ("b", phrases, False), ("c", words, False)):
        (tmp_path / name).mkdir()
        one.save(tmp_path / name)
        assert Levelwise.reads_keywords(tmp_path / name) is learned


def test_a_run_without_pointer_cannot_show_its_attention(system):
    with pytest.raises(RunError, match="threshold"):
        system.explain_set(TEST[0])


def test_saved_and_loaded_with_pointer_it_decides_the_same(work, tmp_path):
    merged = fitted(work, merge="pointer")
    merged.save(tmp_path)
    loaded = Levelwise.load(tmp_path, LABELS)
    mine, theirs = loaded.decide(TEST), merged.decide(TEST)
    np.testing.assert_array_equal(mine.columns, theirs.columns)
    np.testing.assert_array_equal(mine.probabilities, theirs.probabilities)
    assert loaded.curves == json.loads(json.dumps(merged.curves))


def test_the_curves_of_ofo_are_kept_for_each_level(system):
    assert list(system.curves) == ["1", "2"]
    assert system.curves["2"]["documents"][-1] == len(TRAIN)
    assert system.curves["2"]["MaF"][-1] > 0.6


def test_an_ontology_is_needed_and_the_message_offers_another_way():
    with pytest.raises(ConfigError, match="ontology") as caught:
        Levelwise(CONFIG).fit(TRAIN, DEV, LabelSpace.of(TRAIN))
    assert "cluster" in caught.value.hint


def test_clusters_stand_in_for_an_ontology_and_are_never_answers(tmp_path, monkeypatch):
    from ontodex.models import levelwise

    system = Levelwise(
        dataclasses.replace(CONFIG, ontology="cluster", train=BRIEF, merge="pointer")
    )
    many = Corpus.of(
        [
            Doc(str(i), {"text": f"word{i % 20} side{i % 20 // 10}"}, (), (f"l{i % 20}",))
            for i in range(60)
        ]
    )
    labels = LabelSpace.of(many)
    asked: list[tuple[list[Ranking], csr_array]] = []
    original = levelwise.best_moves

    def watched(rankings: list[Ranking], gold: csr_array, thresholds: Any) -> object:
        asked.append((rankings, gold))
        return original(rankings, gold, thresholds)

    monkeypatch.setattr(levelwise, "best_moves", watched)
    system.fit(many, many, labels)
    attention = system.explain_set(many[0])
    said = system.level_rankings(many.select([0]))[-1]
    told = system.merging.predicted(said, system.thresholds).columns[0]
    assert (told >= 20).any(), "the pointer generator reads clusters"
    assert sorted(attention.predicted) == sorted(told[(told >= 0) & (told < 20)])
    pointer = system.merging.pointer
    raw = pointer.attention(system.merging.predicted(said, system.thresholds))
    ones = np.ones((2, raw.coverage.shape[1]))
    mixed = dataclasses.replace(
        raw, chosen=np.array([20, 3]), chosen_probabilities=np.array([0.9, 0.8]),
        generated=np.array([0.1, 0.2]), attention=np.ones((2, len(raw.predicted))),
        level_attention=ones, coverage=ones,
    )  # fmt: skip
    with monkeypatch.context() as patch:
        patch.setattr(pointer, "attention", lambda predicted: mixed)
        shown = system.explain_set(many[0])
    assert (shown.chosen.tolist(), shown.generated.tolist()) == ([3], [0.2])
    assert attention.attention.shape == (len(attention.chosen), len(attention.predicted))
    assert len(attention.coverage) == len(attention.generated) == len(attention.chosen)
    ((clusters, labels_said), gold) = asked[0]  # moved by what can be answered alone
    assert (clusters.columns == -1).all()
    assert (labels_said.columns >= 0).any()
    assert gold.indices.max() < 20
    assert system.passes[-1].moves[0] == 0
    assert [level.number for level in system.levels] == [1, 2]
    assert len(system.levels[0]) == 2
    assert len(system.levels[1]) == 20
    assert system.rank(many, 50).columns.max() < 20
    assert system.decide(many).columns.max() < 20
    system.save(tmp_path)
    loaded = Levelwise.load(tmp_path, labels)
    np.testing.assert_array_equal(loaded.rank(many, 5).columns, system.rank(many, 5).columns)


def test_sparse_features_are_read_as_words_and_not_taken_for_text(system, tmp_path):
    fitted_on_text = system
    docs = [
        Doc(str(i), features={i % 3: 1.0, 3 + i % 2: 1.0}, labels=(f"t{i % 3}",)) for i in range(48)
    ]
    corpus = Corpus.of(docs, n_features=5)
    labels = LabelSpace.of(corpus)
    system = Levelwise(dataclasses.replace(CONFIG, ontology="cluster"))
    system.fit(corpus, corpus, labels)
    best = system.rank(corpus, 1).columns[:, 0]
    assert np.mean(best == np.arange(48) % 3) > 0.9
    system.save(tmp_path)
    for one in (system, Levelwise.load(tmp_path, labels)):
        with pytest.raises(DataError, match="fitted on sparse features and cannot read text"):
            one.rank(TEST, 1)
    with pytest.raises(DataError, match="fitted on text and cannot read sparse features"):
        fitted_on_text.rank(corpus, 1)


def test_an_ontology_without_edges_is_one_level():
    flat = build([Concept(label) for label in LABELS.ids])
    system = Levelwise(dataclasses.replace(CONFIG, train=LoopConfig(epochs=1, batch=32)))
    system.fit(TRAIN, DEV, LabelSpace.of(TRAIN, flat))
    assert [level.number for level in system.levels] == [1]
    assert len(system.passes) == 1


def test_a_level_with_one_label_is_learned_like_any_other():
    chain = build([Concept("nature"), Concept("water", parents=["nature"])])
    corpus = Corpus.of(
        [Doc(str(i), {"text": "water wave"}, (), ("nature", "water")) for i in range(6)]
    )
    system = Levelwise(dataclasses.replace(CONFIG, train=LoopConfig(epochs=1, batch=4)))
    labels = LabelSpace.of(corpus, chain)
    system.fit(corpus, corpus, labels)
    assert [len(level) for level in system.levels] == [1, 1]
    assert system.rank(corpus, 2).columns.shape == (6, 2)


def test_author_keywords_are_read_where_there_are_any_and_phrases_where_not(system):
    assert system.reading is not None
    assert system.reading.phrases is None
    assert "water" in system.reading.keywords.id_of
    silent = Corpus.of([dataclasses.replace(doc, keywords=()) for doc in TRAIN])
    other = Levelwise(dataclasses.replace(CONFIG, train=BRIEF, inputs="words+keywords"))
    other.fit(silent, DEV, LABELS)
    assert other.reading is not None
    assert other.reading.phrases is not None


def test_it_starts_from_prepared_vectors_of_words_keywords_and_labels(tmp_path):
    pytest.importorskip("gensim")
    on_disk = {
        name: Corpus.write(
            (dataclasses.replace(doc, keywords=()) for doc in corpus), tmp_path / "corpora" / name
        )
        for name, corpus in (("train", TRAIN), ("dev", DEV))
    }
    config = PrepareConfig(
        stop_words="en",
        min_count=1,
        phrases=True,
        phrase_words=CONFIG.phrase_words,
        phrases_per_doc=CONFIG.phrases_per_doc,
        vectors="train",
        vector_size=8,
        set_vectors=True,
    )
    lists = lists_with_ancestors(ONTOLOGY, TRAIN.labels())
    carried = prepare(on_disk, tmp_path / "carried", config, label_lists=lists)
    assert not carried["train"].has_text
    system = Levelwise(dataclasses.replace(CONFIG, train=LoopConfig(epochs=1, batch=64, lr=1e-9)))
    system.fit(carried["train"], carried["dev"], LABELS)
    from ontodex.features import vectors

    folder = tmp_path / "carried" / "train"
    assert system.reading is not None
    assert system.reading.keywords is not None
    for kind, table in (
        (vectors.PREPARED, system.passes[1].network.words),
        (vectors.KEYWORDS, system.passes[1].network.keywords),
        (vectors.LABELS, system.passes[1].network.labels),
    ):
        made = vectors.read_vectors(folder / kind)
        word = next(w for w in made.words if w in ("water", "trees"))
        assert table is not None
        known = {
            vectors.PREPARED: system.reading.words.id_of,
            vectors.KEYWORDS: system.reading.keywords.id_of,
            vectors.LABELS: {label: 1 + c for label, c in LABELS.column.items()},
        }[kind]
        row = table.table.weight[known[word], :8].detach()
        expected = torch.from_numpy(made.array[made.words.index(word)])
        torch.testing.assert_close(row, expected, atol=2e-3, rtol=1e-2)


def test_label_lists_get_their_ancestors_most_general_first():
    assert lists_with_ancestors(ONTOLOGY, [["water", "odd"], []]) == [
        ["nature", "water", "odd"],
        [],
    ]


def test_a_run_evaluates_and_suggests_what_the_system_decides(tmp_path):
    brief = dataclasses.replace(CONFIG, inputs="words", train=BRIEF)
    settings = dataclasses.asdict(brief) | {"name": "levelwise"}
    run = train({"model": settings}, tmp_path / "run", train=TRAIN, dev=DEV, ontology=ONTOLOGY)
    metrics = run.evaluate(TEST, report=True)
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert all(f"How the thresholds settled, level {m}" in page for m in (1, 2)), "Figure 5"
    own = set_metrics(GOLD, run.model.decide(TEST))  # type: ignore[attr-defined]
    assert metrics["MiF"] == pytest.approx(own["MiF"])
    decided = run.decide(TEST.select([0]))
    chosen = decided.columns[0][decided.columns[0] >= 0]
    assert [s.label for s in run.suggest(TEST[0])] == [LABELS.ids[c] for c in chosen]
    assert load(tmp_path / "run").suggest(TEST[0]) == run.suggest(TEST[0])
    assert (tmp_path / "run" / "log.jsonl").exists()


def test_sets_that_the_system_chooses_are_cut_and_closed_as_decide_says(tmp_path):
    brief = dataclasses.replace(CONFIG, inputs="words", train=BRIEF)
    tables = {"model": dataclasses.asdict(brief) | {"name": "levelwise"}}
    with pytest.raises(ConfigError, match="rule: the system 'levelwise' chooses label sets by"):
        resolve({**tables, "decide": {"rule": "top"}})
    tables["decide"] = {"ancestors": "drop", "limit": 1}
    run = train(tables, tmp_path / "run", train=TRAIN, dev=DEV, ontology=ONTOLOGY)
    own = run.model.decide(TEST)  # type: ignore[attr-defined]
    assert (own.columns >= 0).sum(axis=1).max() > 1
    for chosen in (run.decide(TEST), run.ranked(TEST).chosen):
        assert (chosen.columns >= 0).sum(axis=1).max() == 1
        best = chosen.columns[chosen.columns >= 0]
        assert {LABELS.ids[column] for column in best} <= set(ABOVE), "tops are dropped"


def test_a_more_specific_concept_that_the_pointer_passed_over_is_a_warning(tmp_path):
    """Half of the documents about water have the general concept, half the specific one: to the
    levels both are as probable, and the pointer chooses one."""
    topics = ["water", "roads"] * 40
    docs = [
        Doc(f"{i}", {"text": f"so {topic} very"}, (), (ABOVE[topic] if i // 2 % 10 < 5 else topic,))
        for i, topic in enumerate(topics)
    ]
    longer = dataclasses.replace(CONFIG.pointer.train, epochs=15)
    config = dataclasses.replace(
        CONFIG,
        inputs="words",
        merge="pointer",
        train=dataclasses.replace(CONFIG.train, lr=0.01),
        pointer=dataclasses.replace(CONFIG.pointer, train=longer),
    )
    settings = dataclasses.asdict(config) | {"name": "levelwise"}
    corpora = {"train": Corpus.of(docs), "dev": Corpus.of(docs[:20])}
    run = train({"model": settings}, tmp_path / "run", ontology=ONTOLOGY, **corpora)
    told = CliRunner().invoke(app, ["suggest", str(run.folder), "so water very", "--json"])
    (nature,) = json.loads(told.stdout)
    assert nature["label"] == "nature"
    assert [near["label"] for near in nature["more_specific"]] == ["water"]
    by_itself = nature["more_specific"][0]["apart"]
    ranked = {s.label: s.probability for s in run.considered("so water very")}
    assert by_itself >= CLOSE * nature["probability"] > ranked["water"], "the set has a lead"


def test_what_is_ranked_and_decided_at_once_is_what_is_ranked_and_decided(work):
    merged = fitted(work, merge="pointer")
    assert isinstance(merged, RanksAndDecides)
    found = merged.rank_and_decide(TEST, 6)
    alone = merged.rank(TEST, 6), merged.decide(TEST)
    for mine, theirs in zip((found.ranking, found.chosen), alone, strict=True):
        np.testing.assert_array_equal(mine.columns, theirs.columns)
        np.testing.assert_array_equal(mine.probabilities, theirs.probabilities)


@pytest.mark.parametrize("emits", [True, False])
def test_a_training_says_where_sets_would_be_better_without_the_pointer_generator(
    work, monkeypatch, caplog, emits
):
    """Copying what the thresholds keep is as good as that; an empty set is not."""
    share = dataclasses.replace(CONFIG.pointer, share=1.0)

    def copied(_: Pointer, told: Predicted) -> Ranking:
        kept = Ranking.sort(told.columns, told.probabilities, told.columns.shape[1])
        return kept if emits else kept.cut(0)

    monkeypatch.setattr(Pointer, "decode", copied)
    fitted(work, merge="pointer", pointer=share)
    advice = "--set model.merge=threshold would choose better sets"
    assert any(advice in said for said in caplog.messages) != emits


def test_that_documents_have_no_keywords_is_said_once(system, monkeypatch, caplog):
    silent = Corpus.of([dataclasses.replace(doc, keywords=()) for doc in TEST])
    some = Corpus.of([TEST[0], *silent])
    monkeypatch.setattr(system, "has_warned", False)
    system.rank(some, 1)
    assert caplog.messages == []
    strange = Corpus.of([dataclasses.replace(doc, keywords=("never met",)) for doc in TEST])
    for documents in (silent, strange):
        monkeypatch.setattr(system, "has_warned", False)
        system.rank(documents, 1)
        system.explain(documents[0], 0)
    said = "this run has learned from authors' keywords and these documents have none that it knows"
    assert [message.partition(":")[0] for message in caplog.messages] == [said] * 2


def test_a_command_takes_keywords(tmp_path, caplog):
    brief = dataclasses.replace(CONFIG, inputs="words+keywords", train=BRIEF)
    settings = dataclasses.asdict(brief) | {"name": "levelwise"}
    run = train({"model": settings}, tmp_path / "run", train=TRAIN, dev=DEV, ontology=ONTOLOGY)
    doc = Doc("", {"text": "so much"}, ("water", "trees"))
    caplog.clear()
    given = [str(run.folder), "so much", "--keyword", "water", "--keyword", "trees", "--json"]
    suggested = CliRunner().invoke(app, ["suggest", *given])
    explained = CliRunner().invoke(app, ["explain", *given, "--label", "water"])
    assert caplog.messages == [], "no word about missing ones"
    found = {row["label"]: row["probability"] for row in json.loads(suggested.stdout)}
    assert found == {s.label: s.probability for s in run.suggest(doc)}
    assert found != {s.label: s.probability for s in run.suggest("so much")}
    probability = json.loads(explained.stdout)["probability"]
    assert probability == run.explain(doc, "water").probability


def test_without_a_label_the_command_explains_the_set_or_the_best_label(tmp_path):
    brief = dataclasses.asdict(dataclasses.replace(CONFIG, inputs="words", train=BRIEF))
    expected = {"pointer": ("chance", "no label was chosen"), "threshold": (", probability 0.",)}
    for merge, said in expected.items():
        out = tmp_path / merge
        tables = {"model": brief | {"name": "levelwise", "merge": merge}}
        train(tables, out, train=TRAIN, dev=DEV, ontology=ONTOLOGY)
        answer = CliRunner().invoke(app, ["explain", str(out), "so very much water"])
        assert answer.exit_code == 0, answer.output
        assert any(words in answer.stdout for words in said)


def test_expanded_gold_teaches_ancestors_but_final_gold_stays_as_it_is():
    leaves = Corpus.of(
        [
            dataclasses.replace(doc, labels=tuple(x for x in doc.labels if x in ABOVE) or ("town",))
            if i % 2
            else doc
            for i, doc in enumerate(TRAIN)
        ]
    )
    labels = LabelSpace.of(leaves, ONTOLOGY)
    plain, lifted = (
        Levelwise(dataclasses.replace(CONFIG, expand=expand)).stage(leaves, DEV, labels)
        for expand in ("none", "lowest")
    )
    for stage in (plain, lifted):
        assert (stage.gold != labels.gold(leaves)).nnz == 0
    assert (lifted.targets.local[0].toarray() >= plain.targets.local[0].toarray()).all()
    assert lifted.targets.local[0].nnz > plain.targets.local[0].nnz
    assert (lifted.targets.local[1] != plain.targets.local[1]).nnz == 0


CHILD = """
    import sys
    sys.path.insert(0, sys.argv[1])
    from pathlib import Path
    import torch
    torch.set_num_threads(1)
    from test_levelwise_system import CONFIG, DEV, LABELS, TRAIN
    from ontodex.models.levelwise import Levelwise
    import dataclasses
    out = Path(sys.argv[2])
    quick = dataclasses.replace(CONFIG.train, checkpoint_seconds=0.0)
    pointer = dataclasses.replace(CONFIG.pointer, train=dataclasses.replace(
        CONFIG.pointer.train, checkpoint_seconds=0.0))
    system = Levelwise(dataclasses.replace(CONFIG, train=quick, merge="pointer", pointer=pointer))
    system.work = out / "work"
    system.work.mkdir(exist_ok=True)
    print("ready", flush=True)
    system.fit(TRAIN, DEV, LABELS)
    (out / "model").mkdir(exist_ok=True)
    system.save(out / "model")
    print("done", flush=True)
"""


def child(out: Path) -> subprocess.Popen[bytes]:
    out.mkdir(exist_ok=True)
    script = [sys.executable, "-c", textwrap.dedent(CHILD), str(Path(__file__).parent), str(out)]
    return subprocess.Popen(script, stdout=subprocess.PIPE)


@pytest.mark.slow
def test_killed_again_and_again_it_learns_the_same_bits_and_redoes_no_finished_piece(tmp_path):
    """Each process is killed when it has finished one more piece, or is in the middle of one."""
    killed = tmp_path / "killed"
    kills, done = 0, False
    while not done:
        process = child(killed)
        assert process.stdout is not None
        process.stdout.readline()
        began, pieces = time.monotonic(), finished(killed)
        while process.poll() is None:
            moved = finished(killed) > pieces
            if kills < 5 and (moved or (kills % 2 and time.monotonic() - began > 3)):
                os.kill(process.pid, signal.SIGKILL)
            time.sleep(0.02)  # a random moment is the point of this test
        done = process.returncode == 0
        kills += not done
        process.stdout.close()
        assert finished(killed) >= pieces
    assert kills >= 4
    whole = child(tmp_path / "whole")
    assert whole.wait() == 0
    assert whole.stdout is not None
    whole.stdout.close()
    mine, theirs = (
        {p.name: p.read_bytes() for p in (tmp_path / name / "model").iterdir()}
        for name in ("killed", "whole")
    )
    assert mine == theirs


def finished(out: Path) -> set[str]:
    names = {path.parent.name for path in (out / "work").glob("*/arrays.index.json")}
    return {name for name in names if not name.startswith(".")}

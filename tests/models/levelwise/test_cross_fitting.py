"""Folds, out-of-fold predictions, and a continued pass 2."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from levelwise_planted import (
    BRIEF,
    CONFIG,
    DEV,
    GOLD,
    LABELS,
    ONTOLOGY,
    TEST,
    TRAIN,
    PlantedLevelwise,
    fit_system,
)

from ontodex.config import vary
from ontodex.errors import ConfigError, RunError
from ontodex.evaluation.sets import set_metrics
from ontodex.io.tensors import read_tensors
from ontodex.models.levelwise.cross_fitting import assign_folds
from ontodex.models.levelwise.merge import Merge
from ontodex.models.levelwise.network import PooledLevels
from ontodex.models.levelwise.prediction import Batch
from ontodex.models.levelwise.streams import make_neighbour_streams
from ontodex.models.levelwise.system import Levelwise
from ontodex.models.levelwise.training import Trainer
from ontodex.training import loop
from ontodex.types import Corpus, LabelSpace, Ranking


def test_folds_are_near_equal_and_cover_every_document():
    fold = assign_folds(11, 3, seed=5)
    assert sorted(np.bincount(fold).tolist()) == [3, 4, 4]
    np.testing.assert_array_equal(fold, assign_folds(11, 3, seed=5))


def test_more_folds_than_documents_are_refused_before_anything_is_read():
    system = PlantedLevelwise(vary(CONFIG, folds=len(TRAIN) + 1))
    with pytest.raises(ConfigError, match=f"folds must be at most {len(TRAIN)}"):
        system.fit(TRAIN, DEV, LABELS)
    assert system.stream_encoder is None


def test_predictions_for_training_documents_come_from_networks_that_never_saw_them(monkeypatch):
    """A label that all documents of one fold have, and none of the other: what both passes say,
    what the second reads, and what Figure 5 and the merging learn from."""

    fold = assign_folds(len(TRAIN), 2, CONFIG.train.seed)
    docs = [
        dataclasses.replace(doc, labels=(*doc.labels, "secret")) if fold[i] == 0 else doc
        for i, doc in enumerate(TRAIN)
    ]
    corpus = Corpus.of(docs)
    labels = LabelSpace.of(corpus, ONTOLOGY)
    seen: dict[str, list[list[Ranking]]] = {}

    def watch(owner: object, name: str, rankings: Callable[..., list[Ranking]]) -> None:
        original = getattr(owner, name)

        def record(*arguments: object, **more: object) -> object:
            result = original(*arguments, **more)
            seen.setdefault(name, []).append(rankings(result, *arguments))
            return result

        monkeypatch.setattr(owner, name, record)

    from ontodex.models.levelwise import system as levelwise

    watch(levelwise, "cross_fit", lambda fitted, *_: fitted.out_of_fold)
    watch(levelwise, "make_neighbour_streams", lambda _, chosen, *__: chosen)
    watch(levelwise, "trace_ofo_by_level", lambda _, __, ___, rankings, ____: rankings)
    watch(Merge, "fit", lambda _, __, train, *___: train.rankings)
    PlantedLevelwise(vary(CONFIG, train=BRIEF)).fit(corpus, DEV, labels)
    assert {name: len(calls) for name, calls in seen.items()} == {
        "cross_fit": 2, "make_neighbour_streams": 3, "trace_ofo_by_level": 1, "fit": 1,
    }  # fmt: skip
    seen["make_neighbour_streams"] = seen["make_neighbour_streams"][:1]  # the others are of dev
    for name, calls in seen.items():
        for rankings in calls:
            scores = rankings[0].scores(len(labels)).toarray()[:, labels.column["secret"]]
            assert scores[fold == 0].max() < 0.2, f"{name}: fold 0 is answered by fold 1 alone"
            assert scores[fold == 1].min() > 0.8, f"{name}: where fold 1 was not there, all have it"


@pytest.mark.parametrize(("pass2_init", "networks"), [("scratch", 0), ("continued", 3)])
def test_weights_of_pass_1_stay_in_memory_only_where_pass_2_continues_from_them(
    monkeypatch, pass2_init, networks
):
    held, original = [], PlantedLevelwise._fit_pass

    def record(*given: Any, **more: Any) -> Any:
        predicted = original(*given, **more)
        held.append(len(predicted.weights))
        return predicted

    monkeypatch.setattr(Levelwise, "_fit_pass", record)
    fit_system(train=BRIEF, pass2_init=pass2_init, pass2_epochs=1)
    assert held == [networks, 0]


def test_a_continued_pass_2_first_predicts_the_same_as_pass_1():
    config = vary(CONFIG, dropout=0.0, pass2_init="continued", train=BRIEF)
    system = PlantedLevelwise(config)
    first = system.prepare_data(TRAIN, DEV, LABELS)
    every, some = np.arange(len(TRAIN)), np.arange(20)
    earlier = system.make_trainer(first).make_network(every)
    with torch.no_grad():  # what training would have changed
        for parameter in earlier.parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.1)
    everything = [level.columns[None].repeat(len(TRAIN), axis=0) for level in system.levels]
    predicted = [Ranking(columns, np.ones(columns.shape)) for columns in everything]
    neighbours = make_neighbour_streams(predicted, 10, torch.device("cpu"))
    second = dataclasses.replace(
        first, streams=dataclasses.replace(first.streams, neighbours=neighbours)
    )
    later = system.make_trainer(second).make_network(every)
    both = [Batch(earlier.train(), first.streams, some), Batch(later.train(), second.streams, some)]
    places = range(len(system.levels))
    assert not any(
        torch.allclose(*(b.compute_logits(place, some) for b in both)) for place in places
    )
    later.continue_from({k: v.detach().numpy() for k, v in earlier.named_parameters()})
    both[1] = Batch(later, second.streams, some)
    predicted = [[b.compute_logits(place, some) for place in places] for b in both]
    torch.testing.assert_close(predicted[1], predicted[0])
    with pytest.raises(RunError, match=r"pass 1 have no 'words.table.weight'"):
        later.continue_from({})
    torch.stack([logits.square().sum() for logits in predicted[1]]).sum().backward()
    for place, name in enumerate(["below", "above"]):  # two levels: each has one neighbour
        level = later.level(place)
        assert name in level.sets
        known = level.pools.mark_columns_without({"above", "below"})[0]
        gradient = level.pools.get_parameter("bottlenecks.0.weight").grad
        assert gradient is not None
        assert gradient[:, ~known].any(), "what neighbours say can be learned"


def test_a_continued_pass_2_shares_pass_1_and_has_its_own_epochs(work, caplog):
    fit_system(work)
    before = {path.name for path in work.iterdir()}
    with caplog.at_level("INFO"):
        system = fit_system(work, pass2_init="continued", pass2_epochs=3, average_passes=False)
    finished = [r.getMessage() for r in caplog.records if "finished before" in r.getMessage()]
    assert [line.split(":")[0] for line in finished] == ["pass 1", "pass 1 fold 1", "pass 1 fold 2"]
    new = {path.name for path in work.iterdir()} - before
    assert sorted(name.rsplit("-", 1)[0] for name in new) == [
        "pass-2", "pass-2-fold-1", "pass-2-fold-2",
    ]  # fmt: skip
    weights = {
        path.name.rsplit("-", 1)[0]: "words.table.weight" in read_tensors(path, "arrays")
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


def test_a_continued_pass_2_has_its_own_learning_rate(work, monkeypatch):
    fit_system(work)
    rates, original = [], loop.fit

    def record(network: object, **settings: object) -> object:
        rates.append(settings["config"].lr)  # type: ignore[attr-defined]
        return original(network, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "fit", record)
    fit_system(work, pass2_init="continued", pass2_epochs=1, pass2_lr_factor=0.5)
    assert rates == pytest.approx([CONFIG.train.lr / 2] * 3), "pass 1 was finished before"


def test_a_pass_2_that_ends_below_pass_1_on_dev_is_taken_back(work, monkeypatch, caplog):
    """Dev is scored before pass 2, after each of its epochs, and at its end."""
    scores = iter([0.9, *[0.1] * 100])
    fit_system(work)  # pass 1 is shared
    monkeypatch.setattr(Trainer, "score_dev", lambda *_: next(scores))
    started: list[dict[str, Any]] = []
    continue_from = PooledLevels.continue_from

    def record(network: PooledLevels, earlier: Any) -> None:
        continue_from(network, earlier)
        started.append({k: v.clone() for k, v in network.named_parameters()})

    monkeypatch.setattr(PooledLevels, "continue_from", record)
    system = fit_system(work, pass2_init="continued", pass2_epochs=1)
    assert "ended below pass 1 on dev, so its start is kept" in caplog.text
    kept = dict(system.passes[1].network.named_parameters())
    for name, parameter in started[0].items():
        torch.testing.assert_close(kept[name], parameter.detach().half().float())

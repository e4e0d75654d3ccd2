"""The system as a whole: fit, predict, explain, save and the commands."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch
from levelwise_planted import (
    ABOVE,
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
from typer.testing import CliRunner

from ontodex.cli import app
from ontodex.config import vary
from ontodex.errors import ConfigError
from ontodex.evaluation.sets import set_metrics
from ontodex.models.interface import Explains
from ontodex.ontology.related import CLOSE
from ontodex.runs.evaluate import evaluate
from ontodex.runs.recipe import train
from ontodex.runs.run import load, predict
from ontodex.runs.settings import resolve
from ontodex.types import Corpus, Doc


def test_an_explanation_reads_the_same_neighbours_as_the_prediction(system, monkeypatch):
    """Log-odds of pass 1 that are moved far down leave none."""
    read = []
    monkeypatch.setattr(
        "ontodex.models.levelwise.network.PooledLevels.explain_logit",
        lambda network, place, label, words, sets: read.append(sets) or torch.zeros(1, 0),
    )
    first = system.passes[0]
    doc = next(iter(TEST))
    for by in (0.0, -50.0):
        changed = [
            dataclasses.replace(first, logit_shifts=first.logit_shifts + by),
            *system.passes[1:],
        ]
        monkeypatch.setattr(system, "passes", changed)
        system.explain(doc, 0)
    levels = range(len(system.levels))
    some, none = (sum(int(found[level][1].sum()) for level in levels) for found in read)
    assert some > 0
    assert none == 0


def test_it_has_two_levels_and_two_passes_and_finds_the_planted_labels(system):
    assert [level.number for level in system.levels] == [1, 2]
    assert [[LABELS.ids[c] for c in level.columns] for level in system.levels] == [
        ["nature", "town"],
        ["homes", "roads", "trees", "water"],
    ]
    assert len(system.passes) == 2
    assert set_metrics(GOLD, system.decide(TEST))["MiF"] > 0.75


def test_the_planted_word_of_a_label_contributes_most_to_it(system):
    assert isinstance(system, Explains)
    text = "much water so very"
    spans = system.explain(Doc("", {"text": text}, ()), LABELS.column["water"])
    best = max(spans, key=lambda span: span.weight)
    assert text[best.start : best.end] == "water"


def test_saved_and_loaded_with_pointer_it_decides_the_same(work, tmp_path):
    merged = fit_system(work, merge="pointer")
    merged.save(tmp_path)
    loaded = PlantedLevelwise.load(tmp_path, LABELS)
    mine, theirs = loaded.decide(TEST), merged.decide(TEST)
    np.testing.assert_array_equal(mine.columns, theirs.columns)
    np.testing.assert_array_equal(mine.probabilities, theirs.probabilities)
    assert loaded.curves == json.loads(json.dumps(merged.curves))


def test_a_run_evaluates_and_suggests_what_the_system_decides(tmp_path):
    brief = vary(CONFIG, inputs="words", train=BRIEF)
    settings = dataclasses.asdict(brief) | {"name": "levelwise"}
    run = train(
        config={"model": settings}, out=tmp_path / "run", train=TRAIN, dev=DEV, ontology=ONTOLOGY
    )
    metrics = evaluate(run, TEST, report=True)
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert all(f"Thresholds during training, level {m}" in page for m in (1, 2)), "Figure 5"
    own = set_metrics(GOLD, run.model.decide(TEST))  # type: ignore[attr-defined]
    assert metrics["MiF"] == pytest.approx(own["MiF"])
    decided = run.decide(TEST.select([0]))
    chosen = decided.columns[0][decided.columns[0] >= 0]
    assert [s.label for s in run.suggest(TEST[0])] == [LABELS.ids[c] for c in chosen]
    assert load(tmp_path / "run").suggest(TEST[0]) == run.suggest(TEST[0])
    assert (tmp_path / "run" / "log.jsonl").exists()


def test_predicted_sets_are_limited_and_closed_by_the_decide_settings(tmp_path):
    brief = vary(CONFIG, inputs="words", train=BRIEF)
    tables = {"model": dataclasses.asdict(brief) | {"name": "levelwise"}}
    with pytest.raises(ConfigError, match="rule: the system 'levelwise' predicts label sets by"):
        resolve({**tables, "decide": {"rule": "top-k"}})
    tables["decide"] = {"ancestors": "drop", "limit": 1}
    run = train(config=tables, out=tmp_path / "run", train=TRAIN, dev=DEV, ontology=ONTOLOGY)
    own = run.model.decide(TEST)  # type: ignore[attr-defined]
    assert (own.columns >= 0).sum(axis=1).max() > 1
    for chosen in (run.decide(TEST), predict(run, TEST).label_sets):
        assert (chosen.columns >= 0).sum(axis=1).max() == 1
        best = chosen.columns[chosen.columns >= 0]
        assert {LABELS.ids[column] for column in best} <= set(ABOVE), "tops are dropped"


def test_a_more_specific_concept_that_the_pointer_generator_skipped_is_a_warning(tmp_path):
    """Half of the documents about water have the general concept, half the specific one: to the
    levels both are as probable, and the pointer chooses one."""
    topics = ["water", "roads"] * 40
    docs = [
        Doc(f"{i}", {"text": f"so {topic} very"}, (), (ABOVE[topic] if i // 2 % 10 < 5 else topic,))
        for i, topic in enumerate(topics)
    ]
    sizes = {"width": 12, "hidden": 8, "value_dim": 8, "bag": 16, "min_count": 1}
    loop = {**dataclasses.asdict(CONFIG.train), "lr": 0.01}
    pointer = {"embedding": 8, "hidden": 8, "steps": 150}
    settings = {"name": "attentive-levels", **sizes, "train": loop, "pointer": pointer}
    corpora = {"train": Corpus.of(docs), "dev": Corpus.of(docs[:20])}
    run = train(config={"model": settings}, out=tmp_path / "run", ontology=ONTOLOGY, **corpora)
    answered = CliRunner().invoke(app, ["suggest", str(run.folder), "so water very", "--json"])
    (nature,) = json.loads(answered.stdout)
    assert nature["label"] == "nature"
    assert [near["label"] for near in nature["more_specific"]] == ["water"]
    by_itself = nature["more_specific"][0]["standalone_probability"]
    ranking = run.rank(Corpus.of([Doc("", {"text": "so water very"})]), len(LABELS))
    water = ranking.scores(len(run.labels))[0, run.labels.column["water"]]
    assert by_itself >= CLOSE * nature["probability"] > water, "the ranking puts the set first"


def test_a_command_takes_keywords(tmp_path, caplog):
    brief = vary(CONFIG, inputs="words+keywords", train=BRIEF)
    settings = dataclasses.asdict(brief) | {"name": "levelwise"}
    run = train(
        config={"model": settings}, out=tmp_path / "run", train=TRAIN, dev=DEV, ontology=ONTOLOGY
    )
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
    brief = dataclasses.asdict(vary(CONFIG, inputs="words", train=BRIEF))
    expected = {"pointer": ("chance", "no label was chosen"), "threshold": (", probability 0.",)}
    for merge, predicted in expected.items():
        out = tmp_path / merge
        tables = {"model": brief | {"name": "levelwise", "merge": merge}}
        train(config=tables, out=out, train=TRAIN, dev=DEV, ontology=ONTOLOGY)
        answer = CliRunner().invoke(app, ["explain", str(out), "so very much water"])
        assert answer.exit_code == 0, answer.output
        assert any(words in answer.stdout for words in predicted)

"""Cache keys: settings, ontology and data that a training stage depends on."""

from __future__ import annotations

import dataclasses
from typing import Any

from levelwise_planted import BRIEF, CONFIG, DEV, LABELS, TRAIN, PlantedLevelwise, fit_system

from ontodex.config import vary
from ontodex.models.levelwise.cache_key import AFTER_PASS_2
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.types import Corpus, Doc, LabelSpace


def test_another_ontology_has_another_cache_key():
    """The same labels at the same levels of the same category, but one below another."""
    names = ["x", "y", "z", "far"]
    docs = [Doc(str(i), {"text": label}, (), (label,)) for i, label in enumerate(names)]
    corpus, make_key = Corpus.of(docs), []
    for parent in ("x", "y"):
        concepts = [
            Concept("top", {"en": "Top"}),
            Concept("aside", {"en": "Aside"}),  # a lone top would give way to x and y
            Concept("far", {"en": "Far"}, parents=["aside"]),
            Concept("x", {"en": "X"}, parents=["top"]),
            Concept("y", {"en": "Y"}, parents=["top"]),
            Concept("z", {"en": "Z"}, parents=[parent]),
        ]
        system = PlantedLevelwise(vary(CONFIG, expand="lowest"))
        stage = system.prepare_data(corpus, DEV, LabelSpace.of(corpus, build_ontology(concepts)))
        make_key.append(system._cache_key(stage, stage.tables, ()))
    one, other = make_key
    assert {name for name in one if one[name] != other[name]} == {"ancestors", "targets"}


def make_key(**more: object) -> dict[str, Any]:
    """Return the cache key of pass 2."""
    system = PlantedLevelwise(vary(CONFIG, **more))  # type: ignore[arg-type]
    stage = system.prepare_data(TRAIN, DEV, LABELS)
    return system._cache_key(stage, stage.tables, AFTER_PASS_2)


def test_settings_without_effect_on_a_stage_keep_its_cache_key():
    often = dataclasses.replace(CONFIG.train, checkpoint_seconds=5.0)
    assert make_key(train=often) == make_key()
    more: dict[str, object] = {"pass2_epochs": 9, "pass2_lr_factor": 0.5}
    assert make_key(**more) == make_key(), "pass 2 is trained again"
    continued = make_key(pass2_init="continued")
    assert make_key(**more, pass2_init="continued") != continued
    assert continued != make_key()


def test_the_time_between_checkpoints_keeps_the_cache_key(tmp_path, caplog):
    few: dict[str, object] = {"merge": "pointer", "train": BRIEF}
    fit_system(tmp_path, **few)
    few["train"] = dataclasses.replace(BRIEF, checkpoint_seconds=7.0)
    with caplog.at_level("INFO"):
        fit_system(tmp_path, **few)
    finished = [line for line in caplog.messages if line.endswith("finished before")]
    assert len(finished) == 7, "two passes, each of all documents and two folds, and the pointer"

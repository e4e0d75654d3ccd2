"""Settings of a run: bad ones are refused."""

from __future__ import annotations

import pytest

from ontodex.errors import ConfigError
from ontodex.runs.recipe import train
from ontodex.runs.settings import resolve
from ontodex.types import Corpus, Doc

DOCS = Corpus.of(
    [
        Doc(str(i), {"title": f"trout {i}"}, (), ("fish",) if i % 3 else ("fish", "oak"))
        for i in range(30)
    ]
)


@pytest.mark.parametrize(
    ("tables", "complaint"),
    [
        ({}, "no system is named"),
        ({"model": {"name": "popularty"}}, "did you mean 'popularity'"),
        ({"modle": {}}, "no table .modle.; did you mean 'model'"),
        ({"model": {"name": "popularity", "x": 1}}, r"\[model\] has no setting 'x'"),
        ({"model": {"name": "popularity"}, "labels": {"min_count": 0}}, "at least 1, not 0"),
    ],
)
def test_a_bad_setting_is_refused_before_anything_is_written(tmp_path, tables, complaint):
    with pytest.raises(ConfigError, match=complaint):
        train(config=tables, out=tmp_path / "run", train=DOCS)
    assert not (tmp_path / "run").exists()


def test_without_a_system_the_advice_is_short_and_leads_to_the_list() -> None:
    with pytest.raises(ConfigError, match="no system is named") as error:
        resolve({})
    assert error.value.hint == (
        "give --model auto, which finds one that suits, or --model NAME; "
        "`ontodex systems` lists them with advice"
    )


def test_an_experiment_given_as_settings_is_called_one() -> None:
    with pytest.raises(ConfigError, match=r"there is no table \[title\]") as error:
        resolve({"title": "a title", "systems": [{"name": "floor"}]})
    assert "ontodex experiment FILE" in error.value.hint


def test_a_removed_setting_of_the_training_is_left_out_with_a_warning(caplog):
    loop = {"final_lr_ratio": 0.5, "optimizer": "sgd", "lr": 0.01}
    settings = resolve({"model": {"name": "attentive", "train": loop}}).model
    assert (settings.train.final_lr_ratio, settings.train.lr) == (0.02, 0.01)
    assert "removed are left out: model.train.final_lr_ratio, model.train.optimizer" in caplog.text


def test_a_removed_setting_of_the_answers_is_refused_with_another_value():
    assert resolve({"model": {"name": "knn", "lower": True}}).model.lower
    with pytest.raises(ConfigError, match="lower was removed; it is always True here"):
        resolve({"model": {"name": "knn", "lower": False}})


def test_languages_that_a_training_found_are_not_stored_as_settings():
    settings = resolve({"model": {"name": "knn"}}).read_languages(("fi",))
    assert settings.model.languages == ("fi",)
    assert "languages" not in settings.tables()["model"]

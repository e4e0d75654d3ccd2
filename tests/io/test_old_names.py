"""Settings under their old names load, with a warning."""

from __future__ import annotations

import pytest

from ontodex.io import old_names
from ontodex.io.old_names import Renamed, translate_old_names
from ontodex.runs.settings import resolve


@pytest.fixture
def _table(monkeypatch):
    rows = (
        Renamed("model.old", "model.new", ("knn",)),
        Renamed("model.inner.old", "model.inner.new"),
        Renamed("decide.way", "decide.way", values={"anew": "scratch"}),
    )
    monkeypatch.setattr(old_names, "RENAMED", rows)


@pytest.mark.usefixtures("_table")
def test_old_names_and_values_become_those_of_today_with_one_warning(caplog):
    tables = {"model": {"name": "knn", "old": 3, "inner": {"old": [1]}}, "decide": {"way": "anew"}}
    assert translate_old_names(tables) == {
        "model": {"name": "knn", "new": 3, "inner": {"new": [1]}},
        "decide": {"way": "scratch"},
    }
    assert tables["model"]["old"] == 3, "the caller's tables stay"
    assert len(caplog.messages) == 1
    assert "model.old is now model.new" in caplog.messages[0]


@pytest.mark.usefixtures("_table")
def test_a_row_of_one_system_leaves_others_alone_and_today_s_names_warn_of_nothing(caplog):
    tables = {"model": {"name": "linear", "old": 3}, "decide": {"way": "scratch"}}
    assert translate_old_names(tables) == tables
    assert caplog.messages == []


@pytest.mark.usefixtures("_table")
def test_a_setting_given_under_both_names_keeps_the_new_one():
    tables = {"model": {"name": "knn", "old": 3, "new": 4}}
    assert translate_old_names(tables)["model"] == {"name": "knn", "new": 4}


def test_every_row_leads_to_a_setting_that_exists():
    from ontodex.models import MODELS

    for row in old_names.RENAMED:
        for system in row.systems or MODELS:
            settings = resolve({"model": {"name": system}})
            table, holder = settings.tables(), settings
            *path, last = row.new.split(".")
            for step in path:
                table, holder = table[step], getattr(holder, step)
            is_former = hasattr(holder, last) or last in getattr(holder, "FORMER", ())
            assert last in table or is_former, f"{row.new} of {system}"


def test_languages_of_a_model_table_are_those_of_the_training(caplog):
    settings = resolve({"model": {"name": "knn", "languages": ["fi"]}})
    assert settings.train.languages == ("fi",)
    assert "model.languages is now train.languages" in caplog.text

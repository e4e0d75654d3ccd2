"""The errors of ontodex."""

from __future__ import annotations

from pathlib import Path

import pytest

from ontodex.errors import (
    LONGEST,
    ConfigError,
    DataError,
    MissingExtraError,
    UnmappedTableError,
    require,
)

PLACE = Path("train.csv")


def test_a_data_error_begins_with_its_place():
    assert str(DataError("no id", path=PLACE, line=2)) == "train.csv:2: no id"
    assert str(DataError("empty", path=PLACE)) == "train.csv: empty"
    assert str(DataError("no id").at(PLACE, 0)) == "train.csv:0: no id"


def test_an_error_keeps_its_hint_and_columns_when_it_gets_a_place():
    error = UnmappedTableError("no text", hint="map a column")
    error.columns = ("doc", "headline")
    placed = error.at(PLACE)
    assert (placed.hint, placed.columns) == ("map a column", ("doc", "headline"))
    assert isinstance(placed, UnmappedTableError)


@pytest.mark.parametrize("extra", [0, 1])
def test_only_a_message_above_the_limit_is_cut(extra):
    message = "x" * (LONGEST + extra)
    cut = "x" * LONGEST + " ... and 1 more characters"
    assert str(ConfigError(message)) == (cut if extra else message)


def test_half_of_a_surrogate_pair_is_replaced():
    assert str(ConfigError("a\ud800b")) == "a?b"


def test_a_missing_library_is_named_with_the_extra_that_has_it():
    with pytest.raises(MissingExtraError, match="--plot needs the package 'no_such_library'") as e:
        require("no_such_library.inner", extra="learn", purpose="--plot")
    assert e.value.hint == "pip install 'ontodex[learn]'"


def test_a_library_that_lacks_another_one_is_an_error_of_its_own(tmp_path, monkeypatch):
    (tmp_path / "library_of_this_test.py").write_text("import no_such_library\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        require("library_of_this_test", extra="learn", purpose="--plot")

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass
from typing import Literal

import pytest

from ontodex import config
from ontodex.errors import ConfigError
from ontodex.io import old_names
from ontodex.io.old_names import Renamed


@dataclass(frozen=True)
class Settings:
    hidden: int = 256
    dropout: float = 0.5
    pooling: Literal["max", "mean"] = "max"
    widths: tuple[int, ...] = (3, 4)
    vectors: str | None = None
    shuffle: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be in [0, 1), not {self.dropout}")


def test_a_mistyped_setting_is_answered_with_the_nearest_right_one():
    with pytest.raises(ConfigError, match=r"\[model\] has no setting 'droupout'.*'dropout'"):
        config.build(Settings, {"droupout": 0.1}, "model")


def test_a_setting_nothing_like_any_other_is_answered_with_the_list():
    with pytest.raises(ConfigError, match="it takes hidden, dropout, pooling"):
        config.build(Settings, {"zzz": 0.1}, "model")


def test_a_value_out_of_range_names_table_setting_and_value():
    with pytest.raises(ConfigError, match=r"\[model\] dropout must be in \[0, 1\), not 1.5"):
        config.build(Settings, {"dropout": 1.5}, "model")


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("hidden", "many", "a whole number"),
        ("hidden", True, "a whole number"),
        ("hidden", 2.5, "a whole number"),
        ("dropout", "0.1", "a number"),
        ("dropout", float("nan"), "a number"),
        ("dropout", float("inf"), "a number"),
        ("dropout", 10**400, "a number"),
        ("pooling", "sum", "one of 'max', 'mean'"),
        ("widths", 3, "a list of a whole number"),
        ("shuffle", 1, "true or false"),
        ("vectors", 1, "a text"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_in_words(key, value, words):
    with pytest.raises(ConfigError, match=f"{key} takes {words}, not "):
        config.build(Settings, {key: value}, "model")


def test_whole_numbers_are_numbers_and_lists_become_tuples():
    built = config.build(Settings, {"dropout": 0, "widths": [5]}, "model")
    assert built == Settings(dropout=0.0, widths=(5,))
    assert isinstance(built.dropout, float)


def test_set_reads_toml_values_and_takes_bare_words_as_text():
    tables = config.read(None, ["model.hidden=512", "model.pooling=mean", "model.widths=[2, 4]"])
    assert tables == {"model": {"hidden": 512, "pooling": "mean", "widths": [2, 4]}}


@pytest.mark.parametrize("wrong", ["hidden=3", "model.hidden", "=3", "model.=3"])
def test_set_without_table_key_or_value_is_refused(wrong):
    with pytest.raises(ConfigError, match=r"--set takes table\.key=value"):
        config.read(None, [wrong])


def test_set_wins_over_the_file(tmp_path):
    (tmp_path / "c.toml").write_text("[model]\nhidden = 1\ndropout = 0.2\n")
    tables = config.read(tmp_path / "c.toml", ["model.hidden=2"])
    assert tables == {"model": {"hidden": 2, "dropout": 0.2}}


@pytest.mark.parametrize("text", ["[model\n", "[model]\nhidden = " + "9" * 5000])
def test_a_file_that_is_not_toml_is_named(text, tmp_path):
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"c\.toml: not TOML"):
        config.read(tmp_path / "c.toml")


def test_dumped_settings_read_back_the_same():
    settings = Settings(pooling="mean", widths=(1, 2, 3), vectors='a "quoted" Ünïcode \\ path')
    table = tomllib.loads(config.dump({"model": asdict(settings)}))["model"]
    assert config.build(Settings, table, "model") == settings


def test_a_setting_that_is_none_is_left_out_and_comes_back_as_none():
    assert "vectors" not in config.dump({"model": asdict(Settings())})


@dataclass(frozen=True)
class Outer:
    name: str = "x"
    inner: Settings = Settings(hidden=7)


def test_a_table_inside_a_table_keeps_its_own_defaults_and_reads_back():
    built = config.build(Outer, {"inner": {"dropout": 0.25}}, "model")
    assert built.inner == Settings(hidden=7, dropout=0.25)
    table = tomllib.loads(config.dump({"model": asdict(built)}))["model"]
    assert config.build(Outer, table, "model") == built


def test_a_mistyped_setting_of_an_inner_table_names_the_table():
    with pytest.raises(ConfigError, match=r"\[model\.inner\] has no setting 'hiden'"):
        config.build(Renewed, {"inner": {"hiden": 1}}, "model")


@dataclass(frozen=True)
class Part:
    rate: float = 0.1
    kind: Literal["mean", "sum"] = "mean"


@dataclass(frozen=True)
class Renewed:
    inner: Part = Part()
    size: int = 1


def test_settings_that_a_system_saved_under_old_names_are_read(monkeypatch):
    rows = (
        Renamed("model.inner.speed", "model.inner.rate"),
        Renamed("model.inner.kind", "model.inner.kind", values={"average": "mean", "sum": "mean"}),
        Renamed("model.size", "model.length", ("another system",)),
    )
    monkeypatch.setattr(old_names, "RENAMED", rows)
    saved = {"inner": {"speed": 0.5, "kind": "average"}, "size": 3}
    assert config.build(Renewed, saved, "model") == Renewed(Part(0.5, "mean"), 3)
    kept = {"inner": {"kind": "sum"}}  # a value of today is not translated
    assert config.build(Renewed, kept, "model") == Renewed(Part(kind="sum"))

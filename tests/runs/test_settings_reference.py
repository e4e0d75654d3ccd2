from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import pytest

from ontodex.config import RESOLVED
from ontodex.errors import ConfigError
from ontodex.models import MODELS
from ontodex.runs.settings_reference import find_settings, format_settings, list_settings


@dataclass(frozen=True)
class Inner:
    rate: float = 0.1  # how fast


@dataclass(frozen=True)
class Base:
    size: int = 3  # how large


@dataclass(frozen=True)
class Outer(Base):
    # Above the setting,
    # on two lines.
    kind: Literal["one", "two"] = "one"
    names: tuple[str, ...] = ()  # some names
    found: int = field(default=0, metadata=RESOLVED)  # no user sets it
    inner: Inner = field(default_factory=lambda: Inner(rate=0.5))


def test_the_comment_behind_or_above_a_setting_is_its_meaning():
    found = {setting.name: setting for setting in list_settings(Outer)}
    assert list(found) == ["size", "kind", "names", "inner.rate"]
    assert found["size"].meaning == "how large"
    assert found["kind"].meaning == "Above the setting, on two lines."
    assert found["kind"].choices == ("one", "two")
    assert (found["inner.rate"].default, found["inner.rate"].meaning) == (0.5, "how fast")


def test_lines_for_a_terminal_have_defaults_as_a_config_file_writes_them():
    lines = format_settings("outer", list(list_settings(Outer))).splitlines()
    assert lines[0].split("  ")[0] == "size = 3"
    assert lines[0].endswith("  how large")
    assert lines[1].endswith("Above the setting, on two lines. [one, two]")
    assert lines[2].startswith("names = []")
    assert lines[-1] == "set one with --set model.NAME=VALUE"
    assert format_settings("popularity", []) == "popularity has no settings"


@pytest.mark.parametrize("name", [*MODELS, "labels", "train", "decide"])
def test_every_setting_has_a_meaning(name):
    assert [setting.name for setting in find_settings(name) if not setting.meaning] == []


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match="no system 'linar'; did you mean 'linear'"):
        find_settings("linar")

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from ontodex.errors import RunError
from ontodex.io import json_schema
from ontodex.io.json_schema import (
    MAX_BYTES,
    MAX_TABLE_BYTES,
    load_json,
    read_json,
    read_table,
)


@dataclass(frozen=True)
class Inner:
    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"size must be at least 1, not {self.size}")


@dataclass(frozen=True)
class Outer:
    kind: Literal["text", "sparse"]
    inner: Inner
    values: tuple[float, ...]
    settings: dict[str, Any]
    by_name: dict[str, list[int]]
    note: str | None = None


GOOD: dict[str, Any] = {
    "kind": "text",
    "inner": {"size": 3},
    "values": [1, 0.5],
    "settings": {"anything": [1]},
    "by_name": {"a": [1, 2]},
}


def write(path, value):
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_a_file_that_matches_is_read_into_the_dataclass(tmp_path):
    read = load_json(write(tmp_path / "a.json", GOOD), Outer)
    assert read == Outer("text", Inner(3), (1.0, 0.5), {"anything": [1]}, {"a": [1, 2]})
    assert all(isinstance(value, float) for value in read.values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "dense"}, "kind must be one of 'text', 'sparse', not 'dense'"),
        ({"kind": ["text"]}, "kind must be one of"),
        ({"inner": {"size": 0}}, "size must be at least 1"),
        ({"inner": {"size": True}}, "size must be a whole number, not True"),
        ({"inner": {"size": 1.5}}, "size must be a whole number"),
        ({"inner": {}}, "'size' is missing"),
        ({"inner": [1]}, "inner must be an object"),
        ({"inner": {"size": 1, "more": 2}}, "'more' is not expected"),
        ({"values": [1, "x"]}, r"values\[1\] must be a number"),
        ({"values": 1}, "values must be a list"),
        ({"values": [2**63]}, "a number that is too large"),
        ({"values": [float("nan")]}, "NaN is not finite"),
        ({"values": [float("-inf")]}, "-Infinity is not finite"),
        ({"settings": []}, "settings must be an object"),
        ({"by_name": {"a": [None]}}, r"by_name.a\[0\] must be a whole number"),
        ({"note": 3}, "note must be a text"),
    ],
)
def test_a_file_that_does_not_match_is_refused_with_the_place(tmp_path, change, message):
    with pytest.raises(RunError, match=message):
        load_json(write(tmp_path / "a.json", GOOD | change), Outer)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[1e400]", "[" * 100_000, '{"a":' * 60 + "1" + "}" * 60, '"\\ud8', "9" * 5000,
     '["\\ud800"]', '{"\\uDFFF": 1}', '"\\ude00\\ud83d"'],
)  # fmt: skip
def test_text_that_is_no_bounded_json_is_refused(tmp_path, text):
    with pytest.raises(RunError, match=r"a\.json: "):
        read_json(write(tmp_path / "a.json", text))


def test_whole_surrogate_pairs_are_read(tmp_path):
    assert read_json(write(tmp_path / "a.json", '["\\ud83d\\ude00", "\\\\ud800"]')) == [
        "😀",
        "\\ud800",
    ]


def test_bytes_that_are_not_utf_8_and_missing_files_are_refused(tmp_path):
    (tmp_path / "a.json").write_bytes(b'"\xff"')
    with pytest.raises(RunError, match=r"a\.json: cannot be read"):
        read_json(tmp_path / "a.json")
    with pytest.raises(RunError, match=r"b\.json: cannot be read"):
        read_json(tmp_path / "b.json")


def test_a_message_about_a_huge_value_is_short(tmp_path):
    with pytest.raises(RunError) as caught:
        load_json(write(tmp_path / "a.json", GOOD | {"kind": "x" * 10**6}), Outer)
    assert len(str(caught.value)) < 500


def test_a_table_is_an_object(tmp_path):
    assert read_table(write(tmp_path / "a.json", {"a": 1})) == {"a": 1}
    with pytest.raises(RunError, match="must be an object"):
        read_table(write(tmp_path / "a.json", "[]"))


@pytest.mark.parametrize(("read", "most"), [(read_json, MAX_BYTES), (read_table, MAX_TABLE_BYTES)])
def test_a_file_above_the_largest_size_is_refused_before_it_is_parsed(tmp_path, read, most):
    path = tmp_path / "metrics.json"
    with path.open("wb") as file:
        file.truncate(most + 1)  # NUL bytes, which take no disk
    with pytest.raises(RunError, match=f"more than {most // 2**20} MiB"):
        read(path)


def test_a_file_of_the_largest_size_is_parsed(tmp_path, monkeypatch):
    path = tmp_path / "metrics.json"
    path.write_text('{"a": 1}')
    monkeypatch.setattr(json_schema, "MAX_TABLE_BYTES", path.stat().st_size)
    assert read_table(path) == {"a": 1}
    monkeypatch.setattr(json_schema, "MAX_TABLE_BYTES", path.stat().st_size - 1)
    with pytest.raises(RunError, match="more than 0 MiB"):
        read_table(path)

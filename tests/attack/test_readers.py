"""The campaign against readers compares like with like."""

from __future__ import annotations

from pathlib import Path

import pytest

from attack import readers


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the numbers of arguments with which corpora are checked."""
    seen: list[int] = []

    class Report:
        text = staticmethod(str)
        to_dict = staticmethod(dict)

    def check(*arguments: object) -> Report:
        seen.append(len(arguments))
        return Report()

    monkeypatch.setattr(readers, "check", check)
    return seen


@pytest.mark.parametrize("size", [44, 45])
def test_a_reading_is_as_thorough_as_it_is_told_whatever_the_size(calls, tmp_path, size):
    """A benign file of another size than the hostile one was read in another way."""
    path = tmp_path / "docs.txt"
    path.write_bytes(b"x" * size)
    readers.read_corpus(path, None, thorough=True)
    readers.read_corpus(path, None, thorough=False)
    assert calls == [3, 1]


def test_large_files_are_compared_with_a_benign_one_that_is_read_alike(monkeypatch, tmp_path: Path):
    measured: list[tuple[str, str, bool]] = []

    def measure_cost(reading: tuple[str, str, bool], files: object, work: Path) -> readers.Cost:
        measured.append(reading)
        return readers.Cost(1.0 if reading[2] else 0.03, 10**6)  # thorough readings take longer

    # A campaign has a process of its own, so it changes what this one shares with other tests.
    monkeypatch.setenv("ONTODEX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(readers.logging, "disable", lambda level: None)
    monkeypatch.setattr(readers, "_measure_cost", measure_cost)
    monkeypatch.setattr(readers, "TARGETS", [("corpus", "jsonl")])
    readers.measure(2, 1, tmp_path, tmp_path / "out")
    assert {reading[2] for reading in measured} == {True, False}
    assert not list(tmp_path.glob("out/*")), "thirty times the time of the other reading"

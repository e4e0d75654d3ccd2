"""Bars as a terminal of 80 columns shows them."""

from __future__ import annotations

import re

import pytest

from ontodex.io import progress

CONTROL = r"\x1b\[[0-9;?]*[A-Za-z]"


@pytest.fixture(autouse=True)
def _narrow_terminal(monkeypatch):
    monkeypatch.setattr(progress, "_shown", True)
    for name, value in {"COLUMNS": "80", "TERM": "xterm", "FORCE_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)


def last_line(capsys: pytest.CaptureFixture[str]) -> str:
    drawn = re.sub(CONTROL, "", capsys.readouterr().err)
    return [line for line in re.split(r"[\r\n]+", drawn) if line.strip()][-1]


def test_a_long_description_is_cut_but_status_count_and_times_are_whole(capsys):
    bar = progress.Bar("1 of 7: pass 1, levels 1 to 4, all documents", 1_200, done=37)
    bar.set_status("loss 14.65740, 577 docs/s")
    bar.advance()
    bar.close()
    pattern = r"1 of 7: pass 1,.*… loss 14\.65740, 577 docs/s .+   38/1200 0:00:0\d [-\d]:[-:\d]{5}"
    line = last_line(capsys)
    assert re.fullmatch(pattern, line)
    assert len(line) == 80


def test_brackets_of_a_file_name_are_no_markup(capsys):
    assert list(progress.track([1], "reading [/b] a.jsonl")) == [1]
    assert last_line(capsys).startswith("reading [/b] a.jsonl ")


def test_a_bar_opened_while_another_is_drawn_is_a_line_below_it(capsys):
    outer = progress.Bar("searching", 10)
    inner = progress.Bar("solving", 4)
    inner.advance()
    outer.move_to(7)
    outer._bar.refresh()
    lines = [
        line for line in re.split(r"[\r\n]+", re.sub(CONTROL, "", capsys.readouterr().err)) if line
    ]
    assert lines[-2].startswith("searching")
    assert "7/10" in lines[-2]
    assert lines[-1].startswith("solving")
    inner.close()
    assert not inner.visible
    outer.close()
    assert list(progress.track([1], "afterwards")) == [1]
    assert last_line(capsys).startswith("afterwards")

from __future__ import annotations

import json
import os

import pytest

from ontodex.training.clock import start_clock


def test_a_first_process_has_no_earlier_seconds(tmp_path):
    assert start_clock(tmp_path) == 0


def test_a_process_counts_from_its_start_to_its_last_file_and_adds_up(tmp_path):
    """It started at 1000 after 7 seconds of others, and wrote its last file at 1030."""
    (tmp_path / "clock.json").write_text(json.dumps({"spent": 7.0, "started": 1000.0}))
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "checkpoint").write_text("")
    times = {"clock.json": 1000, "inner": 1010, "inner/checkpoint": 1030}
    for name, at in times.items():
        os.utime(tmp_path / name, (at, at))
    assert start_clock(tmp_path) == pytest.approx(37)


def test_time_between_two_processes_is_not_counted(tmp_path):
    start_clock(tmp_path)
    assert start_clock(tmp_path) < 1

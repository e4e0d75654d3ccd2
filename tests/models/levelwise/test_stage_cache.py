"""Finished stages are found again, and a killed training continues."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import levelwise_planted
import numpy as np
import pytest
import torch
from levelwise_planted import BRIEF, TEST, fit_system

from ontodex.models.levelwise.stage_cache import StageCache


def test_finished_stages_are_found_again_and_shared_by_another_merging(system, work, caplog):
    before = sorted(path.name for path in work.iterdir())
    with caplog.at_level("INFO"):
        again = fit_system(work, merge="sampling")
    finished = [line for line in caplog.messages if line.endswith("finished before")]
    assert len(finished) == 6, "two passes, each of all documents and two folds"
    assert sorted(path.name for path in work.iterdir()) == before
    for mine, theirs in zip(
        again.predict_levels(TEST)[1], system.predict_levels(TEST)[1], strict=True
    ):
        np.testing.assert_array_equal(mine.probabilities, theirs.probabilities)
    assert not any(path.name.endswith(".running") for path in work.iterdir())


def test_the_log_names_the_stage_of_each_epoch(system, work):
    lines = [json.loads(line) for line in (work / "log.jsonl").read_text().splitlines()]
    names = {line["piece"] for line in lines}
    assert {f"pass {m}{f}" for m in (1, 2) for f in ("", " fold 1", " fold 2")} <= names


def test_trainings_with_more_inputs_share_the_earlier_stages(system, work, caplog):
    with caplog.at_level("INFO"):
        fewer = fit_system(work, inputs="words+keywords")
    assert "pass 1 fold 2: finished before" in caplog.messages
    assert len(fewer.passes) == 1
    assert len(fit_system(inputs="words", train=BRIEF).passes[0].network.level(1).sets) == 0


def test_a_kill_before_checkpoints_were_removed_leaves_none_behind(tmp_path):
    def make(folder: Path | None) -> dict[str, np.ndarray]:
        assert folder is not None
        folder.mkdir(exist_ok=True)
        (folder / "log.jsonl").write_text('{"epoch": 1}\n')
        return {"a": np.ones(1)}

    stages = StageCache(tmp_path, {}, {}, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StageCache, "_remove_checkpoints", lambda *_: None)  # killed before
        stages.get_or_train("piece", make)
    assert len(list(tmp_path.glob("*.running"))) == 1
    assert stages.get_or_train("piece", make)["a"] == 1
    assert not list(tmp_path.glob("*.running"))
    assert json.loads((tmp_path / "log.jsonl").read_text()) == {"piece": "piece", "epoch": 1}


CHILD = """
    import sys
    sys.path.insert(0, sys.argv[1])
    from pathlib import Path
    import torch
    torch.set_num_threads(1)
    from levelwise_planted import CONFIG, DEV, LABELS, TRAIN, PlantedLevelwise
    import dataclasses
    from ontodex.config import vary
    out = Path(sys.argv[2])
    quick = dataclasses.replace(CONFIG.train, checkpoint_seconds=0.0)
    system = PlantedLevelwise(vary(CONFIG, train=quick, merge="pointer"))
    system.work = out / "work"
    system.work.mkdir(exist_ok=True)
    print("ready", flush=True)
    system.fit(TRAIN, DEV, LABELS)
    (out / "model").mkdir(exist_ok=True)
    system.save(out / "model")
    print("done", flush=True)
"""


def child(out: Path) -> subprocess.Popen[bytes]:
    out.mkdir(exist_ok=True)
    tests = str(Path(levelwise_planted.__file__).parent)
    script = [sys.executable, "-c", textwrap.dedent(CHILD), tests, str(out)]
    return subprocess.Popen(script, stdout=subprocess.PIPE)


@pytest.mark.slow
def test_a_training_killed_again_and_again_learns_the_same_bits_and_repeats_no_stage(tmp_path):
    """Each process is killed when it has finished one more piece, or is in the middle of one."""
    killed = tmp_path / "killed"
    kills, done = 0, False
    while not done:
        process = child(killed)
        assert process.stdout is not None
        process.stdout.readline()
        began, pieces = time.monotonic(), find_finished(killed)
        while process.poll() is None:
            moved = find_finished(killed) > pieces
            if kills < 5 and (moved or (kills % 2 and time.monotonic() - began > 3)):
                os.kill(process.pid, signal.SIGKILL)
            time.sleep(0.02)  # a random moment is the point of this test
        assert process.returncode in (0, -signal.SIGKILL)
        done = process.returncode == 0
        kills += not done
        process.stdout.close()
        assert find_finished(killed) >= pieces
    assert kills >= 2
    whole = child(tmp_path / "whole")
    assert whole.wait() == 0
    assert whole.stdout is not None
    whole.stdout.close()
    mine, theirs = (
        {p.name: p.read_bytes() for p in (tmp_path / name / "model").iterdir()}
        for name in ("killed", "whole")
    )
    assert mine == theirs


def find_finished(out: Path) -> set[str]:
    names = {path.parent.name for path in (out / "work").glob("*/arrays.index.json")}
    return {name for name in names if not name.startswith(".")}


def test_a_stage_counts_the_time_of_killed_processes(tmp_path):
    def killed(folder: Path | None) -> dict[str, np.ndarray]:
        assert folder is not None
        (folder / "checkpoint").write_text("half")
        later = time.time() + 100  # the last sign of life of a process that worked 100 seconds
        os.utime(folder / "checkpoint", (later, later))
        raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            StageCache(tmp_path, {}, {}, 1).get_or_train("pass 1", killed)
        (running,) = tmp_path.glob("*.running")
        seen = running / "clock.json"
        assert seen.exists()
        os.utime(seen)
    seconds: dict[str, float] = {}
    StageCache(tmp_path, {}, seconds, 1).get_or_train("pass 1", lambda folder: {"a": np.ones(1)})
    assert seconds["pass 1"] == pytest.approx(200, abs=50), "twice 100"
    StageCache(tmp_path, {}, again := {}, 1).get_or_train("pass 1", lambda folder: {})
    assert again["pass 1"] == pytest.approx(seconds["pass 1"])


def test_a_stage_stores_its_peak_of_gpu_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: None)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 5)
    StageCache(tmp_path, {}, {}, 1, made := {}).get_or_train(
        "pass 1", lambda folder: {"a": np.ones(1)}
    )
    found = StageCache(tmp_path, {}, {}, 1, again := {}).get_or_train("pass 1", lambda folder: {})
    assert made == again == {"pass 1": 5}
    assert found.keys() == {"a"}


def test_a_stage_trained_without_a_gpu_has_no_peak(tmp_path):
    StageCache(tmp_path, {}, {}, 1).get_or_train("pass 1", lambda folder: {"a": np.ones(1)})
    found = StageCache(tmp_path, {}, {}, 1, memory := {}).get_or_train("pass 1", lambda folder: {})
    assert memory == {}
    assert found.keys() == {"a"}

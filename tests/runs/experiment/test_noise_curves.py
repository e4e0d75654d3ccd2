"""Curves over label noise."""

from __future__ import annotations

import json

from ontodex.runs.experiment.execute import run_experiment
from small_experiment import PLAN, plan

NOISY = PLAN.replace('test.jsonl"\n', 'test.jsonl"\nmissing = [0.4, 0.8]\ninvalid = [0.5]\n', 1)


def test_label_noise_is_a_curve_over_runs_with_noisy_training_labels_only(root, tmp_path):
    out = tmp_path / "out"
    results = run_experiment(plan(tmp_path, NOISY), out, root=root)
    assert sorted(p.name for p in (out / "runs").iterdir()) == [
        "small", "small-invalid-0.5", "small-missing-0.4", "small-missing-0.8",
    ]  # fmt: skip
    about = {
        p.parent.parent.name: json.loads(p.read_text())
        for p in (out / "runs").glob("*/near/manifest.json")
    }
    assert len({a["train"]["key"] for a in about.values()}) == 4
    assert len({a["dev"]["key"] for a in about.values()}) == 1
    assert [section.corpus for section in results.sections] == ["small"]
    assert [(c.noise, sorted(c.sections)) for c in results.curves] == [
        ("missing", [0.0, 0.4, 0.8]),
        ("invalid", [0.0, 0.5]),
    ]
    metrics = json.loads((out / "runs/small-missing-0.8/near/metrics.json").read_text())
    head, *rows = results.curves[0].table("P@1")
    assert head == ["P@1", "0 %", "40 %", "80 %"]
    assert {row[0]: row[3] for row in rows}["near"] == f"{100 * metrics['P@1']:.2f}"
    assert "A & B" not in {row[0] for row in rows}, "nobody published it under noise"
    assert "![small, missing labels](noise-small-missing.svg)" in (out / "results.md").read_text()


def test_the_picture_of_a_curve_has_the_same_bytes_each_time(root, tmp_path):
    out = tmp_path / "out"
    results = run_experiment(plan(tmp_path, NOISY), out, root=root)
    picture = out / "noise-small-invalid.svg"
    before = picture.read_bytes()
    assert b"<svg" in before
    picture.unlink()
    results.curves[1].draw(out)
    assert picture.read_bytes() == before

from __future__ import annotations

import json

import torch

from ontodex.training.log import TrainingLog


def test_epochs_that_a_kill_undid_are_logged_once(tmp_path):
    undone = ['{"epoch": 0, "loss": 7}', '{"epoch": 1, "loss": 7}', '{"epoch": 2, "lo']
    (tmp_path / "log.jsonl").write_text("\n".join(undone))
    with TrainingLog(tmp_path, 9, 3, epoch=1) as log:
        log.log_epoch(1, [torch.tensor(5.0)], None, 0, {})
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [(line["epoch"], line["loss"]) for line in lines] == [(0, 7), (1, 5)]

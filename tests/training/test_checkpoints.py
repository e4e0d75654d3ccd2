from __future__ import annotations

import pytest
import torch

from ontodex.errors import RunError
from ontodex.training.checkpoints import NAME, has_checkpoint, read_checkpoint, write_checkpoint


def test_tensors_and_description_come_back(tmp_path):
    assert not has_checkpoint(tmp_path)
    write_checkpoint(tmp_path, {"w": torch.arange(3.0)}, {"step": 4})
    assert has_checkpoint(tmp_path)
    tensors, about = read_checkpoint(tmp_path)
    assert tensors["w"].tolist() == [0, 1, 2]
    assert about == {"step": 4}


def test_bf16_tensors_come_back_with_the_same_bits(tmp_path):
    values = torch.randn(4, 3).bfloat16()
    write_checkpoint(tmp_path, {"half": values, "whole": torch.ones(2)}, {"step": 4})
    tensors, about = read_checkpoint(tmp_path)
    assert tensors["half"].dtype == torch.bfloat16
    assert torch.equal(tensors["half"], values)
    assert tensors["whole"].dtype == torch.float32
    assert about == {"step": 4}


def test_a_bf16_value_that_is_not_finite_is_refused(tmp_path):
    write_checkpoint(tmp_path, {"half": torch.tensor([float("inf")]).bfloat16()}, {})
    with pytest.raises(RunError, match="not finite"):
        read_checkpoint(tmp_path)


def test_a_damaged_checkpoint_is_named_with_a_way_out(tmp_path):
    (tmp_path / NAME).write_bytes(b"not safetensors")
    with pytest.raises(RunError, match="not a readable checkpoint") as caught:
        read_checkpoint(tmp_path)
    assert caught.value.hint == "remove it to start this training from scratch"


def test_a_checkpoint_with_values_that_are_not_finite_is_refused(tmp_path):
    write_checkpoint(tmp_path, {"w": torch.tensor([1.0, float("nan")])}, {})
    with pytest.raises(RunError, match="not finite"):
        read_checkpoint(tmp_path)

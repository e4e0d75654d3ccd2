from __future__ import annotations

import pytest
import torch
from torch import nn

from ontodex.training.sparse_gradients import clip_grad_norm

N_ROWS = 9


def sparse_grad(rows: list[int], values: torch.Tensor) -> torch.Tensor:
    shape = (N_ROWS, values.shape[1])
    return torch.sparse_coo_tensor(torch.tensor([rows]), values, shape, check_invariants=True)


def test_the_norm_is_that_of_the_whole_gradient():
    layer, table = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(N_ROWS, 2))
    layer.grad = torch.tensor([3.0, 0.0])
    table.grad = sparse_grad([1, 7], torch.tensor([[0.0, 4.0], [0.0, 12.0]])).coalesce()
    # sqrt(9 + 16 + 144) = 13; clipped to 6.5, everything is halved.
    assert clip_grad_norm([layer, table], 6.5).item() == pytest.approx(13)
    assert layer.grad.tolist() == pytest.approx([1.5, 0])
    assert table.grad.to_dense()[7].tolist() == pytest.approx([0, 6])


def test_clipping_without_tables_is_that_of_torch_to_the_bit():
    grads = [torch.randn(5, 3), torch.randn(7)]
    mine, theirs = ([nn.Parameter(torch.zeros_like(g)) for g in grads] for _ in range(2))
    for group in (mine, theirs):
        for parameter, grad in zip(group, grads, strict=True):
            parameter.grad = grad.clone()
    assert torch.equal(clip_grad_norm(mine, 0.7), nn.utils.clip_grad_norm_(theirs, 0.7))
    for a, b in zip(mine, theirs, strict=True):
        assert torch.equal(a.grad, b.grad)

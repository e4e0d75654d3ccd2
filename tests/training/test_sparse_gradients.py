from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from ontodex.training.sparse_gradients import all_reduce_gradients, clip_grad_norm

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


@pytest.fixture
def group_of_one() -> Iterator[None]:
    """A process group of this process alone."""
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def with_grad(values: list[float] | None) -> nn.Parameter:
    parameter = nn.Parameter(torch.zeros(2))
    parameter.grad = None if values is None else torch.tensor(values)
    return parameter


def test_a_gradient_that_is_not_finite_in_one_shard_reaches_the_shared_ones(group_of_one):
    shared, own = with_grad([1.0, 2.0]), with_grad([torch.inf, 0.0])
    all_reduce_gradients([shared], set(), [with_grad([3.0, 4.0])])
    assert shared.grad.tolist() == [1.0, 2.0]
    all_reduce_gradients([shared], set(), [own])
    assert not torch.isfinite(shared.grad).any()


def test_a_parameter_without_a_gradient_in_any_process_has_none_afterwards(group_of_one):
    used, unused = with_grad([1.0, 2.0]), with_grad(None)
    all_reduce_gradients([used, unused], set())
    assert used.grad.tolist() == [1.0, 2.0]
    assert unused.grad is None


def test_the_norm_counts_the_rows_of_all_shards(group_of_one):
    shared, own = with_grad([3.0, 0.0]), with_grad([0.0, 4.0])
    assert clip_grad_norm([shared], 2.5, [own]).item() == pytest.approx(5)
    assert shared.grad.tolist() == pytest.approx([1.5, 0])
    assert own.grad.tolist() == pytest.approx([0, 2])

"""The processes of one training, as torchrun starts them: what they agree on, and work that rank 0
does for all."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ontodex.errors import RunError

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")


def world() -> tuple[int, int]:
    """Return (rank, number of processes): (0, 1) without torchrun, which then loads no torch."""
    n_processes = int(os.environ.get("WORLD_SIZE", "1"))
    if n_processes == 1:
        return 0, 1
    import torch
    import torch.distributed as dist

    if not dist.is_initialized():
        backend = "gloo"
        if torch.cuda.is_available():
            # From here on "cuda" is the GPU of this process.
            n_gpus = torch.cuda.device_count()
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % n_gpus)
            backend = choose_backend(n_gpus)
        dist.init_process_group(backend)
        atexit.register(_leave_group)
    return dist.get_rank(), dist.get_world_size()


def choose_backend(n_gpus: int) -> str:
    """Return the backend of processes with GPUs: NCCL refuses two processes on one GPU, and gloo
    copies through main memory. Barriers on the CPU use gloo."""
    n_local = int(os.environ.get("LOCAL_WORLD_SIZE") or os.environ["WORLD_SIZE"])
    return "gloo" if n_local > n_gpus else "cpu:gloo,cuda:nccl"


def _leave_group() -> None:
    """Destroy the process group: its threads would abort the process when Python ends."""
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()


def is_rank_zero() -> bool:
    """Tell whether this is the process that writes files."""
    return world()[0] == 0


def any_process(*flags: bool) -> list[bool]:
    """Tell for each flag whether it is True in any process; all get the same answer."""
    if world()[1] == 1:
        return list(flags)
    import torch
    import torch.distributed as dist

    highest = torch.tensor([int(flag) for flag in flags])
    dist.all_reduce(highest, op=dist.ReduceOp.MAX)
    return [bool(flag) for flag in highest]


def sum_over_processes(value: Tensor) -> Tensor:
    """Return the sum of a tensor over all processes, in all of them."""
    if world()[1] > 1:
        import torch.distributed as dist

        value = value.clone()
        dist.all_reduce(value)
    return value


def take_from_rank_zero(value: float) -> float:
    """Return the value of the first process. Processors round differently, and all must agree."""
    if world()[1] == 1:
        return value
    import torch
    import torch.distributed as dist

    common = torch.tensor([value], dtype=torch.float64)
    dist.broadcast(common, src=0)
    return float(common)


def on_rank_zero(work: Callable[[], T], what: str) -> T | None:
    """Call `work()` in the first process only and return its result; the others return None.

    All processes wait for each other before and after. Where the work fails, the others raise a
    RunError that the first process could not do `what`.
    """
    rank, n_processes = world()
    if n_processes == 1:
        return work()
    import torch
    import torch.distributed as dist

    done = torch.zeros(1, dtype=torch.int64)
    dist.all_reduce(done)  # a barrier
    result = None
    try:
        if rank == 0:
            result = work()
            done += 1
    finally:  # also after a failure, or the others would wait forever
        dist.broadcast(done, src=0)
    if not done.item():
        raise RunError(f"the first process could not {what}", hint="its own message says why")
    return result

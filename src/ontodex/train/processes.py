"""The processes of one training, as torchrun starts them, and what the first does for all."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from typing import TypeVar

from ontodex.errors import RunError

T = TypeVar("T")


def world() -> tuple[int, int]:
    """(rank, processes) under torchrun, else (0, 1). torch is loaded only under torchrun."""
    n_processes = int(os.environ.get("WORLD_SIZE", "1"))
    if n_processes == 1:
        return 0, 1
    import torch
    import torch.distributed as dist

    if not dist.is_initialized():
        backend = "gloo"
        if torch.cuda.is_available():
            # From here on "cuda" is a process's own GPU; they still wait for each other by gloo.
            torch.cuda.set_device(
                int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count()
            )
            backend = "cpu:gloo,cuda:nccl"
        dist.init_process_group(backend)
        atexit.register(_part)
    return dist.get_rank(), dist.get_world_size()


def _part() -> None:
    """Threads of a group that is still there when Python ends would abort the process."""
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()


def is_first() -> bool:
    return world()[0] == 0


def by_the_first(work: Callable[[], T], what: str) -> T | None:
    """What `work()` gives, done once, by the first process, when all have come here; the others
    wait until it is done, get None, and fail where it fails: it could not do `what`."""
    rank, n_processes = world()
    if n_processes == 1:
        return work()
    import torch
    import torch.distributed as dist

    done = torch.zeros(1, dtype=torch.int64)
    dist.all_reduce(done)  # nobody goes on before all are here
    given = None
    try:
        if rank == 0:
            given = work()
            done += 1
    finally:  # told when the work failed too: nobody waits in vain
        dist.broadcast(done, src=0)
    if not done.item():
        raise RunError(f"the first process could not {what}", hint="its own message says why")
    return given

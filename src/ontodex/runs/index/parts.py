"""Make the parts of a folder that are missing, whichever engine computes them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from threading import Event, Thread

from ontodex.errors import DataError
from ontodex.io.counts import format_count
from ontodex.io.progress import Bar
from ontodex.io.storage import list_files, remove
from ontodex.runs.index.inputs import Input
from ontodex.runs.index.resume import PartRecord, PartsFolder
from ontodex.runs.index.shard import ShardTask, SliceResult

logger = logging.getLogger(__name__)

SECONDS = 5  # between two looks at the finished blocks

Compute = Callable[[ShardTask, Sequence[Input]], Iterator[SliceResult]]


def make_parts(shard: ShardTask, inputs: Sequence[Input], compute: Compute) -> list[PartRecord]:
    """Index the inputs whose part is missing or older; return the records of all of them.

    An input that cannot be read does not keep the others from being indexed.
    """
    folder = shard.folder
    folder.claim(shard.plan)
    ledger, parts = folder.read_ledger(), folder.list_parts()
    missing = [
        input
        for input in inputs
        if f"{input.name}.{shard.plan.to}" not in parts
        or input.name not in ledger
        or not ledger[input.name].is_of(input)
    ]
    if missing:
        _compute(shard, missing, compute, n_done=len(inputs) - len(missing))
        ledger = folder.read_ledger()
    remove(folder.work)
    return [ledger[input.name] for input in inputs]


def _compute(shard: ShardTask, missing: Sequence[Input], compute: Compute, *, n_done: int) -> None:
    errors: dict[Input, DataError] = {}
    n_slices: Counter[Input] = Counter()
    bar = Bar("indexing inputs", n_done + len(missing), done=n_done)
    ended = Event()
    if bar.visible:
        Thread(target=_show_blocks, args=(bar, shard.folder, ended), daemon=True).start()
    try:
        for slice, warnings, error in compute(shard, missing):
            if error is not None:
                errors[slice.input] = error
            if slice.first == 0:
                for warning in warnings:
                    logger.warning("%s", warning)
            n_slices[slice.input] += 1
            if n_slices[slice.input] == slice.step:
                remove(shard.blocks_of(slice.input))
                bar.advance()
    finally:
        ended.set()
        bar.close()
    if errors:
        first = next(iter(errors.values()))
        if len(errors) == 1:
            raise first
        raise DataError(
            f"{len(errors):,} inputs cannot be read, among them: {first}",
            hint="correct or remove them and start the same command again; the others are indexed",
        ) from first


def _show_blocks(bar: Bar, folder: PartsFolder, ended: Event) -> None:
    """Show beside the bar how many blocks of unfinished inputs are finished, now and then."""
    while not ended.wait(SECONDS):
        bar.set_status(f"{format_count(len(list_files(folder.work)), 'block')}")

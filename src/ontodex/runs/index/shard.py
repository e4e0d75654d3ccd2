"""Index one input, in a worker: read it, compute its blocks, write its part and its record.

Workers share nothing but the folder of parts: they get the name of an input and read it
themselves. Where there are fewer inputs than workers, several read the same input, and each
computes only some of its blocks; the one that finds all blocks finished writes the part.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ontodex import __version__
from ontodex.corpora.field_mapping import FieldMapping
from ontodex.corpora.open import DocReader, read_docs
from ontodex.errors import DataError
from ontodex.io.captured_warnings import capture_warnings
from ontodex.io.files import open_atomic
from ontodex.io.storage import fetch_file, get_name, is_remote, join, list_files, remove, store_file
from ontodex.runs.documents import choose_mapping
from ontodex.runs.index.admission import Admission
from ontodex.runs.index.block import Task, compute_block
from ontodex.runs.index.inputs import Input
from ontodex.runs.index.resume import JobPlan, PartRecord, PartsFolder
from ontodex.runs.index.table import read_stored, write_table


class Slice(NamedTuple):
    """The blocks of an input that one worker computes: `first`, `first + step`, and so on."""

    input: Input
    first: int = 0
    step: int = 1


def make_slices(inputs: Sequence[Input], workers: int) -> list[Slice]:
    """Divide inputs among workers; where there are fewer inputs than workers, each in slices."""
    step = -(-workers // len(inputs))
    return [Slice(input, first, step) for input in inputs for first in range(step)]


@dataclass(frozen=True)
class ShardTask:
    """The settings with which every input of a job is indexed."""

    task: Task
    plan: JobPlan
    folder: PartsFolder
    mapping: FieldMapping

    def blocks_of(self, input: Input) -> str:
        """Return the folder of the finished blocks of an input."""
        return self.folder.blocks(self.plan.make_key(input))


class SliceResult(NamedTuple):
    """A worker's report; `error` is set where the input cannot be read."""

    slice: Slice
    warnings: list[str]
    error: DataError | None = None


def index_slice(shard: ShardTask, slice: Slice) -> SliceResult:
    """Compute the missing blocks of a slice; write the part if no block of the input is missing.

    The same slice may be computed again at any time, and by several workers at once.
    """
    place = slice.input.location
    with capture_warnings() as warnings:
        try:
            with fetch_file(place) as path:
                _index(shard, slice, path, warnings)
        except DataError as error:
            # Other inputs are indexed nevertheless; the command reports this one in the end.
            named = DataError(f"{place}: {error}", hint=error.hint) if is_remote(place) else error
            return SliceResult(slice, warnings, named)
    return SliceResult(slice, warnings)


def _index(shard: ShardTask, slice: Slice, path: Path, warnings: list[str]) -> None:
    work = shard.blocks_of(slice.input)
    finished = {file.name for file in list_files(work)}
    with tempfile.TemporaryFile() as rejects:
        run = shard.task.load_run()
        reader = read_docs(path, mapping=choose_mapping(path, shard.mapping, run.about))
        admission = Admission(reader, rejects, get_name(slice.input.location))
        n_blocks = 0
        for docs in admission.read_blocks(shard.plan.block):
            name = _name_block(n_blocks)
            if n_blocks % slice.step == slice.first and name not in finished:
                block = compute_block(shard.task, docs, reader.n_features)
                with store_file(join(work, name)) as file, open_atomic(file) as sink:
                    sink.write(block)
            n_blocks += 1
        names = [_name_block(number) for number in range(n_blocks)]
        if not set(names) <= {file.name for file in list_files(work)}:
            return  # another worker computes them, and it will write the part
        rejects.seek(0)
        shard.folder.drop_record(slice.input)
        _write_part(shard, slice.input, names)
        listed = shard.folder.rejects(slice.input.name)
        if admission.n_rejected:
            with store_file(listed) as file, open_atomic(file) as sink:
                sink.writelines(rejects)
        else:
            remove(listed)  # those of an earlier version of the input
        shard.folder.write_record(_describe(shard, slice.input, reader, admission, warnings))


def _name_block(number: int) -> str:
    return f"{number:06}.arrow"


def _write_part(shard: ShardTask, input: Input, names: list[str]) -> None:
    """Join the finished blocks, in order, to the part of the input."""
    blocks = (join(shard.blocks_of(input), name) for name in names)
    with store_file(shard.folder.part(input.name, shard.plan.to)) as out:
        write_table((rows for block in blocks for rows in read_stored(block)), out)


def _describe(
    shard: ShardTask, input: Input, reader: DocReader, admission: Admission, warnings: list[str]
) -> PartRecord:
    return PartRecord(
        input=input.name,
        location=input.location,
        size=input.size,
        version=input.version,
        run=shard.plan.run,
        ontodex=__version__,
        documents=admission.n_docs,
        rejected=admission.n_rejected,
        has_ids=reader.has_ids,
        deleted=sorted(reader.deleted),
        warnings=warnings,
    )

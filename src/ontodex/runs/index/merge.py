"""Merge parts to one table with the current record of each id.

Parts are in the order of their names. A record is outdated if a later part has one with the same
id, or if its id is among those that a later part deletes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ontodex.errors import DataError, RunError
from ontodex.io.storage import join, store_file
from ontodex.runs.index.resume import PartRecord, PartsFolder
from ontodex.runs.index.table import read_stored, write_table

Masks = dict[str, NDArray[np.bool_]]  # by part: which of its rows are current


def merge_parts(
    folder: PartsFolder, to: str, out: str, names: Collection[str] | None = None
) -> int:
    """Write the current records of all finished parts to the table `out`; return how many are not.

    Only the parts of `names`, if they are given. Memory is 17 bytes for each record, besides the
    rows of one block and the ids of the largest part.
    """
    ledger = folder.read_ledger()
    if names is None:
        _check_finished(folder, to, ledger)
    records = [ledger[name] for name in ledger if names is None or name in names]
    for record in records:
        if not record.has_ids and len(records) > 1:
            raise no_ids_error(record.location)
    current = _find_current(folder, to, records)
    with store_file(out) as path:
        write_table(_read_current(folder, to, records, current), path)
    return sum(int((~mask).sum()) for mask in current.values())


def _check_finished(folder: PartsFolder, to: str, ledger: Collection[str]) -> None:
    """Raise a RunError for a part that a killed job replaced without finishing it."""
    for part in sorted(folder.list_parts()):
        if part.removesuffix(f".{to}") not in ledger:
            raise RunError(
                f"{join(folder.location, 'parts', part)}: a killed job did not finish this part",
                hint="index its input again, without --since, or remove the part",
            )


def no_ids_error(location: str) -> DataError:
    """Return the error for an input that cannot be merged with others."""
    return DataError(
        f"{location}: its documents have no ids, so they cannot be distinguished from those of "
        "other inputs in one table",
        hint="name the column with --id-field, or index into a folder and merge nothing",
    )


def _find_current(folder: PartsFolder, to: str, records: Sequence[PartRecord]) -> Masks:
    """Return the rows that are current, for the parts that have others too."""
    if len(records) < 2:
        return {}
    hashes = [_hash(_read_ids(folder, to, record), record.documents) for record in records]
    deleted = [_hash(iter(record.deleted), len(record.deleted)) for record in records]
    every = np.concatenate(hashes + deleted)
    every.sort()
    repeated = np.unique(every[1:][every[1:] == every[:-1]])
    del every
    # Only ids whose hash occurs twice are compared as texts.
    suspects: dict[str, list[tuple[int, str]]] = {}
    latest: dict[str, int] = {}
    for order, (record, hashed) in enumerate(zip(records, hashes, strict=True)):
        rows = np.flatnonzero(np.isin(hashed, repeated))
        if len(rows):
            ids = list(_read_ids(folder, to, record))
            suspects[record.input] = [(row, ids[row]) for row in rows.tolist()]
            latest |= dict.fromkeys((id_ for _, id_ in suspects[record.input]), order)
        latest |= dict.fromkeys(record.deleted, order)
    masks: Masks = {}
    for order, record in enumerate(records):
        found = suspects.get(record.input, [])
        outdated = [row for row, id_ in found if latest[id_] != order]
        if outdated:
            masks[record.input] = np.ones(record.documents, dtype=bool)
            masks[record.input][outdated] = False
    return masks


def _hash(ids: Iterator[str], count: int) -> NDArray[np.int64]:
    return np.fromiter(map(hash, ids), np.int64, count)


def _read_ids(folder: PartsFolder, to: str, record: PartRecord) -> Iterator[str]:
    for table in read_stored(folder.part(record.input, to), ["id"]):
        yield from table["id"].to_pylist()


def _read_current(
    folder: PartsFolder, to: str, records: Sequence[PartRecord], current: Masks
) -> Iterator[Any]:
    """Yield the current rows of all parts, in order."""
    for record in records:
        mask, start = current.get(record.input), 0
        for table in read_stored(folder.part(record.input, to)):
            end = start + table.num_rows
            yield table if mask is None else table.filter(pa.array(mask[start:end]))
            start = end

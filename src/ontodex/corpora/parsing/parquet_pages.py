"""Measure the pages of a Parquet file without unpacking them.

The footer of a Parquet file states sizes too, but the reader goes by the header of each page. So
only these tell how much memory a hostile file takes.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any, NamedTuple

import pyarrow.parquet as pq

from ontodex.errors import DataError
from ontodex.io.files import open_regular

VALUE = 16  # bytes of memory, at least, for each value: repeated values take almost none on disk
_WINDOW = 2**16  # bytes in which the header of a page usually ends
_MAX_HEADER = 2**24  # Arrow's own limit
_MAX_DEPTH = 32  # structures in structures
_DICTIONARY_PAGE = 2
_DATA_HEADERS = (5, 8)  # ids of the fields with the number of values, in both versions of pages

# Types of the compact protocol of Thrift, in which headers are written.
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_INTEGERS = (4, 5, 6)


class ColumnSize(NamedTuple):
    """The memory that a column takes, and how it is stored."""

    n_bytes: int
    has_dictionary: bool


def measure_columns(file: pq.ParquetFile, path: Path) -> dict[str, ColumnSize]:
    """Return the size of each column, by its path in the schema, in all row groups together."""
    sizes: dict[str, ColumnSize] = {}
    with open_regular(path) as raw:
        for group in range(file.metadata.num_row_groups):
            row_group = file.metadata.row_group(group)
            for number in range(row_group.num_columns):
                leaf = file.schema.column(number)
                width = max(VALUE, leaf.length or 0)
                found = _measure_chunk(raw, row_group.column(number), width, path)
                known = sizes.get(leaf.path, ColumnSize(0, False))
                sizes[leaf.path] = ColumnSize(
                    known.n_bytes + found.n_bytes, known.has_dictionary or found.has_dictionary
                )
    return sizes


def _measure_chunk(raw: IO[bytes], chunk: Any, width: int, path: Path) -> ColumnSize:
    """Return the size of one column of a row group; each value takes at least `width` bytes."""
    first = chunk.dictionary_page_offset or chunk.data_page_offset
    place = min(first, chunk.data_page_offset)
    end = place + chunk.total_compressed_size
    n_bytes, has_dictionary = 0, False
    while place < end:
        header, length = _read_header(raw, place, path)
        details = [header.get(id_) or {} for id_ in _DATA_HEADERS]
        counts = [one.get(1, 0) for one in details if isinstance(one, dict)]
        sizes = (header.get(2), header.get(3), *counts)
        if len(counts) < len(details) or not all(isinstance(n, int) and n >= 0 for n in sizes):
            raise _header_error(path, place)
        n_bytes += header[2] + width * sum(counts)
        has_dictionary |= header.get(1) == _DICTIONARY_PAGE
        place += length + header[3]
    return ColumnSize(n_bytes, has_dictionary)


def _read_header(raw: IO[bytes], place: int, path: Path) -> tuple[dict[int, Any], int]:
    """Return the header of the page at `place` and its length in bytes."""
    window = _WINDOW
    while window <= _MAX_HEADER:
        raw.seek(place)
        data = raw.read(window)
        reader = _CompactReader(data)
        try:
            return reader.read_struct(), reader.at
        except IndexError:  # longer than the window
            if len(data) < window:
                break
            window *= 16
        except (ValueError, TypeError):
            break
    raise _header_error(path, place)


def _header_error(path: Path, place: int) -> DataError:
    return DataError(f"damaged: the header of the page at byte {place:,} is not one", path=path)


class _CompactReader:
    """Reads structures from bytes; integers and structures are kept, other values skipped."""

    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0

    def read_struct(self, depth: int = 0) -> dict[int, Any]:
        """Return the fields of a structure by their ids; an IndexError if the data ends before."""
        if depth > _MAX_DEPTH:
            raise ValueError("nested too deep")
        found: dict[int, Any] = {}
        id_ = 0
        while head := self._read_byte():
            delta, kind = head >> 4, head & 15
            id_ = id_ + delta if delta else self._read_integer()
            found[id_] = None if kind in (_TRUE, _FALSE) else self._read_value(kind, depth)
        return found

    def _read_value(self, kind: int, depth: int) -> Any:
        if kind in _INTEGERS:
            return self._read_integer()
        if kind == _STRUCT:
            return self.read_struct(depth + 1)
        if kind == _BINARY:
            return self._skip(self._read_varint())
        if kind in (_TRUE, _FALSE, _BYTE):  # in lists, truth values take a byte too
            return self._skip(1)
        if kind == _DOUBLE:
            return self._skip(8)
        if kind in (_LIST, _SET):
            head = self._read_byte()
            count = head >> 4 if head >> 4 < 15 else self._read_varint()
            return self._skip_values((head & 15,), count, depth)
        if kind == _MAP:
            count = self._read_varint()
            kinds = self._read_byte() if count else 0
            return self._skip_values((kinds >> 4, kinds & 15), count, depth)
        raise ValueError(f"no type {kind}")

    def _skip_values(self, kinds: tuple[int, ...], count: int, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise ValueError("nested too deep")
        for _ in range(count):  # each takes at least a byte, so the data ends before long
            for kind in kinds:
                self._read_value(kind, depth + 1)

    def _read_byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _read_varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._read_byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > 63:
                raise ValueError("a number of more than 64 bits")

    def _read_integer(self) -> int:
        value = self._read_varint()
        return (value >> 1) ^ -(value & 1)

    def _skip(self, n_bytes: int) -> None:
        self.at += n_bytes
        if self.at > len(self._data):
            raise IndexError

"""Parquet files of a few kilobytes that stand for gigabytes are refused, not unpacked."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arrow_memory import measure_arrow
from ontodex.corpora.open import read_docs
from ontodex.corpora.parsing.parquet_pages import VALUE, measure_columns
from ontodex.errors import DataError
from ontodex.io.files import FREE_TABLE, MAX_LINE


def repeat(text: str, times: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), times), [text])


def write(path: Path, **columns: object) -> None:
    """Write a table that says of no column that it has a dictionary."""
    pq.write_table(pa.table(columns), path, compression="zstd", store_schema=False)


def write_long_text(path: Path) -> None:
    write(path, id=["1"], text=["x" * (2 * FREE_TABLE)])


def write_repeated_text(path: Path) -> None:
    write(path, text=repeat("x" * 2**20, 300))


def write_repeated_metadata(path: Path) -> None:
    inner = pa.ListArray.from_arrays([0, 300], repeat("x" * 2**20, 300))
    write(path, text=["a"], nested=pa.StructArray.from_arrays([inner], ["inner"]))


def write_many_labels(path: Path) -> None:
    write(path, text=["a"], labels=pa.ListArray.from_arrays([0, 5_000_000], repeat("a", 5_000_000)))


def write_many_numbers(path: Path) -> None:
    numbers = pa.ListArray.from_arrays([0, 5_000_000], pa.repeat(1, 5_000_000))
    write(path, text=["a"], numbers=numbers)


def write_wide_values(path: Path) -> None:
    """Values of a fixed width in a dictionary."""
    width = 2**20
    cells = pa.DictionaryArray.from_arrays(
        pa.repeat(pa.scalar(0, pa.int32()), 300), pa.array([b"x" * width], pa.binary(width))
    )
    write(path, text=["a"] * 300, wide=cells)


BOMBS = [write_long_text, write_repeated_text, write_repeated_metadata, write_many_labels,
         write_many_numbers, write_wide_values]  # fmt: skip


@pytest.mark.parametrize("write_bomb", BOMBS)
def test_a_bomb_is_refused_in_little_memory(write_bomb, tmp_path: Path) -> None:
    path = tmp_path / "docs.parquet"
    write_bomb(path)
    assert path.stat().st_size < 50_000
    with measure_arrow() as pool, pytest.raises(DataError, match="decompression bomb"):
        list(read_docs(path))
    assert pool.max_memory() < FREE_TABLE / 2


def find_number(number: int) -> bytes:
    """Return a number as Thrift's compact protocol writes it."""
    value, found = 2 * number, b""
    while value > 127:
        found += bytes([value & 127 | 128])
        value >>= 7
    return found + bytes([value])


def test_a_bomb_with_a_footer_that_lies_is_refused_too(tmp_path: Path) -> None:
    path = tmp_path / "docs.parquet"
    write_long_text(path)
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(1)
    data = path.read_bytes()
    true = find_number(chunk.total_uncompressed_size)
    start = data.rindex(true)
    lie = true[:-1] + b"\x00"  # without its highest bits
    path.write_bytes(data[:start] + lie + data[start + len(true) :])
    assert pq.ParquetFile(path).metadata.row_group(0).column(1).total_uncompressed_size < FREE_TABLE
    with pytest.raises(DataError, match="decompression bomb"):
        list(read_docs(path))


def test_what_is_large_by_itself_is_read(tmp_path: Path) -> None:
    """At the limit: repeated texts of just less than 64 MiB, and long rows in small batches."""
    path = tmp_path / "docs.parquet"
    write(path, text=repeat("x" * 2**20, FREE_TABLE // 2**20 - 1))
    assert len(list(read_docs(path))) == FREE_TABLE // 2**20 - 1
    write(path, text=repeat("x" * 2**20, FREE_TABLE // 2**20))
    with pytest.raises(DataError, match="takes more than 64 MiB of memory, over 200 times"):
        list(read_docs(path))


def test_a_row_longer_than_a_line_may_be_is_refused_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "docs.parquet"
    rows = [["a"], [str(number) for number in range(MAX_LINE // (VALUE + 3))]]
    pq.write_table(pa.table({"text": ["a", "b"], "labels": rows}), path, use_dictionary=False)
    with pytest.raises(DataError, match=r"docs.parquet:2: a row of more than 64 MiB"):
        list(read_docs(path))


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_the_pages_of_a_file_are_measured_one_by_one(version: str, tmp_path: Path) -> None:
    path = tmp_path / "docs.parquet"
    columns = {"text": [f"word {n}" for n in range(5_000)], "number": list(range(5_000))}
    pq.write_table(
        pa.table(columns), path, row_group_size=2_000, data_page_size=1_000,
        data_page_version=version, compression="gzip", use_dictionary=["text"],
    )  # fmt: skip
    sizes = measure_columns(pq.ParquetFile(path), path)
    assert [sizes["text"].has_dictionary, sizes["number"].has_dictionary] == [True, False]
    assert 5_000 * (VALUE + 8) <= sizes["number"].n_bytes < 5_000 * (VALUE + 9)


def test_a_page_header_that_is_none_is_a_data_error(tmp_path: Path) -> None:
    path = tmp_path / "docs.parquet"
    pq.write_table(pa.table({"text": ["a"] * 10}), path)
    data = bytearray(path.read_bytes())
    for damage in (b"\xff" * 12, b"\x15\x01\x15\x01\x15\x01", b"\xf9" * 12, b"\x1c" * 12):
        data[4 : 4 + len(damage)] = damage
        path.write_bytes(bytes(data))
        with pytest.raises(DataError, match="header of the page at byte 4 "):
            list(read_docs(path))

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from arrow_memory import measure_arrow
from ontodex.errors import DataError
from ontodex.types import Corpus, Doc
from ontodex.types.record_batches import SCHEMA


def rewrite(folder: Path, **options: object) -> None:
    """Write docs.arrow again, with options of Arrow."""
    path = str(folder / "docs.arrow")
    with pa.OSFile(path, "rb") as source:
        table = pa.ipc.open_file(source).read_all()
    chosen = pa.ipc.IpcWriteOptions(**options)
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, SCHEMA, options=chosen) as writer:
        writer.write_table(table)


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_compressed_buffers_are_refused_before_they_are_unpacked(compression, tmp_path):
    Corpus.write([Doc("1", {"text": "a " * 5_000_000})], tmp_path / "c")
    rewrite(tmp_path / "c", compression=compression)
    with measure_arrow() as pool, pytest.raises(DataError, match="arrow is compressed"):
        Corpus.open(tmp_path / "c")
    assert pool.max_memory() < 2**20


def test_an_older_version_of_arrow_is_refused(tmp_path):
    Corpus.write([Doc("1", {"text": "a"})], tmp_path / "c")
    rewrite(tmp_path / "c", metadata_version=pa.ipc.MetadataVersion.V4)
    with pytest.raises(DataError, match="not a readable corpus folder"):
        Corpus.open(tmp_path / "c")


def test_any_cut_of_the_file_is_a_data_error_or_the_whole_corpus(tmp_path):
    corpus = Corpus.write([Doc(str(n), {"text": "a"}) for n in range(3)], tmp_path / "c")
    path = tmp_path / "c" / "docs.arrow"
    data = path.read_bytes()
    for end in range(0, len(data), 3):
        path.write_bytes(data[:end])
        try:
            found = Corpus.open(tmp_path / "c")
        except DataError:
            continue
        assert list(found) == list(corpus), end


def test_the_table_is_not_copied_into_memory(tmp_path):
    Corpus.write([Doc("1", {"text": "a " * 5_000_000})], tmp_path / "c")
    before = pa.total_allocated_bytes()
    corpus = Corpus.open(tmp_path / "c")
    assert pa.total_allocated_bytes() - before < 2**20
    assert json.loads((tmp_path / "c" / "corpus.json").read_text())["documents"] == len(corpus)

"""Inputs that the attack campaign found: each made a reader fail with something else than a
DataError."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_array, save_npz

from ontodex.corpora.open import open_corpus, read_docs, write_docs
from ontodex.errors import DataError
from ontodex.types import Corpus, Doc
from ontodex.types.record_batches import SCHEMA


def write_npz(folder: Path, data: bytes) -> Path:
    (folder / "X.a.npz").write_bytes(data)
    save_npz(folder / "Y.a.npz", csr_array(np.eye(3, dtype=np.float32)))
    return folder / "X.a.npz"


def make_npz() -> bytearray:
    file = io.BytesIO()
    save_npz(file, csr_array(np.eye(3, dtype=np.float32)))
    return bytearray(file.getvalue())


def test_an_npz_with_an_unknown_compression_is_refused(tmp_path: Path) -> None:
    data = make_npz()
    struct.pack_into("<H", data, 8, 99)  # of the first member
    struct.pack_into("<H", data, data.rindex(b"PK\x01\x02") + 10, 99)
    struct.pack_into("<H", data, data.index(b"PK\x01\x02") + 10, 99)
    with pytest.raises(DataError, match="not a readable matrix"):
        list(read_docs(write_npz(tmp_path, bytes(data)), "pecos-npz"))


def test_an_npz_with_damaged_compressed_data_is_refused(tmp_path: Path) -> None:
    data = make_npz()
    with zipfile.ZipFile(io.BytesIO(bytes(data))) as archive:
        names = [info.filename for info in archive.infolist()]
    at = 30 + len(names[0]) + struct.unpack_from("<H", data, 28)[0]
    data[at : at + 20] = b"\xff" * 20
    with pytest.raises(DataError, match="not a readable matrix"):
        list(read_docs(write_npz(tmp_path, bytes(data)), "pecos-npz"))


@pytest.mark.parametrize("subjects", [0.5, "x", {"uri": "a"}, True])
def test_subjects_that_are_no_list_are_refused(subjects: object, tmp_path: Path) -> None:
    path = tmp_path / "docs.jsonl"
    path.write_text(json.dumps({"document_id": "1", "text": "a", "subjects": subjects}))
    with pytest.raises(DataError, match="not a list"):
        list(read_docs(path, "annif-json"))


def test_parquet_with_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "docs.parquet"
    text = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(struct.pack("<ii", 0, 2)), pa.py_buffer(b"a\xb9")]
    )
    pq.write_table(pa.table({"id": ["1"], "text": text}), path)
    with pytest.raises(DataError, match="damaged after row 0"):
        list(read_docs(path))


@pytest.mark.parametrize("depth", [150, 900, 100_000])
def test_metadata_nested_deeply_is_refused_and_shallow_metadata_is_read(
    depth: int, tmp_path: Path
) -> None:
    path = tmp_path / "docs.jsonl"
    line = '{"id": "1", "text": "a", "metadata": {"x": %s}}\n'
    path.write_text(line % ("[" * depth + "]" * depth))
    with pytest.raises(DataError, match=r"nested|recursion"):
        list(read_docs(path, "jsonl"))
    path.write_text(line % ("[" * 90 + "]" * 90))
    assert len(open_corpus(path)) == 1
    path.write_text(line % f"[{', '.join(['[1]'] * 500)}]")
    assert len(open_corpus(path)) == 1


@pytest.mark.parametrize("cell", ["[" * 900 + "]" * 900, "[" * 100_000, '["\\ud800"]'])
def test_a_hostile_list_in_a_cell_is_refused(cell: str, tmp_path: Path) -> None:
    path = tmp_path / "docs.csv"
    path.write_text('id,text,labels\n1,a,"' + cell.replace('"', '""') + '"\n')
    with pytest.raises(DataError):
        list(read_docs(path, "csv"))


@pytest.mark.parametrize(
    "about",
    ["[]", "1", "{}", '{"format": 1}', "[" * 10_000,
     '{"format": 1, "documents": 1, "kind": "text", "n_features": -1, "key": "a"}',
     '{"format": 1, "documents": 1, "kind": "image", "n_features": 0, "key": "a"}',
     '{"format": 1, "documents": 1, "kind": "text", "n_features": 0, "key": "../../x"}'],
)  # fmt: skip
def test_a_corpus_folder_with_another_description_is_refused(about: str, tmp_path: Path) -> None:
    write_docs([Doc("1", {"text": "a"})], tmp_path / "corpus", "corpus")
    (tmp_path / "corpus" / "corpus.json").write_text(about)
    with pytest.raises(DataError):
        Corpus.open(tmp_path / "corpus")


def test_a_corpus_folder_with_other_columns_is_refused(tmp_path: Path) -> None:
    write_docs([Doc("1", {"text": "a"})], tmp_path / "corpus", "corpus")
    table = pa.table({"id": ["1"]})
    file = str(tmp_path / "corpus" / "docs.arrow")
    with pa.OSFile(file, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(DataError, match="other columns"):
        Corpus.open(tmp_path / "corpus")


def test_offsets_outside_of_a_corpus_file_are_refused_before_they_are_used(tmp_path: Path) -> None:
    docs = [Doc(str(i), {"text": "some words"}, labels=("a",)) for i in range(3)]
    write_docs(docs, tmp_path / "corpus", "corpus")
    path = tmp_path / "corpus" / "docs.arrow"
    data = path.read_bytes()
    offsets = struct.pack("<iiii", 0, 1, 2, 3)  # of the ids
    assert offsets in data
    path.write_bytes(data.replace(offsets, struct.pack("<iiii", 0, 1, 2**30, 2**30 + 1)))
    with pytest.raises(DataError, match="not a readable corpus folder"):
        open_corpus(tmp_path / "corpus")


def test_a_pmid_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "docs.xml"
    path.write_bytes(
        b'<?xml version="1.0"?>\n<PubmedArticleSet><PubmedArticle><MedlineCitation Status="x">'
        b"<PMID>\x95</PMID></MedlineCitation></PubmedArticle></PubmedArticleSet>"
    )
    with pytest.raises(DataError, match="not well-formed"):
        list(read_docs(path, "medline"))


def test_a_corpus_folder_with_a_column_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    write_docs([Doc("1", {"text": "a"})], tmp_path / "corpus", "corpus")
    path = tmp_path / "corpus" / "docs.arrow"
    path.write_bytes(path.read_bytes().replace(b"metadata", b"metad\x9bta"))
    with pytest.raises(DataError, match=r"other columns|not a readable"):
        open_corpus(tmp_path / "corpus")


def test_the_message_about_columns_is_text_even_where_their_names_are_not(tmp_path: Path) -> None:
    path = tmp_path / "docs.jsonl"
    path.write_text('{"headl\\ud800ine": "trout", "topics": "fish"}\n')
    with pytest.raises(DataError, match="no column is known") as caught:
        list(read_docs(path))
    assert str(caught.value).encode("utf-8")
    assert "\ufffd" in str(caught.value)


def write_damaged(folder: Path, **values: object) -> Path:
    """Write a corpus folder of one document, and replace values of its columns."""
    write_docs([Doc("1", {"text": "a"}, labels=("x",))], folder, "corpus")
    row = pa.ipc.open_file(str(folder / "docs.arrow")).read_all().to_pylist()[0]
    with (
        pa.OSFile(str(folder / "docs.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, SCHEMA) as writer,
    ):
        writer.write_batch(pa.RecordBatch.from_pylist([{**row, **values}], schema=SCHEMA))
    return folder


@pytest.mark.parametrize("metadata", ["", "[]", "3", "{", "[" * 100_000, '{"a": "\\ud800"}'])
def test_a_corpus_folder_with_metadata_that_is_no_object_is_refused(tmp_path, metadata) -> None:
    """Seed 209 of the campaign on readers: JSONDecodeError."""
    folder = write_damaged(tmp_path / "corpus", metadata=metadata)
    with pytest.raises(DataError, match="is damaged: document '1'"):
        list(read_docs(folder))


@pytest.mark.parametrize(
    "missing",
    [{"id": None}, {"fields": None}, {"fields": [("text", None)]}, {"labels": ["x", None]},
     {"keywords": None}, {"metadata": None}],
)  # fmt: skip
def test_a_corpus_folder_with_missing_values_is_refused(tmp_path, missing) -> None:
    folder = write_damaged(tmp_path / "corpus", **missing)
    with pytest.raises(DataError, match="has missing values"):
        open_corpus(folder)


def test_a_corpus_folder_with_whole_values_is_read(tmp_path) -> None:
    folder = write_damaged(tmp_path / "corpus", metadata='{"a": "\\u00e9"}')
    (doc,) = read_docs(folder)
    assert (doc.labels, doc.metadata) == (("x",), {"a": "é"})

"""Files that are wrong: the message says where, and the records around the damage still come."""

from __future__ import annotations

import gzip
import json
import logging
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix, save_npz

from ontodex.corpora.open import DocReader, read_docs, write_docs
from ontodex.errors import DataError
from ontodex.types import Doc


def tolerant(reading: DocReader) -> tuple[list[str], list[str]]:
    """(ids that could be read, messages about the rest)."""
    ids: list[str] = []
    messages: list[str] = []
    while True:
        try:
            ids.append(next(reading).id)
        except StopIteration:
            return ids, messages
        except DataError as error:
            messages.append(str(error).replace(str(reading.path), "FILE"))


def test_every_damaged_json_line_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "docs.jsonl"
    path.write_bytes(
        b'{"id": "1", "text": "sound"}\n'
        b'{"id": "2", "text": "cut off\n'
        b'{"id": "3", "text": "latin \xe9"}\n'
        b'{"pmid": "4", "text": "no id"}\n'
        b'{"id": "5", "labels": ["D1"]}\n'
        b'{"id": "6", "text": 17}\n'
        b'{"id": "7", "text": "t", "labels": "D1"}\n'
        b'{"id": "8", "text": "nul \\u0000"}\n'
        b'{"id": "9", "text": "half \\ud800"}\n'
        b'["10"]\n'
        b'{"id": "11", "text": "t", "labels": [""]}\n'
        b'{"id": "12", "text": "raw nul \x00"}\n'
        b'{"id": "13", "text": "a whole pair \\ud83d\\ude00 and \\\\u0000 are fine"}\n'
    )
    ids, messages = tolerant(read_docs(path, "jsonl"))
    assert ids == ["1", "13"]
    starts = [message.split(": ")[0] for message in messages]
    assert starts == [f"FILE:{line}" for line in range(2, 13)]
    expected = [
        *("not JSON", "0xe9", "['pmid', 'text']", "no text", "not a text", "not a list", "NUL"),
        *("surrogate", "a JSON list", "''", "NUL"),
    ]
    for message, words in zip(messages, expected, strict=True):
        assert words in message


def test_deep_nesting_and_endless_numbers_are_refused_not_crashes(tmp_path: Path) -> None:
    path = tmp_path / "docs.jsonl"
    path.write_text("[" * 100_000 + "\n" + '{"id": ' + "9" * 10_000 + "}\n")
    ids, messages = tolerant(read_docs(path, "jsonl"))
    assert ids == []
    assert len(messages) == 2


def test_rows_of_a_table_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    path = tmp_path / "docs.csv"
    path.write_bytes(
        b"id,text,labels\n"
        b'1,"two\nlines",D1\n'
        b"2,too,many,cells\n"
        b"3,latin \xe9,D1\n"
        b'4,"quote" after,D1\n'
        b'5,t,"[""D1"""\n'
        b",no id,D1\n"
        b"7,sound,D1\n"
    )
    ids, messages = tolerant(read_docs(path))
    assert ids == ["1", "7"]
    assert [message.split(": ")[0] for message in messages] == [f"FILE:{n}" for n in range(4, 9)]


def test_a_sparse_file_is_held_to_its_header(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text("6 4 3\n0 0:1\n0 4:1\n3 0:1\n0 1:1 1:2\n0 0:x\n0 0:nan\n")
    ids, messages = tolerant(read_docs(path))
    assert ids == ["1"]
    assert [message.split(": ", 1) for message in messages] == [
        ["FILE:3", "feature 4, but the header says 4 features"],
        ["FILE:4", "label 3, but the header says 3 labels"],
        ["FILE:5", "a feature is given twice (1 too many)"],
        ["FILE:6", "'0:x' is not index:value"],
        ["FILE:7", "a feature value that is not finite"],
    ]
    path.write_text("3 4 3\n0 0:1\n")
    with pytest.raises(DataError, match="1 rows, but the header says 3"):
        list(read_docs(path))


def test_the_first_feature_of_svm_rows_is_one(tmp_path: Path) -> None:
    path = tmp_path / "rows.svm"
    path.write_text("1 0:1\n")
    with pytest.raises(DataError, match=r"rows\.svm:1: feature 0, but the first one is 1"):
        list(read_docs(path))


def test_two_files_of_different_length_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a_texts.txt").write_text("one\ntwo\n")
    (tmp_path / "a_labels.txt").write_text("D1\n")
    with pytest.raises(DataError, match=r"a_labels\.txt:2: ends before line 2, but a_texts\.txt"):
        list(read_docs(tmp_path / "a_texts.txt", "attentionxml"))


def test_damage_in_one_of_two_files_does_not_shift_the_other(tmp_path: Path) -> None:
    (tmp_path / "a_texts.txt").write_bytes(b"one\n\xff\nthree\n")
    (tmp_path / "a_labels.txt").write_text("D1\nD2\nD3\n")
    reading = read_docs(tmp_path / "a_texts.txt")
    assert next(reading) == Doc("1", {"text": "one"}, labels=("D1",))
    with pytest.raises(DataError, match=r"a_texts\.txt:2: not UTF-8"):
        next(reading)
    assert next(reading) == Doc("3", {"text": "three"}, labels=("D3",))


def test_a_label_list_that_repeats_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("1 1 2\n0 0:1\n")
    (tmp_path / "labels.txt").write_text("cat\ncat\n")
    with pytest.raises(DataError, match=r"labels\.txt:2: 'cat' is also on line 1"):
        read_docs(tmp_path / "train.txt")


def test_a_number_past_the_label_list_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("0,2\tsome text\n")
    (tmp_path / "output-labels.txt").write_text("cat\ndog\n")
    with pytest.raises(DataError, match=r"train\.txt:1: label 2, but output-labels\.txt has 2"):
        list(read_docs(tmp_path / "train.txt"))


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text("0::0.5\tsome text\n0::nan\tsome text\n0::x\tsome text\n")
    ids, messages = tolerant(read_docs(path, "pecos"))
    assert ids == ["1"]
    assert messages == [
        "FILE:2: a label has a weight that is not finite",
        "FILE:3: weight 'x' is not a number",
    ]


def test_labels_given_twice_are_taken_once_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "train.txt"
    path.write_text("__label__a __label__b __label__a text\n__label__a text\n")
    assert [doc.labels for doc in read_docs(path)] == [("a", "b"), ("a",)]
    assert caplog.messages == [f"{path}: a label was given twice and taken once: 1 document"]


def test_bom_and_crlf_are_taken_away_and_announced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    path = tmp_path / "train.txt"
    path.write_bytes(b"\xef\xbb\xbf__label__a one\r\n__label__b two\r\n")
    assert [(doc.fields["text"], doc.labels) for doc in read_docs(path)] == [
        ("one", ("a",)),
        ("two", ("b",)),
    ]
    assert any("byte order mark" in message for message in caplog.messages)
    assert any("2 lines ended in CRLF" in message for message in caplog.messages)


def test_a_document_of_ten_megabytes_is_recognised_and_read(tmp_path: Path) -> None:
    text = "word " * 2_000_000
    for format, name in (("jsonl", "a.jsonl"), ("csv", "a.csv"), ("fasttext", "a.txt")):
        write_docs([Doc("1", {"text": text}, labels=("D1",))], tmp_path / name, format)
        (doc,) = read_docs(tmp_path / name)
        assert doc.text == text


def test_a_compressed_file_that_is_cut_off_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "docs.jsonl.gz"
    lines = "".join(json.dumps({"id": str(i), "text": f"{i * i}"}) + "\n" for i in range(100_000))
    whole = gzip.compress(lines.encode())
    path.write_bytes(whole[: len(whole) // 2])
    ids, messages = tolerant(read_docs(path, "jsonl"))
    assert 0 < len(ids) < 100_000
    assert messages == ["FILE: the compressed data is damaged or cut off (Compressed file ended "
                        "before the end-of-stream marker was reached)"]  # fmt: skip


def test_pickles_bombs_and_broken_indices_in_npz_are_refused(tmp_path: Path) -> None:
    x, y = tmp_path / "X.a.npz", tmp_path / "Y.a.npz"
    save_npz(y, csr_matrix(np.eye(2, dtype=np.float32)))
    matrix = csr_matrix(np.eye(2, dtype=np.float32))
    parts = {"indices": matrix.indices, "indptr": matrix.indptr, "data": matrix.data}
    parts |= {"shape": np.array([2, 2]), "format": np.array(b"csr")}

    np.savez(x, **{**parts, "data": np.array([{}, 1], dtype=object)}, allow_pickle=True)
    with pytest.raises(DataError, match="not a readable matrix"):
        list(read_docs(x))
    np.savez(x, **{**parts, "indices": np.array([0, 7], dtype=np.int32)})
    with pytest.raises(DataError, match="not a readable matrix"):
        list(read_docs(x))
    np.savez(x, **{**parts, "data": np.array([1, np.inf], dtype=np.float32)})
    with pytest.raises(DataError, match="not finite"):
        list(read_docs(x))
    with zipfile.ZipFile(x, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.npy", b"\0" * 100_000_000)
    with pytest.raises(DataError, match="decompression bomb"):
        list(read_docs(x))


def test_an_array_that_claims_more_than_it_has_is_refused(tmp_path: Path) -> None:
    x = tmp_path / "X.a.npz"
    save_npz(tmp_path / "Y.a.npz", csr_matrix(np.eye(2, dtype=np.float32)))
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }"
    header = header.ljust(117) + "\n"
    member = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
    with zipfile.ZipFile(x, "w") as archive:
        archive.writestr("data.npy", member)
    with pytest.raises(DataError, match="claims more data than it has"):
        list(read_docs(x))


def test_parquet_that_is_cut_off_or_has_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "docs.parquet"
    write_docs([Doc("1", {"text": "a"})], path, "parquet")
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DataError, match="not a complete Parquet file"):
        list(read_docs(path))


def test_a_damaged_text_of_a_folder_is_named_by_its_file_not_by_a_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("sound")
    (tmp_path / "b.txt").write_bytes(b"with a \0 in it")
    (tmp_path / "c%FF.txt").write_text("a name that is not UTF-8")
    reading = read_docs(tmp_path)
    ids, messages = tolerant(reading)
    assert ids == ["a"]
    assert messages[0] == "FILE/b.txt: a NUL character in text"
    assert messages[1].startswith("FILE/c%FF.txt: the file name")
    assert reading.line is None


def test_the_name_of_a_table_that_is_cut_off_is_said_once(tmp_path: Path) -> None:
    path = tmp_path / "docs.csv.gz"
    path.write_bytes(gzip.compress(b"id,text\n" + b"1,trout\n" * 9)[:25])
    with pytest.raises(DataError) as caught:
        read_docs(path, "csv")
    assert str(caught.value).count(str(path)) == 1

"""Text is decoded alike in words, keywords, standard input and files."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from ontodex.corpora.text_argument import read_document
from ontodex.errors import DataError
from ontodex.runs.recipe import train
from ontodex.types import Corpus, Doc

LATIN = b"caf\xe9 bins"  # as an old editor writes café
LATIN_WORDS = LATIN.decode("utf-8", "surrogateescape")  # as Python passes an argument of such bytes


@pytest.fixture
def pipe_to_stdin(monkeypatch):
    def pipe(raw: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8"))

    return pipe


def refusal(given: str, keywords: tuple[str, ...] = ()) -> DataError:
    with pytest.raises(DataError) as caught:
        read_document(given, keywords)
    return caught.value


def test_other_encodings_are_read_alike_from_every_source(tmp_path, pipe_to_stdin, caplog):
    file = tmp_path / "bad.txt"
    file.write_bytes(b"first line\n" + LATIN)
    pipe_to_stdin(b"first line\n" + LATIN)
    read = {
        str(file): read_document(str(file), None).text,
        "standard input": read_document("-", None).text,
        "TEXT": read_document(LATIN_WORDS, None).text,
        "--keyword": read_document("rubbish", ("bins", LATIN_WORDS)).keywords[1],
    }
    for where, text in read.items():
        assert text.removeprefix("first line\n") == "café bins"
        assert f"{where}: not UTF-8, so read as windows-1252" in caplog.text


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-32"])
def test_a_byte_order_mark_tells_the_encoding(tmp_path, pipe_to_stdin, encoding, caplog):
    raw = "café\r\nbins\n".encode(encoding)
    (tmp_path / "a.txt").write_bytes(raw)
    pipe_to_stdin(raw)
    assert read_document(str(tmp_path / "a.txt"), None).text == "café\nbins"
    assert read_document("-", None).text == "café\nbins"
    assert not caplog.records


def test_nul_is_refused_from_standard_input_as_from_a_file(tmp_path, pipe_to_stdin):
    (tmp_path / "nul.txt").write_bytes(b"a\0b")
    pipe_to_stdin(b"a\0b")
    assert str(refusal("-")) == "standard input:1: a NUL character in text"
    assert str(refusal(str(tmp_path / "nul.txt"))).endswith("nul.txt:1: a NUL character in text")


def test_a_file_and_standard_input_give_the_same_text(tmp_path, pipe_to_stdin):
    raw = "\ufeffcafé\r\nbins\n\nof rubbish\u2028now".encode()
    (tmp_path / "a.txt").write_bytes(raw)
    pipe_to_stdin(raw)
    read = read_document(str(tmp_path / "a.txt"), None)
    assert read_document("-", None) == read
    assert read.text == "café\nbins\n\nof rubbish\u2028now"


def test_standard_input_that_is_closed_has_no_text(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    assert str(refusal("-")) == "standard input: no text"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    docs = Corpus.of([Doc(str(i), {"text": "trout"}, (), ("fish",)) for i in range(10)])
    out = tmp_path_factory.mktemp("runs") / "floor"
    train(config={"model": {"name": "popularity"}}, out=out, train=docs)
    return out


@pytest.mark.parametrize("command", ["suggest", "explain"])
@pytest.mark.parametrize("words", [[b"-"], [LATIN], [b"bins", b"--keyword", LATIN]])
def test_the_commands_read_latin_1_and_say_so(run, command, words):
    done = subprocess.run(
        [sys.executable, "-m", "ontodex", command, str(run), *words],
        input=LATIN,
        capture_output=True,
        check=False,
    )
    assert done.returncode in (0, 2), done.stderr  # 2: this system cannot explain
    assert b"not UTF-8, so read as windows-1252" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["docs.jsonl", "docs.csv.gz", "DOCS.TSV"])
def test_a_corpus_is_not_read_as_one_text(tmp_path, name):
    file = tmp_path / name
    file.write_text('{"id": "1", "text": "trout"}\n')
    refused = refusal(str(file))
    assert str(refused) == f"{file}: has many documents, but this command takes one"
    assert f"ontodex index RUN {file} OUT" in refused.hint

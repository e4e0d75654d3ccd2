"""What is given to be indexed, where it is not UTF-8: words, keywords and standard input are
refused with the sentence that a file gets."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ontodex.errors import DataError
from ontodex.given import document
from ontodex.recipe import train
from ontodex.types import Corpus, Doc

LATIN = b"caf\xe9 bins"  # as an old editor writes café
LATIN_WORDS = LATIN.decode("utf-8", "surrogateescape")  # as Python passes an argument of such bytes
SAID = "not UTF-8: byte 0xe9 at column 4"


@pytest.fixture
def piped(monkeypatch):
    def pipe(raw: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8"))

    return pipe


def refusal(given: str, keywords: tuple[str, ...] = ()) -> DataError:
    with pytest.raises(DataError) as caught:
        document(given, keywords)
    return caught.value


def test_what_is_not_utf8_is_refused_alike_wherever_it_comes_from(tmp_path, piped):
    file = tmp_path / "bad.txt"
    file.write_bytes(b"first line\n" + LATIN)
    piped(b"first line\n" + LATIN)
    refused = {
        f"{file}:2": refusal(str(file)),
        "standard input:2": refusal("-"),
        "TEXT": refusal(LATIN_WORDS),
        "--keyword": refusal("rubbish", ("bins", LATIN_WORDS)),
    }
    for where, error in refused.items():
        assert str(error) == f"{where}: {SAID}"
        assert "iconv" in error.hint


def test_nul_is_refused_from_standard_input_as_from_a_file(tmp_path, piped):
    (tmp_path / "nul.txt").write_bytes(b"a\0b")
    piped(b"a\0b")
    assert str(refusal("-")) == "standard input:1: a NUL character in text"
    assert str(refusal(str(tmp_path / "nul.txt"))).endswith("nul.txt:1: a NUL character in text")


def test_a_file_and_standard_input_give_the_same_text(tmp_path, piped):
    raw = "\ufeffcafé\r\nbins\n\nof rubbish\u2028now".encode()
    (tmp_path / "a.txt").write_bytes(raw)
    piped(raw)
    read = document(str(tmp_path / "a.txt"), None)
    assert document("-", None) == read
    assert read.text == "café\nbins\n\nof rubbish\u2028now"


def test_standard_input_that_is_closed_has_no_text(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    assert str(refusal("-")) == "standard input: no text"


def test_a_file_may_have_a_name_that_is_not_utf8(tmp_path):
    file = tmp_path / os.fsdecode(b"caf\xe9.txt")
    try:
        file.write_text("bins")
    except OSError:
        pytest.skip("this file system has only names in UTF-8")
    assert document(str(file), None).text == "bins"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    docs = Corpus.of([Doc(str(i), {"text": "trout"}, (), ("fish",)) for i in range(10)])
    out = tmp_path_factory.mktemp("runs") / "floor"
    train({"model": {"name": "popularity"}}, out, train=docs)
    return out


@pytest.mark.parametrize("command", ["suggest", "explain"])
@pytest.mark.parametrize("words", [[b"-"], [LATIN], [b"bins", b"--keyword", LATIN]])
def test_the_commands_say_it_and_end_with_code_2(run, command, words):
    done = subprocess.run(
        [sys.executable, "-m", "ontodex", command, str(run), *words],
        input=LATIN,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert SAID.encode() in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["docs.jsonl", "docs.csv.gz", "DOCS.TSV"])
def test_a_corpus_is_not_read_as_one_text(tmp_path, name):
    file = tmp_path / name
    file.write_text('{"id": "1", "text": "trout"}\n')
    refused = refusal(str(file))
    assert str(refused) == f"{file}: holds many documents, and this takes one"
    assert f"ontodex index RUN {file} OUT" in refused.hint

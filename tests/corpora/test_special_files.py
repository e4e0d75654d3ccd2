"""Devices, pipes and sockets are refused at once; nothing waits for them."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ontodex.cli import main
from ontodex.corpora.check import check
from ontodex.corpora.convert import convert
from ontodex.corpora.formats import FORMATS
from ontodex.corpora.open import open_corpus, read_docs, write_docs
from ontodex.errors import OntodexError
from ontodex.io.files import hash_file, open_bytes, open_regular
from ontodex.ontology.open import read_ontology
from ontodex.types import Corpus, Doc
from patience import PATIENCE


@pytest.fixture(autouse=True)
def _no_waiting() -> Iterator[None]:
    """Fail instead of waiting for a writer that never comes."""

    def fail(*_: object) -> None:
        raise TimeoutError("waited for a special file")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(PATIENCE)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(params=["device", "pipe", "socket", "link to a pipe"])
def special(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    if request.param == "device":
        return Path("/dev/zero")
    path = tmp_path / "special"
    if request.param == "socket":
        monkeypatch.chdir(tmp_path)  # the name of a socket must be short
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
        return path
    os.mkfifo(path)
    if request.param == "pipe":
        return path
    (tmp_path / "link").symlink_to(path)
    return tmp_path / "link"


@pytest.mark.parametrize(
    "read", [check, open_corpus, read_ontology, open_bytes, open_regular, hash_file]
)
def test_a_special_file_is_refused_by_every_reader(read, special: Path) -> None:
    with pytest.raises(OntodexError, match="not a regular file"):
        read(special)


@pytest.mark.parametrize(
    "format", [name for name in FORMATS if name not in ("corpus", "annif-folder")]
)
def test_a_special_file_is_refused_where_the_format_is_named(format: str, special: Path) -> None:
    with pytest.raises(OntodexError):
        list(read_docs(special, format))


def test_convert_refuses_a_special_file(special: Path, tmp_path: Path) -> None:
    with pytest.raises(OntodexError, match="not a regular file"):
        convert(special, tmp_path / "out.jsonl")


@pytest.mark.parametrize("name", ["a.txt", "a.tsv", "a.key", "a.json"])
def test_a_pipe_in_a_folder_of_texts_is_refused(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    if name in ("a.tsv", "a.key"):
        (folder / "a.txt").write_text("some words")
    os.mkfifo(folder / name)
    with pytest.raises(OntodexError, match="not a regular file"):
        open_corpus(folder)
    with pytest.raises(OntodexError, match="not a regular file"):
        list(read_docs(folder))


@pytest.mark.parametrize("name", ["corpus.json", "docs.arrow"])
def test_a_pipe_in_a_corpus_folder_is_refused(name: str, tmp_path: Path) -> None:
    write_docs([Doc("1", {"text": "a"})], tmp_path / "corpus", "corpus")
    (tmp_path / "corpus" / name).unlink()
    os.mkfifo(tmp_path / "corpus" / name)
    with pytest.raises(OntodexError, match="not a regular file"):
        Corpus.open(tmp_path / "corpus")


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "SPECIAL"],
        ["check", "GOOD", "--against", "SPECIAL"],
        ["check", "GOOD", "--ontology", "SPECIAL"],
        ["convert", "SPECIAL", "OUT.jsonl"],
        ["train", "--train", "SPECIAL", "--model", "popularity", "--out", "OUT"],
        ["train", "--train", "GOOD", "--dev", "SPECIAL", "--model", "popularity", "--out", "OUT"],
        ["train", "--train", "GOOD", "--config", "SPECIAL", "--out", "OUT"],
        ["ontology", "show", "SPECIAL"],
    ],
    ids=lambda arguments: " ".join(arguments[:4]),
)
def test_commands_refuse_a_pipe_with_a_sentence(
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("SPECIAL")
    lines = (f'{{"id": "{i}", "text": "words", "labels": ["a"]}}\n' for i in range(20))
    Path("GOOD").write_text("".join(lines))
    monkeypatch.setattr(sys, "argv", ["ontodex", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "not a regular file" in capsys.readouterr().err


def test_a_regular_file_is_opened_and_a_folder_is_not(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    with open_regular(tmp_path / "file") as file:
        assert file.read() == b"abc"
    with pytest.raises(OSError, match="directory"):
        open_regular(tmp_path)

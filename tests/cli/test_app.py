"""Every command: errors are one sentence and exit code 2."""

from __future__ import annotations

import resource
import subprocess
import sys

from commands import run_command


def test_every_command_fails_with_a_sentence_and_exit_code_2(tmp_path):
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"id": "1", "text": "fine", "labels": ["a"]}\nnot json\n')
    missing = str(tmp_path / "missing")
    out = str(tmp_path / "out")
    for words in [
        ["suggest", missing, "text"],
        ["evaluate", missing, str(bad)],
        ["convert", missing, out + ".jsonl"],
        ["convert", str(bad), out + ".jsonl"],
        ["train", "--model", "popularity", "--train", str(bad), "--out", out],
        ["train", "--model", "nosuch", "--train", str(bad), "--out", out],
        ["train", "--model", "popularity", "--train", missing, "--out", out + "2"],
        ["check", missing],
        ["data", "get", "nosuch", out],
        ["ontology", "show", missing],
        ["prepare", missing, "--out", out + "3"],
    ]:
        done = run_command(*words)
        assert done.returncode == 2, (words, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr, (words, done.stderr)
        assert done.stderr.strip(), words


def test_an_error_names_the_line_of_a_bad_record(tmp_path):
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"id": "1", "text": "fine", "labels": ["a"]}\nnot json\n')
    done = run_command("convert", str(bad), str(tmp_path / "out.csv"))
    assert "bad.jsonl:2: " in done.stderr


def test_too_little_memory_to_load_a_library_is_a_sentence(tmp_path):
    """Loading pyarrow with 200 MB ended in a traceback of ImportError."""
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"id": "1", "text": "fine", "labels": ["a"]}\n')
    words = ["train", "--model", "linear", "--train", str(corpus), "--out", str(tmp_path / "run")]
    limit = 200_000 * 1024
    done = subprocess.run(
        [sys.executable, "-m", "ontodex", *words],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "ontodex: the machine's memory is used up" in done.stderr
    assert "Traceback" not in done.stderr

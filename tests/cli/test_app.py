"""Every command: errors are one sentence and exit code 2."""

from __future__ import annotations

import resource
import subprocess
import sys

from commands import run_command
from ontodex.cli.app import move_global_options


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


def test_quiet_and_verbose_may_stand_before_and_behind_the_command():
    assert move_global_options(["train", "--quiet", "--out", "x"]) == [
        "--quiet", "train", "--out", "x",
    ]  # fmt: skip
    assert move_global_options(["--verbose", "check", "x"]) == ["--verbose", "check", "x"]
    untouched = ["suggest", "run", "--", "--quiet"]
    assert move_global_options(untouched) == untouched


def test_quiet_leaves_out_progress_and_verbose_adds_the_origin(tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    lines = [f'{{"id": "{i}", "text": "trout {i}", "labels": ["fish"]}}\n' for i in range(20)]
    corpus.write_text("".join(lines))
    words = ["prepare", str(corpus), "--out"]
    plain = run_command(*words, str(tmp_path / "plain"))
    assert "tokens of" in plain.stderr
    quiet = run_command(*words, str(tmp_path / "quiet"), "--quiet")
    assert (quiet.returncode, quiet.stderr) == (0, "")
    assert "20 documents" in quiet.stdout
    verbose = run_command(*words, str(tmp_path / "verbose"), "--verbose")
    assert "ontodex.features.prepare: " in verbose.stderr
    both = run_command(*words, str(tmp_path / "both"), "--quiet", "--verbose")
    assert both.returncode == 2
    assert "exclude each other" in both.stderr


def test_prepare_looks_for_all_files_before_it_reads_one(tmp_path):
    broken = tmp_path / "train.jsonl"
    broken.write_text("not JSON: an error here would mean that it was read\n")
    words = ["prepare", str(broken), "--out", str(tmp_path / "out")]
    missing = tmp_path / "away.txt"
    for more in (["--set", f"prepare.vectors={missing}"], ["--ontology", str(missing)]):
        done = run_command(*words, *more)
        assert done.returncode == 2
        assert "away.txt: there is no such file" in done.stderr
        assert not (tmp_path / "out").exists()


def test_training_without_a_model_leads_to_auto_and_the_list_of_systems(tmp_path):
    done = run_command("train", "--train", "x", "--out", str(tmp_path / "run"))
    assert done.returncode == 2
    assert "give --model auto" in done.stderr
    assert "`ontodex systems` lists them" in done.stderr
    assert "popularity, lexical" in run_command("train", "--help").stdout


def test_the_cache_is_shown_and_cleared(tmp_path, monkeypatch):
    monkeypatch.setenv("ONTODEX_CACHE", str(tmp_path / "cache"))
    assert "0 corpora" in run_command("cache").stdout
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"id": "1", "text": "trout", "labels": ["fish"]}\n')
    run_command("prepare", str(corpus), "--out", str(tmp_path / "out"))
    shown = run_command("cache").stdout
    assert "1 document  " in shown
    assert str(corpus) in shown
    assert "1 corpus, " in shown
    assert "removed from" in run_command("cache", "--clear").stdout
    assert "0 corpora" in run_command("cache").stdout

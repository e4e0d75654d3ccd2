"""Commands that train a run folder or use one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from commands import run_command
from floor_run import ONTOLOGY, TABLES
from ontodex.cli import app
from ontodex.corpora.text_argument import read_text
from ontodex.errors import DataError
from ontodex.runs.recipe import train
from ontodex.runs.run import Run
from ontodex.types import Corpus, Doc


def small_run(out: Path, name: str, **tables: dict[str, object]) -> Run:
    docs = [
        Doc(f"{label}{i}", {"text": f"{word} in the cold water {i}"}, (), (label,))
        for i in range(6)
        for label, word in (("fish", "trout"), ("oak", "leaves"))
    ]
    docs += [Doc("n", {"text": "a newt in the moss"}, (), ("newt",))]
    corpora = {"train": Corpus.of(docs), "dev": Corpus.of(docs)}
    return train(config={"model": {"name": name}, **tables}, out=out, ontology=ONTOLOGY, **corpora)


def test_a_mistyped_file_name_leaves_no_run_folder(tmp_path):
    (tmp_path / "train.jsonl").write_text('{"id": "1", "title": "trout", "labels": ["fish"]}\n')
    command = ["train", "--model", "popularity", "--out", str(tmp_path / "run")]
    for option in ("--train", "--ontology", "--dev"):
        files = {"--train": "train.jsonl", option: "no-such-file.jsonl"}
        named = [part for o, name in files.items() for part in (o, str(tmp_path / name))]
        answer = CliRunner().invoke(app, [*command, *named])
        assert answer.exit_code != 0
        assert not (tmp_path / "run").exists(), option


def test_a_setting_that_is_not_a_number_is_refused_before_the_folder_is_claimed(tmp_path):
    command = ["train", "--model", "levelwise", "--train", "sample", "--out", str(tmp_path / "run")]
    answer = CliRunner().invoke(app, [*command, "--set", "model.dropout=nan"])
    assert str(answer.exception) == "[model] dropout takes a number, not nan"
    assert not (tmp_path / "run").exists()


def test_an_explanation_in_a_file_has_marks_and_long_lines(tmp_path):
    run = small_run(tmp_path / "run", "linear")
    text = "trout " + "and so it goes on and on " * 6
    done = run_command("explain", str(run.folder), text, "--label", "fish")
    title, line = done.stdout.splitlines()
    assert title.startswith("Fish (fish), probability")
    assert line.startswith("**trout**")
    assert line.replace("*", "").replace("~~", "") == text


def test_suggest_reads_text_files_and_standard_input_alike(folder, tmp_path):
    (tmp_path / "a.txt").write_text("trout")
    words = run_command("suggest", str(folder), "trout", "--json")
    from_file = run_command("suggest", str(folder), str(tmp_path / "a.txt"), "--json")
    assert words.returncode == 0
    assert json.loads(words.stdout)[0] == {
        "label": "fish",
        "name": "Fish",
        "notation": "",
        "probability": 1.0,
        "standalone_probability": 1.0,
        "path": ["Animals", "Fish"],
        "level": 2,
        "other_parents": [],
        "more_specific": [],
    }
    assert from_file.stdout == words.stdout


def test_a_text_longer_than_any_file_name_is_read_as_text(folder):
    long = "word " * 60  # 300 bytes on one line, without a slash
    assert run_command("suggest", str(folder), long).stdout == (
        run_command("suggest", str(folder), "trout").stdout
    )


@pytest.mark.parametrize("given", ["nofile.txt", "./articel", "Letters/7.PDF", "a.jsonl.gz"])
@pytest.mark.parametrize("command", ["suggest", "explain"])
def test_a_mistyped_file_name_is_not_read_as_text(folder, command, given):
    done = CliRunner().invoke(app, [command, str(folder), given])
    assert isinstance(done.exception, DataError)
    assert str(done.exception) == f"{given}: there is no such file"
    assert "standard input" in done.exception.hint
    by_pipe = CliRunner().invoke(app, ["suggest", str(folder), "-"], input=given)
    assert by_pipe.exit_code == 0, "what looks like a name may still be the text"


def test_a_folder_is_not_read_as_text(folder, tmp_path):
    done = CliRunner().invoke(app, ["suggest", str(folder), str(tmp_path)])
    assert isinstance(done.exception, DataError)
    assert str(done.exception) == f"{tmp_path}: is a folder"


@pytest.mark.parametrize("given", ["trout", "trout and/or oak", "see notes.txt", "St. Gallen."])
def test_words_with_slashes_or_dots_are_read_as_text(folder, given):
    assert CliRunner().invoke(app, ["suggest", str(folder), given]).exit_code == 0


@pytest.mark.parametrize("blank", ["", " \n\t\u2003"])
@pytest.mark.parametrize("command", ["suggest", "explain"])
def test_a_document_without_text_is_refused(folder, tmp_path, command, blank):
    file = tmp_path / "blank.txt"
    file.write_text(blank)
    for given, where in ((blank, "TEXT"), (str(file), str(file)), ("-", "standard input")):
        done = CliRunner().invoke(app, [command, str(folder), given], input=blank)
        assert isinstance(done.exception, DataError)
        assert str(done.exception) == f"{where}: no text"


def test_a_language_without_names_is_warned_of(folder, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"id": "1", "text": "trout"}\n')
    table = [str(tmp_path / "in.jsonl"), str(tmp_path / "out.csv"), "--workers", "1"]
    for words in (["suggest", str(folder), "trout"], ["index", str(folder), *table]):
        done = CliRunner().invoke(app, [*words, "--language", "xx"])
        assert done.exit_code == 0
        assert (
            "warning: --language xx: not one of the ontology, whose names are in German (de), "
            "English (en)\n"
        ) in done.stderr
        assert "ontodex: " not in done.stderr
    done = CliRunner().invoke(app, ["suggest", str(folder), "trout", "--language", "de"])
    assert done.stderr == ""


def test_below_the_threshold_the_best_suggestions_are_listed(tmp_path):
    docs = [Doc(str(i), {"text": "trout"}, (), (f"l{i % 10}",)) for i in range(40)]
    run = train(config=TABLES, out=tmp_path / "run", train=Corpus.of(docs), dev=Corpus.of(docs))
    asked = ["suggest", str(run.folder), "trout", "--threshold", "0.5"]
    output, *best = CliRunner().invoke(app, asked).stdout.splitlines()
    assert output == "no suggestion reaches 0.5; the best are"
    assert [line.split() for line in best] == [["0.100", f"l{i}", f"l{i}"] for i in range(5)]
    assert json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout) == []


def test_the_text_of_a_page_is_read_and_a_damaged_pdf_is_refused(folder, tmp_path):
    (tmp_path / "a.html").write_text("<h1>trout</h1><script>alert(1)</script><p>stream</p>")
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.4 nonsense")
    assert read_text(str(tmp_path / "a.html")) == "trout\nstream"
    answer = CliRunner().invoke(app, ["suggest", str(folder), str(tmp_path / "a.pdf")])
    assert isinstance(answer.exception, DataError)
    assert str(answer.exception).startswith(f"{tmp_path / 'a.pdf'}: not a readable PDF")


def test_train_chooses_the_members_of_a_consensus_from_runs(tmp_path):
    names = ("popularity", "knn", "lexical")
    for name in names:
        small_run(tmp_path / name, name)
    lines = [
        json.dumps({"id": str(i), "text": text, "labels": [label]})
        for i, (text, label) in enumerate(
            [("trout", "fish"), ("leaves", "oak"), ("newt", "newt")] * 4
        )
    ]
    (tmp_path / "dev.jsonl").write_text("\n".join(lines) + "\n")
    runs = [str(tmp_path / name) for name in (*names, "popularity")]  # the copy adds nothing
    common = ["--train", "dev.jsonl", "--dev", "dev.jsonl", "--out", "both"]
    done = run_command("train", "--model", "consensus", "--runs", *runs, *common, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "runs chosen on 12 dev documents" in done.stderr
    assert "popularity" in done.stderr
    assert "left out: adds less than" in done.stderr
    wrong = run_command("train", "--model", "knn", "--runs", *runs, *common, cwd=tmp_path)
    assert wrong.returncode == 2
    assert "say --model consensus" in wrong.stderr
    stray = run_command("train", "--model", "knn", "stray", *common, cwd=tmp_path)
    assert "takes options only, not 'stray'" in stray.stderr


def test_the_language_is_printed_given_and_asked_for_by_name(multilingual, tmp_path):
    run, text = str(tmp_path / "run"), "Das ist auch eine Brücke, und sie ist alt."
    files = ["--train", str(multilingual / "de.jsonl")]
    files += ["--ontology", str(multilingual / "vocabulary.ttl")]
    train_it = ["train", "--model", "lexical", *files, "--language", "German", "--out", run]
    assert CliRunner().invoke(app, train_it).exit_code == 0
    assert "Brücken" in CliRunner().invoke(app, ["suggest", run, text]).stdout
    named = [run, text, "--language", "Finnish"]
    assert "sillat" in CliRunner().invoke(app, ["suggest", *named]).stdout
    done = CliRunner().invoke(app, ["explain", *named, "--label", "bridges", "--json"])
    assert json.loads(done.stdout)["name"] == "sillat"
    show = ["ontology", "show", str(multilingual / "vocabulary.ttl"), "--language", "fi"]
    assert "kirjastot" in CliRunner().invoke(app, show).stdout

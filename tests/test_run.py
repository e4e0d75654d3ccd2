"""The run folder as people meet it: trained, copied, damaged, asked."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ontodex.cli import app
from ontodex.errors import ConfigError, DataError, RunError
from ontodex.explain import marked
from ontodex.given import text_of
from ontodex.models import MODELS
from ontodex.models.base import Span
from ontodex.models.popularity import Popularity
from ontodex.ontology.graph import Concept
from ontodex.ontology.graph import build as build_ontology
from ontodex.outline import none_chosen
from ontodex.read import jsonl, open_corpus
from ontodex.recipe import claimed, train
from ontodex.run import Explanation, Run, Suggestion, load
from ontodex.settings import resolve
from ontodex.train import store
from ontodex.types import Corpus, Doc, LabelSpace

DOCS = Corpus.of(
    [
        Doc(str(i), {"title": f"trout {i}"}, (), ("fish",) if i % 3 else ("fish", "oak"))
        for i in range(30)
    ]
)
ONTOLOGY = build_ontology(
    [
        Concept("animals", {"en": "Animals", "de": "Tiere"}),
        Concept("fish", {"en": "Fish", "de": "Fische"}, parents=["animals"]),
        Concept("oak", {"en": "Oak"}, synonyms={"en": ["quercus"]}),
        Concept("newt", {"en": "Newt"}, parents=["animals"]),
    ]
)
TABLES = {"model": {"name": "popularity"}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "floor"
    train(TABLES, out, train=DOCS, ontology=ONTOLOGY)
    return out


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def test_a_run_suggests_names_ids_and_places(folder):
    best, second = load(folder).suggest("any text")
    assert (best.label, best.name, best.path) == ("fish", "Fish", ("Animals", "Fish"))
    assert best.probability == 1.0
    assert second.label == "oak"
    assert load(folder).suggest("x", language="de")[0].path == ("Tiere", "Fische")
    assert [s.label for s in load(folder).suggest("x", threshold=0.9)] == ["fish"]
    assert len(load(folder).suggest("x", limit=1)) == 1


def test_a_run_copied_elsewhere_answers_the_same(folder, copy):
    assert load(copy).suggest("text") == load(folder).suggest("text")


def test_labels_survive_the_run_folder(folder):
    labels = load(folder).labels
    assert labels.ids == ("fish", "oak", "animals", "newt")
    assert labels.n_seen == 2
    assert labels.frequency[0] == labels.n_docs
    assert labels.ontology is not None
    assert labels.ontology.path("newt") == ["animals", "newt"]


def test_a_tenth_is_set_aside_without_dev(folder):
    about = load(folder).about
    assert about["train"]["documents"] + about["dev"]["documents"] == 30
    assert 1 <= about["dev"]["documents"] <= 8


@pytest.mark.parametrize("name", ["labels.tsv", "config.toml", "decision.json", "ontology.json"])
def test_a_changed_file_is_refused(copy, name):
    (copy / name).write_text((copy / name).read_text() + "\n")
    with pytest.raises(RunError, match=rf"{name}: changed since it was written"):
        load(copy)


def test_a_missing_file_is_refused(copy):
    (copy / "labels.tsv").unlink()
    with pytest.raises(RunError, match=r"labels\.tsv: missing"):
        load(copy)


def test_a_file_slipped_into_the_model_is_refused(copy):
    (copy / "model" / "extra.bin").write_bytes(b"\x80\x04")
    with pytest.raises(RunError, match="not in the manifest"):
        load(copy)


def test_a_link_inside_a_run_is_refused(copy):
    (copy / "model" / "link").symlink_to("/etc/hostname")
    with pytest.raises(RunError, match="link"):
        load(copy)


def test_a_manifest_that_points_outside_is_refused(copy):
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["files"]["../outside.tsv"] = "0" * 64
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(RunError, match="which no run contains"):
        load(copy)


def test_a_run_of_a_future_format_is_refused_with_both_versions(copy):
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["format"] = 99
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(RunError, match="run format 99; this version reads 1 to 1"):
        load(copy)


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"format": 1}', "null"])
def test_a_damaged_manifest_is_a_sentence(copy, damage):
    (copy / "manifest.json").write_text(damage)
    with pytest.raises(RunError):
        load(copy)


def test_an_unfinished_run_is_not_loaded_and_can_be_started_again(copy):
    (copy / "manifest.json").unlink()
    with pytest.raises(RunError, match="not a finished run"):
        load(copy)
    run = train(TABLES, copy, train=DOCS, ontology=ONTOLOGY)
    assert isinstance(run, Run)


def test_what_is_no_run_at_all_is_not_taken_for_an_unfinished_one(tmp_path):
    (tmp_path / "file").write_text("x")
    for place, said in ((tmp_path, "not a run folder"), (tmp_path / "file", "is a file")):
        with pytest.raises(RunError, match=said):
            load(place)


def test_a_finished_run_is_never_overwritten(folder):
    with pytest.raises(RunError, match="holds a finished run"):
        train(TABLES, folder, train=DOCS)


def test_an_unfinished_run_with_other_settings_is_not_mixed(copy):
    (copy / "manifest.json").unlink()
    other = {**TABLES, "labels": {"min_count": 2}}
    with pytest.raises(RunError, match="other settings"):
        train(other, copy, train=DOCS)


class Long(Popularity):
    """Interrupted when a piece of it is finished; started again, it goes on."""

    work: Path | None = None

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        assert self.work is not None
        if not (self.work / "piece").exists():
            (self.work / "piece").write_text("hours of work")
            raise KeyboardInterrupt
        super().fit(train, dev, labels)


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder with a training of TABLES on DOCS, the first three as dev, and ONTOLOGY."""
    monkeypatch.setitem(MODELS, "popularity", f"{__name__}:Long")
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(TABLES, out, train=DOCS, dev=DOCS.select(range(3)), ontology=ONTOLOGY)
    return out


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"train": DOCS.select(range(20))}, "with other training documents"),
        ({"dev": DOCS.select(range(4))}, "with other dev documents"),
        ({"dev": None}, "with other training documents and other dev documents"),
        ({"ontology": build_ontology([Concept("fish"), Concept("oak")])}, "with another ontology"),
        ({"ontology": None}, "with another ontology"),
    ],
)
def test_an_unfinished_run_with_other_data_is_not_thrown_away(interrupted, other, named):
    given = {"train": DOCS, "dev": DOCS.select(range(3)), "ontology": ONTOLOGY}
    kept = {path: path.read_bytes() for path in interrupted.rglob("*") if path.is_file()}
    with pytest.raises(RunError, match=f"an unfinished run {named}$") as refused:
        train(TABLES, interrupted, **{**given, **other})
    assert refused.value.hint == "choose another --out, or remove that folder first"
    assert {p: p.read_bytes() for p in interrupted.rglob("*") if p.is_file()} == kept
    train(TABLES, interrupted, **given)  # the same training still goes on
    assert not (interrupted / "work").exists()


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    for name in ("diary.txt", ".lock"):
        (tmp_path / name).write_text("private")
    with pytest.raises(RunError, match="not empty and not a run"):
        train(TABLES, tmp_path, train=DOCS)
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {
        "diary.txt": "private", ".lock": "private"
    }  # fmt: skip


WAITING = """
import sys
from pathlib import Path
from ontodex.models import MODELS
from ontodex.models.popularity import Popularity
from ontodex.read import open_corpus
from ontodex.recipe import train
class Waiting(Popularity):
    def fit(self, train, dev, labels):
        print("at work", flush=True)
        sys.stdin.read()
        super().fit(train, dev, labels)
MODELS["popularity"] = "__main__:Waiting"
train({"model": {"name": "popularity"}}, Path(sys.argv[1]), train=open_corpus(Path(sys.argv[2])))
"""


@pytest.fixture
def at_work(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that trains TABLES on docs.jsonl in the folder run, until its input ends."""
    jsonl.write(DOCS, tmp_path / "docs.jsonl")
    command = [sys.executable, "-c", WAITING, str(tmp_path / "run"), str(tmp_path / "docs.jsonl")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "at work\n"
        yield process
        process.kill()


def test_a_folder_that_is_being_trained_in_is_refused(at_work, tmp_path):
    run, docs = tmp_path / "run", tmp_path / "docs.jsonl"
    before = sorted(run.rglob("*"))
    done = ontodex("train", "--model", "popularity", "--train", str(docs), "--out", str(run))
    assert done.returncode == 2
    assert "run: another process is working on it" in done.stderr
    assert sorted(run.rglob("*")) == before
    at_work.communicate(timeout=60)
    assert at_work.returncode == 0
    assert set(store.verify(run)["files"]) == {"config.toml", "decision.json", "labels.tsv"}
    assert not list(run.glob(".*")), "no lock is left behind"


@pytest.mark.slow
def test_a_killed_training_keeps_nobody_out(at_work, tmp_path):
    at_work.kill()
    at_work.wait()
    train(TABLES, tmp_path / "run", train=open_corpus(tmp_path / "docs.jsonl"))
    assert not list((tmp_path / "run").glob(".*"))


def test_where_the_disk_knows_no_locks_that_is_said_and_it_trains(tmp_path, monkeypatch, caplog):
    def flock(*_: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", flock)
    train(TABLES, tmp_path / "run", train=DOCS)
    assert "knows no locks" in caplog.text


@pytest.mark.parametrize(
    ("tables", "complaint"),
    [
        ({}, r"\[model\] has no name"),
        ({"model": {"name": "popularty"}}, "did you mean 'popularity'"),
        ({"modle": {}}, "no table .modle.; did you mean 'model'"),
        ({"model": {"name": "popularity", "x": 1}}, r"\[model\] has no setting 'x'"),
        ({"model": {"name": "popularity"}, "labels": {"min_count": 0}}, "at least 1, not 0"),
    ],
)
def test_a_bad_setting_is_known_before_anything_is_written(tmp_path, tables, complaint):
    with pytest.raises(ConfigError, match=complaint):
        train(tables, tmp_path / "run", train=DOCS)
    assert not (tmp_path / "run").exists()


def test_a_corpus_without_labels_cannot_be_trained_on(tmp_path):
    blank = Corpus.of([Doc("1", {"text": "x"}), Doc("2", {"text": "y"})])
    with pytest.raises(DataError, match="no training document has a label") as refused:
        train(TABLES, tmp_path / "run", train=blank)
    assert "min_count" not in str(refused.value.hint)


def test_a_count_that_no_label_reaches_is_named(tmp_path):
    tables = {**TABLES, "labels": {"min_count": 31}}
    with pytest.raises(DataError, match="no label is in 31 training documents or more") as refused:
        train(tables, tmp_path / "run", train=DOCS)
    assert refused.value.hint == "lower --set labels.min_count"


def test_labels_outside_the_ontology_and_a_dev_without_labels_are_said(tmp_path, caplog):
    strange = Corpus.of([*DOCS, Doc("x", {"title": "asteroid"}, (), ("asteroid",))])
    bare = Corpus.of([Doc("y", {"title": "trout"})])
    train(TABLES, tmp_path / "run", train=strange, dev=bare, ontology=ONTOLOGY)
    said = [record.getMessage() for record in caplog.records]
    assert any("1 of the 3 labels" in line and "'asteroid'" in line for line in said)
    assert any("no dev document has a label" in line for line in said)


def test_an_ontology_with_none_of_the_labels_is_refused(tmp_path):
    ontology = build_ontology([Concept("D001", {"en": "Calcimycin"})])
    with pytest.raises(DataError, match=r"none of the 2 labels .* like 'fish', .* like 'D001'"):
        train(TABLES, tmp_path / "run", train=DOCS, ontology=ontology)
    assert not (tmp_path / "run").exists()


def test_a_mistyped_file_leaves_no_claimed_folder_behind(tmp_path):
    (tmp_path / "train.jsonl").write_text('{"id": "1", "title": "trout", "labels": ["fish"]}\n')
    command = ["train", "--model", "popularity", "--out", str(tmp_path / "run")]
    for option in ("--train", "--ontology", "--dev"):
        files = {"--train": "train.jsonl", option: "no-such-file.jsonl"}
        named = [part for o, name in files.items() for part in (o, str(tmp_path / name))]
        answer = CliRunner().invoke(app, [*command, *named])
        assert answer.exit_code != 0
        assert not (tmp_path / "run").exists(), option


def test_a_finished_run_keeps_its_files_whatever_is_refused_after_it(tmp_path):
    out = tmp_path / "run"
    with pytest.raises(DataError), claimed(out, resolve(TABLES)):
        store.finish(out, {})
        raise DataError("found too late")
    assert store.verify(out)["files"].keys() == {"config.toml"}


def test_a_setting_that_is_no_number_is_refused_before_the_folder_is_claimed(tmp_path):
    command = ["train", "--model", "levelwise", "--train", "sample", "--out", str(tmp_path / "run")]
    answer = CliRunner().invoke(app, [*command, "--set", "model.ofo_prior=nan"])
    assert str(answer.exception) == "[model] ofo_prior takes a number, not nan"
    assert not (tmp_path / "run").exists()


def test_a_label_with_a_tab_is_refused_by_name(tmp_path):
    labels = LabelSpace(("a\tb",), np.array([1]), 1)
    with pytest.raises(RunError, match=r"'a\\tb' has a tab"):
        store.save_labels(labels, tmp_path / "labels.tsv")


@pytest.mark.parametrize("threads", ["1", None])
def test_a_report_says_where_a_training_could_not_use_every_core(tmp_path, monkeypatch, threads):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if threads:
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
    run = train(TABLES, tmp_path / "run", train=DOCS)
    run.evaluate(DOCS, report=True)
    report = (run.folder / "report.html").read_text(encoding="utf-8")
    assert (", OMP_NUM_THREADS=1<" in report) == bool(threads)


def test_evaluation_leaves_metrics_and_a_report_and_the_run_still_loads(copy):
    metrics = load(copy).evaluate(DOCS, report=True)
    assert metrics["P@1"] == 1.0
    kept = json.loads((copy / "metrics.json").read_text())
    assert kept["P@1"] == 1.0
    assert "popularity" in (copy / "report.html").read_text()
    assert load(copy).suggest("x")


def test_labels_that_are_all_unknown_are_not_measured_and_leave_what_was(folder):
    before = (folder / "metrics.json").exists() and (folder / "metrics.json").read_bytes()
    strange = Corpus.of([Doc("1", {"text": "trout"}, (), ("http://example.org/fish",))])
    with pytest.raises(DataError, match="knows none of the labels") as met:
        load(folder).evaluate(strange, report=True)
    assert "'fish' is one" in met.value.hint
    assert ((folder / "metrics.json").exists() and (folder / "metrics.json").read_bytes()) == before


def test_explaining_with_a_system_that_cannot_is_a_sentence(folder):
    with pytest.raises(RunError, match="'popularity' cannot explain"):
        load(folder).explain("text")


def test_a_label_that_is_not_known_gets_the_nearest_names_not_a_list_cut_short(folder):
    run = load(folder)
    assert run.find_column("OAK") == run.find_column("Quercus") == run.find_column("oak")
    with pytest.raises(RunError, match=r"no concept 'fisch'; did you mean 'Fish'\?$") as met:
        run.find_column("fisch")
    assert met.value.hint == f"take an id or a name of the 4 in {folder / 'labels.tsv'}"
    with pytest.raises(RunError, match=r"no concept 'zebra crossings'$"):
        run.find_column("zebra crossings")


def small_run(out: Path, name: str, **tables: dict[str, object]) -> Run:
    docs = [
        Doc(f"{label}{i}", {"text": f"{word} in the cold water {i}"}, (), (label,))
        for i in range(6)
        for label, word in (("fish", "trout"), ("oak", "leaves"))
    ]
    docs += [Doc("n", {"text": "a newt in the moss"}, (), ("newt",))]
    corpora = {"train": Corpus.of(docs), "dev": Corpus.of(docs)}
    return train({"model": {"name": name}, **tables}, out, ontology=ONTOLOGY, **corpora)


def test_marks_show_what_speaks_for_a_concept_and_against_it():
    weights = {"Brown": 0.4, "trout": 2.0, "out": 2.0, "the": 0.01, "weir": -1.0}
    text = "Brown troutout of the weir."
    at = {word: text.rindex(word) for word in weights}  # "out" right behind "trout"
    spans = [Span(at[word], at[word] + len(word), weight) for word, weight in weights.items()]
    found = marked(Explanation(text, "fish", "Fish", 0.25, spans))
    assert found.splitlines() == [
        "Fish (fish), probability 0.250",
        "*Brown* **troutout** of the ~~weir~~.",
    ]


def test_an_explanation_in_a_file_has_marks_and_its_lines_are_not_cut(tmp_path):
    run = small_run(tmp_path / "run", "linear")
    text = "trout " + "and so it goes on and on " * 6
    done = ontodex("explain", str(run.folder), text, "--label", "fish")
    title, line = done.stdout.splitlines()
    assert title.startswith("Fish (fish), probability")
    assert line.startswith("**trout**")
    assert line.replace("*", "").replace("~~", "") == text


@pytest.mark.parametrize("name", ["linear", "knn", "lexical"])
def test_a_concept_that_was_never_learned_is_said_to_be_so(tmp_path, name):
    run = small_run(tmp_path / "run", name)
    asked = ["explain", str(run.folder), "trout in the river", "--label", "Animals"]
    assert "never learned: no training document has it" in CliRunner().invoke(app, asked).stdout
    told = json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)
    assert told["remark"] == "never learned: no training document has it"
    assert run.explain("trout in the river", "newt").remark == ""


def test_a_label_of_too_few_documents_is_said_to_be_so(tmp_path):
    run = small_run(tmp_path / "run", "linear", labels={"min_count": 2})
    remark = run.explain("a newt", "newt").remark
    assert remark == "never learned: fewer than 2 training documents have it"


def test_a_name_explains_a_concept_that_was_never_learned(tmp_path):
    found = small_run(tmp_path / "run", "lexical").explain("many animals drink", "Animals")
    assert found.probability > 0
    assert [found.text[span.start : span.end] for span in found.spans] == ["animals"]
    assert found.remark == ""


def test_the_format_of_the_first_version_can_still_be_read():
    """This folder was written by the first version; it stays as it is."""
    old = Path(__file__).parent / "runs" / "format-1"
    assert [s.name for s in load(old).suggest("text", limit=2)] == ["Fish", "Oak"]


# ----------------------------------------------------------------------------------------- tensors


def test_tensors_come_back_whole_from_shards(tmp_path):
    rng = np.random.default_rng(0)
    tensors = {
        "big": rng.random((1000, 7)).astype(np.float32),
        "half": rng.random((30, 3)).astype(np.float16),
        "ids": np.arange(11, dtype=np.int64),
        "empty": np.empty((0, 4), np.float32),
        "one": np.array(3.0),
    }
    store.save_tensors(tmp_path, "w", tensors, shard_bytes=4096)
    shards = list(tmp_path.glob("*.safetensors"))
    assert len(shards) > 6
    assert max(path.stat().st_size for path in shards) < 8192
    back = store.load_tensors(tmp_path, "w")
    assert back.keys() == tensors.keys()
    for name, value in tensors.items():
        np.testing.assert_array_equal(back[name], value)
        assert back[name].dtype == value.dtype


def test_a_tensor_in_one_piece_is_mapped_not_read(tmp_path):
    store.save_tensors(tmp_path, "w", {"a": np.arange(10_000)})
    loaded = store.load_tensors(tmp_path, "w")["a"]
    owner = loaded
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    assert isinstance(owner, np.memmap)


@pytest.mark.parametrize("cut", [0, 5, 60, -1])
def test_a_truncated_tensor_file_is_a_sentence(tmp_path, cut):
    store.save_tensors(tmp_path, "w", {"a": np.arange(100)})
    path = tmp_path / "w.safetensors"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(RunError, match="not a readable safetensors file"):
        store.load_tensors(tmp_path, "w")


def test_a_header_that_lies_about_its_tensors_is_refused(tmp_path):
    store.save_tensors(tmp_path, "w", {"a": np.arange(100)})
    path = tmp_path / "w.safetensors"
    path.write_bytes(path.read_bytes().replace(b'"shape":[100]', b'"shape":[999]'))
    with pytest.raises(RunError, match="not a readable safetensors file"):
        store.load_tensors(tmp_path, "w")


# ------------------------------------------------------------------------------------ the commands


def ontodex(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ontodex", *words],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "NO_COLOR": "1"},
        check=False,
    )


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
        done = ontodex(*words)
        assert done.returncode == 2, (words, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr, (words, done.stderr)
        assert done.stderr.strip(), words


def test_the_line_of_a_bad_record_is_named(tmp_path):
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"id": "1", "text": "fine", "labels": ["a"]}\nnot json\n')
    done = ontodex("convert", str(bad), str(tmp_path / "out.csv"))
    assert "bad.jsonl:2: " in done.stderr


def test_suggest_reads_text_files_and_standard_input_alike(folder, tmp_path):
    (tmp_path / "a.txt").write_text("trout")
    words = ontodex("suggest", str(folder), "trout", "--json")
    from_file = ontodex("suggest", str(folder), str(tmp_path / "a.txt"), "--json")
    assert words.returncode == 0
    assert json.loads(words.stdout)[0] == {
        "label": "fish",
        "name": "Fish",
        "probability": 1.0,
        "apart": 1.0,
        "path": ["Animals", "Fish"],
        "level": 2,
        "other_parents": [],
        "more_specific": [],
    }
    assert from_file.stdout == words.stdout


def test_a_text_longer_than_any_file_name_is_a_text(folder):
    long = "word " * 60  # 300 bytes on one line, without a slash
    assert ontodex("suggest", str(folder), long).stdout == (
        ontodex("suggest", str(folder), "trout").stdout
    )


@pytest.mark.parametrize("given", ["nofile.txt", "./articel", "Letters/7.PDF", "a.jsonl.gz"])
@pytest.mark.parametrize("command", ["suggest", "explain"])
def test_a_mistyped_file_name_is_not_taken_for_a_text(folder, command, given):
    done = CliRunner().invoke(app, [command, str(folder), given])
    assert isinstance(done.exception, DataError)
    assert str(done.exception) == f"{given}: there is no such file"
    assert "standard input" in done.exception.hint
    by_pipe = CliRunner().invoke(app, ["suggest", str(folder), "-"], input=given)
    assert by_pipe.exit_code == 0, "what looks like a name may still be the text"


def test_a_folder_is_not_taken_for_a_text(folder, tmp_path):
    done = CliRunner().invoke(app, ["suggest", str(folder), str(tmp_path)])
    assert isinstance(done.exception, DataError)
    assert str(done.exception) == f"{tmp_path}: is a folder"


@pytest.mark.parametrize("given", ["trout", "trout and/or oak", "see notes.txt", "St. Gallen."])
def test_words_that_hold_slashes_or_dots_are_still_a_text(folder, given):
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


def test_a_language_that_the_ontology_does_not_have_is_said(folder, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"id": "1", "text": "trout"}\n')
    table = [str(tmp_path / "in.jsonl"), str(tmp_path / "out.csv"), "--workers", "1"]
    for words in (["suggest", str(folder), "trout"], ["index", str(folder), *table]):
        done = CliRunner().invoke(app, [*words, "--language", "xx"])
        assert done.exit_code == 0
        assert "xx: not one of the ontology, whose names are in de, en\n" in done.stderr
    done = CliRunner().invoke(app, ["suggest", str(folder), "trout", "--language", "de"])
    assert done.stderr == ""


def test_where_no_suggestion_reaches_the_threshold_the_best_are_named(tmp_path):
    docs = [Doc(str(i), {"text": "trout"}, (), (f"l{i % 10}",)) for i in range(40)]
    run = train(TABLES, tmp_path / "run", train=Corpus.of(docs), dev=Corpus.of(docs))
    asked = ["suggest", str(run.folder), "trout", "--threshold", "0.5"]
    said, *best = CliRunner().invoke(app, asked).stdout.splitlines()
    assert said == "no suggestion reaches 0.5; the best are"
    assert [line.split() for line in best] == [["0.100", f"l{i}", f"l{i}"] for i in range(5)]
    assert json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout) == []


def test_a_page_is_read_for_its_text_and_a_damaged_pdf_is_a_sentence(folder, tmp_path):
    (tmp_path / "a.html").write_text("<h1>trout</h1><script>alert(1)</script><p>stream</p>")
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.4 nonsense")
    assert text_of(str(tmp_path / "a.html")) == "trout\nstream"
    answer = CliRunner().invoke(app, ["suggest", str(folder), str(tmp_path / "a.pdf")])
    assert isinstance(answer.exception, DataError)
    assert str(answer.exception).startswith(f"{tmp_path / 'a.pdf'}: not a readable PDF")


def test_where_none_is_chosen_the_best_are_named_as_not_chosen():
    considered = [Suggestion(f"l{i}", f"L{i}", 0.1, ()) for i in range(7)]
    said, *best = none_chosen(considered).splitlines()
    assert said == "no concept was chosen; the best are"
    assert [line.split() for line in best] == [
        ["0.100", f"L{i}", f"l{i}", "not", "chosen"] for i in range(5)
    ]


def test_where_nothing_is_ranked_that_is_said():
    assert none_chosen([]) == "no concept was chosen, and none has a chance"

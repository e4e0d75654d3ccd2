"""Experiments: a file, runs for whatever is missing, a table with the same bytes every time."""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ontodex import data
from ontodex.cli import app
from ontodex.errors import ConfigError, DataError, MissingExtraError, RunError
from ontodex.experiment import check_data, read_plan, run_experiment
from ontodex.models import MODELS
from ontodex.models.popularity import Popularity
from ontodex.read import write_docs
from ontodex.types import Corpus, Doc

FILES = Path(__file__).resolve().parent.parent / "experiments"
WORDS = {"fish": "trout river", "oak": "leaf bark", "bread": "oven crust"}
PLAN = """
title = "Small"
note = "Made in a hurry."
[corpora.small]
train = "train.jsonl"
test = "test.jsonl"
[[systems]]
name = "floor"
model = "popularity"
[[systems]]
name = "near"
model = "knn"
[[systems]]
name = "both"
consensus = ["floor", "near"]
[published.small."A & B"]
source = "a paper, Table 1"
"P@1" = 61.5
"""


def corpus(n: int) -> Corpus:
    return Corpus.of(
        Doc(f"{n}-{i}", {"title": f"{words} {i % 5}"}, (), (label, "fish") if i % 4 else (label,))
        for i, (label, words) in enumerate(list(WORDS.items()) * n)
    )


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_docs(corpus(10), folder / "train.jsonl", "jsonl")
    write_docs(corpus(4), folder / "test.jsonl", "jsonl")
    return folder


@pytest.fixture(scope="module")
def finished(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("finished")
    run_experiment(plan(out, PLAN), out, root=root)
    return out


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copy"))


def plan(folder: Path, text: str) -> Path:
    (folder / "plan.toml").write_text(text)
    return folder / "plan.toml"


def lines(out: Path) -> dict[str, list[str]]:
    """Cells of the Markdown table by their first one."""
    rows = [row for row in (out / "results.md").read_text().splitlines() if row.startswith("|")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return {row[0]: row[1:] for row in cells}


def test_the_table_holds_ours_beside_the_quoted(finished):
    told = json.loads((finished / "results.json").read_text())
    rows = {row["name"]: row for row in told["sections"][0]["rows"]}
    table = lines(finished)
    assert list(table) == ["", "---", "floor", "near", "both", "A & B (quoted)"]
    assert table["A & B (quoted)"][0] == "61.50"
    metrics = json.loads((finished / "runs" / "small" / "near" / "metrics.json").read_text())
    assert table["near"][0] == f"{100 * metrics['P@1']:.2f}"
    assert rows["near"]["figures"]["P@1"]["mean"] == pytest.approx(100 * metrics["P@1"])
    assert metrics["corpus"]["documents"] == 12
    text = (finished / "results.md").read_text()
    assert text.startswith("# Small\n\nMade in a hurry.\n")
    assert "12 test" in text
    assert "A & B: quoted from a paper, Table 1" in text
    assert f"{len(os.sched_getaffinity(0))} cores of" in text


def test_names_are_escaped_in_the_page(finished):
    page = (finished / "results.html").read_text()
    assert "A &amp; B (quoted)" in page
    assert "A & B" not in page


def test_a_second_time_nothing_is_trained_and_the_bytes_are_the_same(copy, root):
    kept = ("results.md", "results.html", "results.json")
    before = [(copy / name).read_bytes() for name in kept]
    stamps = {p: p.stat().st_mtime_ns for p in (copy / "runs").rglob("*") if p.is_file()}
    for name in kept:
        (copy / name).unlink()
    run_experiment(copy / "plan.toml", copy, root=root)
    assert [(copy / name).read_bytes() for name in kept] == before
    assert {p: p.stat().st_mtime_ns for p in (copy / "runs").rglob("*") if p.is_file()} == stamps


def test_an_unfinished_run_goes_on_and_the_finished_ones_stay(copy, root):
    runs = copy / "runs" / "small"
    (runs / "near" / "manifest.json").unlink()
    floor = (runs / "floor" / "manifest.json").stat().st_mtime_ns
    run_experiment(copy / "plan.toml", copy, root=root)
    assert (runs / "near" / "manifest.json").exists()
    assert (runs / "floor" / "manifest.json").stat().st_mtime_ns == floor


def test_a_run_that_was_not_measured_is_measured(copy, root):
    near = copy / "runs" / "small" / "near"
    (near / "metrics.json").unlink()
    trained = (near / "manifest.json").read_bytes()
    run_experiment(copy / "plan.toml", copy, root=root)
    assert json.loads((near / "metrics.json").read_text())["P@1"] > 0.5
    assert (near / "manifest.json").read_bytes() == trained


def test_a_run_of_other_settings_is_not_taken_for_the_one_asked_for(copy, root):
    changed = PLAN.replace('model = "knn"', 'model = "knn"\nsettings.labels.min_count = 2')
    run_experiment(plan(copy, changed), copy, root=root)
    assert "near failed: " in (copy / "results.md").read_text()
    assert "other settings than the file says" in (copy / "results.md").read_text()
    assert lines(copy)["floor"][0]


@pytest.mark.parametrize("is_joined", [True, False])
def test_a_consensus_fails_with_its_member(copy, root, is_joined):
    both = copy / "runs" / "small" / "both"
    if not is_joined:
        shutil.rmtree(both)
    changed = PLAN.replace('model = "knn"', 'model = "knn"\nsettings.labels.min_count = 2')
    above = '[[systems]]\nname = "all"\nconsensus = ["floor", "both"]\n[published'
    run_experiment(plan(copy, changed.replace("[published", above)), copy, root=root)
    text, table = (copy / "results.md").read_text(), lines(copy)
    assert "both failed: its member near failed\n" in text
    assert "all failed: its member both failed\n" in text
    assert not any(table["both (failed)"] + table["all (failed)"])
    assert both.exists() == is_joined


def test_a_run_of_other_documents_is_not_taken_for_the_one_asked_for(copy, tmp_path):
    write_docs(corpus(8), tmp_path / "train.jsonl", "jsonl")
    write_docs(corpus(4), tmp_path / "test.jsonl", "jsonl")
    run_experiment(copy / "plan.toml", copy, root=tmp_path)
    text = (copy / "results.md").read_text()
    for name in ("floor", "near"):
        assert re.search(f"{name} failed: .*: trained on other documents", text)
    assert "both failed: its members floor and near failed" in text


def test_a_consensus_of_runs_that_were_made_anew_is_not_kept(copy, root):
    changed = PLAN.replace('model = "knn"', 'model = "knn"\nsettings.model.neighbours = 3')
    shutil.rmtree(copy / "runs" / "small" / "near")
    run_experiment(plan(copy, changed), copy, root=root)
    text = (copy / "results.md").read_text()
    assert "both failed: " in text
    assert "made of another near" in text
    assert "near failed" not in text


def test_a_changed_test_corpus_is_measured_again(copy, root, tmp_path):
    shutil.copy(root / "train.jsonl", tmp_path)
    write_docs(corpus(6), tmp_path / "test.jsonl", "jsonl")
    run_experiment(copy / "plan.toml", copy, root=tmp_path)
    assert "18 test" in (copy / "results.md").read_text()


class NeedsMore(Popularity):
    def fit(self, train, dev, labels):
        raise MissingExtraError("this needs the package 'gigalearn'", hint="pip install it")


class Breaks(Popularity):
    def fit(self, train, dev, labels):
        raise RuntimeError("singular matrix\nand more lines of it")


def test_what_fails_is_a_line_that_says_why_and_the_others_go_on(monkeypatch, root, tmp_path):
    monkeypatch.setitem(MODELS, "needy", f"{__name__}:NeedsMore")
    monkeypatch.setitem(MODELS, "breaks", f"{__name__}:Breaks")
    text = PLAN.split("[published")[0].replace('"knn"', '"needy"')
    text += '[[systems]]\nname = "broken"\nmodel = "breaks"\n'
    text += '[[systems]]\nname = "last"\nmodel = "popularity"\n'
    run_experiment(plan(tmp_path, text), tmp_path / "out", root=root)
    table, said = lines(tmp_path / "out"), (tmp_path / "out" / "results.md").read_text()
    assert list(table)[2:] == ["floor", "near (failed)", "both (failed)", "broken (failed)", "last"]
    assert "near failed: this needs the package 'gigalearn' (pip install it)" in said
    assert "broken failed: singular matrix\n" in said
    assert "both failed: its member near failed\n" in said
    assert table["last"][0] == table["floor"][0]


def test_files_that_are_not_there_are_named_together_before_anything_starts(root, tmp_path):
    absent = '[corpora.absent]\ntrain = "no.jsonl"\ntest = "nor.jsonl"\nontology = "none.json"\n'
    text = PLAN.replace("[[systems]]", f"{absent}[[systems]]", 1)
    words = ["experiment", str(plan(tmp_path, text)), "--root", str(root), "--out"]
    error = CliRunner().invoke(app, [*words, str(tmp_path / "out")]).exception
    assert isinstance(error, DataError)  # in a shell a sentence and exit code 2
    for name in ("no.jsonl", "nor.jsonl", "none.json"):
        assert f"no {root / name}" in str(error)
    assert "train.jsonl" not in str(error)
    assert "--root" in error.hint
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_no_corpus_is_known_before_anything_starts(root, tmp_path):
    write_docs(corpus(4), tmp_path / "train.jsonl", "jsonl")
    (tmp_path / "test.jsonl").write_bytes(b"")
    with pytest.raises(DataError, match=r"test\.jsonl: not a corpus format.*an empty file"):
        run_experiment(plan(tmp_path, PLAN), tmp_path / "out", root=tmp_path)
    assert not (tmp_path / "out").exists()


def test_a_corpus_of_files_with_a_common_beginning_is_there(tmp_path):
    features = '[corpora.b]\ntrain = "tr"\ntest = "tr"\n[[systems]]\nname = "a"\nmodel = "knn"\n'
    known = read_plan(plan(tmp_path, features))
    with pytest.raises(DataError, match="nothing was started"):
        check_data(known, root=tmp_path, out=tmp_path)
    rows = [Doc(str(i), features={i: 1.0}, labels=("a",)) for i in range(3)]
    write_docs(Corpus.of(rows), tmp_path / "tr", "xmc-matrix")
    check_data(known, root=tmp_path, out=tmp_path)


def test_the_command_fails_where_a_line_failed_and_the_tables_have_the_others(
    monkeypatch, root, tmp_path
):
    monkeypatch.setitem(MODELS, "breaks", f"{__name__}:Breaks")
    text = NOISY.replace('model = "knn"', 'model = "breaks"')
    words = ["experiment", str(plan(tmp_path, text)), "--root", str(root), "--out"]
    shown = CliRunner().invoke(app, [*words, str(tmp_path / "out")])
    assert isinstance(shown.exception, RunError)
    failed = "near on small, both on small, near on small-missing-0.4, both on small-missing-0.4"
    assert f"failed: {failed}" in str(shown.exception)
    assert f"written to {tmp_path / 'out'}" in shown.stdout
    assert lines(tmp_path / "out")["floor"][0]


def test_seeds_give_a_mean_and_a_spread_and_a_consensus_of_each(root, tmp_path):
    text = """
[corpora.small]
train = "train.jsonl"
test = "test.jsonl"
[[systems]]
name = "floor"
model = "popularity"
[[systems]]
name = "lines"
model = "linear"
seeds = [1, 2]
settings.model.workers = 1
[[systems]]
name = "both"
consensus = ["lines", "floor"]
"""
    out = tmp_path / "out"
    results = run_experiment(plan(tmp_path, text), out, root=root)
    runs = out / "runs" / "small"
    assert sorted(p.name for p in runs.iterdir()) == [
        "both-1", "both-2", "floor", "lines-1", "lines-2",
    ]  # fmt: skip
    assert "seed = 2" in (runs / "lines-2" / "config.toml").read_text()
    row = results.sections[0].rows[1]
    times = [
        json.loads((runs / f"lines-{seed}" / "manifest.json").read_text())["train_seconds"]
        for seed in (1, 2)
    ]
    assert row.runs == 2
    assert row.figures["train s"].mean == pytest.approx(sum(times) / 2)
    assert row.figures["train s"].spread == pytest.approx(statistics.stdev(times))
    assert "±" in lines(out)["lines"][0]
    assert "lines: 2 seeds" in (out / "results.md").read_text()


def test_a_seed_reaches_every_training_of_a_system(tmp_path):
    text = """
[corpora.small]
train = "train.jsonl"
test = "test.jsonl"
[[systems]]
name = "levels"
model = "levelwise"
seeds = [5]
settings.model.pointer.train.epochs = 2
"""
    known = read_plan(plan(tmp_path, text))
    ((_, tables),) = known.jobs(known.systems["levels"], tmp_path)
    assert tables["model"]["train"] == {"seed": 5}
    assert tables["model"]["pointer"]["train"] == {"seed": 5, "epochs": 2}


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('title = "Small"', 'titel = "Small"', "no 'titel' in an experiment; did you mean 'title'"),
        ('model = "knn"', 'model = "kn"', "no system 'kn'; did you mean 'knn'"),
        ('model = "knn"', 'model = "knn"\nsettings.model.x = 1', "has no setting 'x'"),
        ('model = "knn"', 'modl = "knn"', "has no setting 'modl'; did you mean 'model'"),
        ('model = "knn"', 'model = "knn"\nseeds = [1]', "'knn' takes none"),
        ('model = "knn"', 'model = "knn"\non = ["big"]', "there is no 'big'; it takes small"),
        ('model = "knn"', 'model = "knn"\nconsensus = ["floor"]', "either model or consensus"),
        ('name = "near"', 'name = "floor"', "two are named 'floor'"),
        ('name = "near"', 'name = "../near"', "it names a folder"),
        ('["floor", "near"]', '["floor", "neer"]', "no 'neer'; did you mean 'near'"),
        ('test = "test.jsonl"', "", "needs train and test, or ready"),
        ('test = "test.jsonl"', 'ready = "sample"', "either ready or paths"),
        ('train = "train.jsonl"\ntest = "test.jsonl"', 'ready = "sampl"', "did you mean 'sample'"),
        ("published.small", "published.smal", "no 'smal'; did you mean 'small'"),
        ('source = "a paper, Table 1"', "", "needs a source"),
        ('"P@1" = 61.5', '"P@2" = 61.5', "no column 'P@2'"),
        ('"P@1" = 61.5', '"P@1" = "high"', "takes a number, not 'high'"),
    ],
)
def test_a_mistake_in_the_file_is_known_before_anything_runs(tmp_path, old, new, complaint):
    assert PLAN.count(old) == 1
    with pytest.raises(ConfigError, match=complaint):
        run_experiment(plan(tmp_path, PLAN.replace(old, new)), tmp_path / "out", root=tmp_path)
    assert not (tmp_path / "out").exists()


def test_a_system_like_another_has_its_model_and_its_settings_but_for_what_differs(tmp_path):
    text = (
        PLAN
        + """
[[systems]]
name = "nearer"
like = "near"
settings.model.neighbours = 3
settings.decide.rule = "ofo"
[[systems]]
name = "nearest"
like = "nearer"
settings.model.neighbours = 1
"""
    )
    text = text.replace('model = "knn"', 'model = "knn"\nsettings.model.exponent = 2.0')
    systems = read_plan(plan(tmp_path, text)).systems
    assert systems["nearest"].model == "knn"
    assert systems["nearest"].settings == {
        "model": {"exponent": 2.0, "neighbours": 1}, "decide": {"rule": "ofo"}
    }  # fmt: skip
    assert systems["nearer"].settings["model"]["neighbours"] == 3
    assert systems["near"].settings == {"model": {"exponent": 2.0}}
    with pytest.raises(ConfigError, match="no 'neer'; did you mean 'near'"):
        read_plan(plan(tmp_path, text.replace('like = "near"', 'like = "neer"')))


def test_a_consensus_needs_its_members_on_the_same_corpora(tmp_path):
    two = PLAN.replace("[[systems]]", '[corpora.more]\nready = "sample"\n[[systems]]', 1)
    with pytest.raises(ConfigError, match="'near' is not run on 'more'"):
        read_plan(plan(tmp_path, two.replace('model = "knn"', 'model = "knn"\non = ["small"]')))


def test_a_ready_set_below_the_root_is_used_and_else_made(tmp_path):
    text = '[corpora.sample]\nready = "sample"\n[[systems]]\nname = "a"\nmodel = "popularity"\n'
    run_experiment(plan(tmp_path, text), tmp_path / "one", root=tmp_path)
    made = tmp_path / "one" / "data"
    assert (made / "sample" / "train.jsonl").exists()
    run_experiment(tmp_path / "plan.toml", tmp_path / "two", root=made)
    assert not (tmp_path / "two" / "data").exists()
    assert "204 test" in (tmp_path / "two" / "results.md").read_text()


LAWS = '[corpora.laws]\nready = "laws"\n[[systems]]\nname = "a"\nmodel = "popularity"\n'


@pytest.fixture
def laws(monkeypatch) -> None:
    """A ready set that is made from files of the user's, as eurlex57k is."""

    def make(folder, inputs):
        for name, path in inputs.items():
            shutil.copy(path, folder / name)
        return list(inputs)

    needed = ("train.jsonl", "test.jsonl")
    ready = data.ReadySet("laws", "laws", "small", make, source_files=needed)
    monkeypatch.setattr(data, "SETS", (*data.SETS, ready))


def test_a_ready_set_is_made_from_the_files_below_the_root(laws, root, tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "laws").symlink_to(root)
    run_experiment(plan(tmp_path, LAWS), tmp_path / "one", root=tmp_path / "files")
    made = tmp_path / "one" / "data"
    assert "12 test" in (tmp_path / "one" / "results.md").read_text()
    assert (made / "laws" / data.MANIFEST).exists()
    run_experiment(plan(tmp_path, LAWS), tmp_path / "two", root=made)  # what `data get` wrote
    assert not (tmp_path / "two" / "data").exists()
    assert "12 test" in (tmp_path / "two" / "results.md").read_text()
    run_experiment(plan(tmp_path, LAWS), tmp_path / "one", root=tmp_path)  # the set is there


def test_a_ready_set_without_its_files_is_known_before_anything_starts(laws, root, tmp_path):
    (tmp_path / "laws").mkdir()
    shutil.copy(root / "test.jsonl", tmp_path / "laws")
    with pytest.raises(DataError, match=r"there is no [^,]*laws/train\.jsonl; nothing"):
        run_experiment(plan(tmp_path, LAWS), tmp_path / "out", root=tmp_path)
    assert not (tmp_path / "out").exists()


def test_the_command_prints_the_table_and_finds_the_root_in_the_environment(copy, root):
    words = ["experiment", str(copy / "plan.toml"), "--out", str(copy)]
    shown = CliRunner().invoke(app, words, env={"ONTODEX_DATA": str(root)})
    assert shown.exit_code == 0, shown.output
    assert "A & B (quoted)" in shown.stdout
    assert f"written to {copy}" in shown.stdout


NOISY = PLAN.replace('test.jsonl"\n', 'test.jsonl"\nmissing = [0.4, 0.8]\ninvalid = [0.5]\n', 1)


def test_label_noise_is_a_curve_over_runs_whose_training_labels_alone_are_noisy(root, tmp_path):
    out = tmp_path / "out"
    results = run_experiment(plan(tmp_path, NOISY), out, root=root)
    assert sorted(p.name for p in (out / "runs").iterdir()) == [
        "small", "small-invalid-0.5", "small-missing-0.4", "small-missing-0.8",
    ]  # fmt: skip
    about = {
        p.parent.parent.name: json.loads(p.read_text())
        for p in (out / "runs").glob("*/near/manifest.json")
    }
    assert len({a["train"]["key"] for a in about.values()}) == 4
    assert len({a["dev"]["key"] for a in about.values()}) == 1
    assert [section.corpus for section in results.sections] == ["small"]
    assert [(c.noise, sorted(c.sections)) for c in results.curves] == [
        ("missing", [0.0, 0.4, 0.8]),
        ("invalid", [0.0, 0.5]),
    ]
    metrics = json.loads((out / "runs/small-missing-0.8/near/metrics.json").read_text())
    head, *rows = results.curves[0].table("P@1")
    assert head == ["P@1", "0 %", "40 %", "80 %"]
    assert {row[0]: row[3] for row in rows}["near"] == f"{100 * metrics['P@1']:.2f}"
    assert "A & B" not in {row[0] for row in rows}, "nobody published it under noise"
    assert "![small, missing labels](noise-small-missing.svg)" in (out / "results.md").read_text()


def test_the_picture_of_a_curve_is_made_again_byte_by_byte(root, tmp_path):
    out = tmp_path / "out"
    results = run_experiment(plan(tmp_path, NOISY), out, root=root)
    picture = out / "noise-small-invalid.svg"
    before = picture.read_bytes()
    assert b"<svg" in before
    picture.unlink()
    results.curves[1].draw(out)
    assert picture.read_bytes() == before


@pytest.mark.slow
def test_workers_make_the_runs_that_one_process_makes_and_failures_are_told(root, tmp_path):
    text = NOISY + '[[systems]]\nname = "lost"\nmodel = "dxml"\nsettings.model.graph = "ontology"\n'
    alone = run_experiment(plan(tmp_path, text), tmp_path / "alone", root=root)
    apart = run_experiment(plan(tmp_path, text), tmp_path / "apart", root=root, workers=2)
    assert apart.curves[0].tables() == alone.curves[0].tables()
    assert "needs an ontology" in apart.sections[0].rows[-2].failure


def test_a_rate_that_is_no_share_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="rates in"):
        read_plan(plan(tmp_path, NOISY.replace("0.4, 0.8", "40")))


@pytest.mark.parametrize("path", sorted(FILES.glob("*.toml")), ids=lambda path: path.stem)
def test_the_files_in_experiments_are_sound(path):
    plan = read_plan(path)
    assert plan.systems


def test_the_file_in_the_guide_is_sound(tmp_path):
    guide = (FILES.parent / "docs" / "guide" / "experiments.md").read_text()
    example = guide.split("```toml\n")[1].split("```")[0]
    described = read_plan(plan(tmp_path, example))
    jobs = described.jobs(described.systems["both"], tmp_path)
    assert [folder.name for folder, _ in jobs] == ["both-1", "both-2", "both-3"]
    assert jobs[2][1]["model"]["members"] == [str(tmp_path / "linear-3"), str(tmp_path / "lexical")]

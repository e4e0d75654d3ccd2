"""Running an experiment: resume, failures, seeds, workers."""

from __future__ import annotations

import json
import re
import shutil
import statistics
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ontodex.cli import app
from ontodex.corpora.open import write_docs
from ontodex.errors import MissingExtraError, RunError
from ontodex.models import MODELS
from ontodex.models.baselines.popularity import PopularitySystem
from ontodex.runs.experiment.execute import run_experiment
from small_experiment import PLAN, corpus, plan


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copy"))


def lines(out: Path) -> dict[str, list[str]]:
    """Cells of the Markdown table by their first one."""
    rows = [row for row in (out / "results.md").read_text().splitlines() if row.startswith("|")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return {row[0]: row[1:] for row in cells}


def test_a_second_call_trains_nothing_and_writes_the_same_bytes(copy, root):
    kept = ("results.md", "results.html", "results.json")
    before = [(copy / name).read_bytes() for name in kept]
    stamps = {p: p.stat().st_mtime_ns for p in (copy / "runs").rglob("*") if p.is_file()}
    for name in kept:
        (copy / name).unlink()
    run_experiment(copy / "plan.toml", copy, root=root)
    assert [(copy / name).read_bytes() for name in kept] == before
    assert {p: p.stat().st_mtime_ns for p in (copy / "runs").rglob("*") if p.is_file()} == stamps


def test_an_unfinished_run_continues_and_finished_runs_are_kept(copy, root):
    runs = copy / "runs" / "small"
    (runs / "near" / "manifest.json").unlink()
    floor = (runs / "floor" / "manifest.json").stat().st_mtime_ns
    run_experiment(copy / "plan.toml", copy, root=root)
    assert (runs / "near" / "manifest.json").exists()
    assert (runs / "floor" / "manifest.json").stat().st_mtime_ns == floor


def test_a_run_without_metrics_is_evaluated(copy, root):
    near = copy / "runs" / "small" / "near"
    (near / "metrics.json").unlink()
    trained = (near / "manifest.json").read_bytes()
    run_experiment(copy / "plan.toml", copy, root=root)
    assert json.loads((near / "metrics.json").read_text())["P@1"] > 0.5
    assert (near / "manifest.json").read_bytes() == trained


def test_a_finished_run_with_other_settings_is_refused(copy, root):
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


def test_a_finished_run_with_other_documents_is_refused(copy, tmp_path):
    write_docs(corpus(8), tmp_path / "train.jsonl", "jsonl")
    write_docs(corpus(4), tmp_path / "test.jsonl", "jsonl")
    run_experiment(copy / "plan.toml", copy, root=tmp_path)
    text = (copy / "results.md").read_text()
    for name in ("floor", "near"):
        assert re.search(f"{name} failed: .*: trained on other documents", text)
    assert "both failed: its members floor and near failed" in text


def test_a_consensus_of_members_that_were_retrained_is_refused(copy, root):
    changed = PLAN.replace('model = "knn"', 'model = "knn"\nsettings.model.neighbours = 3')
    shutil.rmtree(copy / "runs" / "small" / "near")
    run_experiment(plan(copy, changed), copy, root=root)
    text = (copy / "results.md").read_text()
    assert "both failed: " in text
    assert "made of another near" in text
    assert "near failed" not in text


def test_a_changed_test_corpus_is_evaluated_again(copy, root, tmp_path):
    shutil.copy(root / "train.jsonl", tmp_path)
    write_docs(corpus(6), tmp_path / "test.jsonl", "jsonl")
    run_experiment(copy / "plan.toml", copy, root=tmp_path)
    assert "18 test" in (copy / "results.md").read_text()


class NeedsMore(PopularitySystem):
    def fit(self, train, dev, labels):
        raise MissingExtraError("this needs the package 'gigalearn'", hint="pip install it")


class Breaks(PopularitySystem):
    def fit(self, train, dev, labels):
        raise RuntimeError("singular matrix\nand more lines of it")


def test_a_failure_is_a_row_with_its_reason_and_the_others_continue(monkeypatch, root, tmp_path):
    monkeypatch.setitem(MODELS, "needy", f"{__name__}:NeedsMore")
    monkeypatch.setitem(MODELS, "breaks", f"{__name__}:Breaks")
    text = PLAN.split("[published")[0].replace('"knn"', '"needy"')
    text += '[[systems]]\nname = "broken"\nmodel = "breaks"\n'
    text += '[[systems]]\nname = "last"\nmodel = "popularity"\n'
    run_experiment(plan(tmp_path, text), tmp_path / "out", root=root)
    table, output = lines(tmp_path / "out"), (tmp_path / "out" / "results.md").read_text()
    assert list(table)[2:] == ["floor", "near (failed)", "both (failed)", "broken (failed)", "last"]
    assert "near failed: this needs the package 'gigalearn' (pip install it)" in output
    assert "broken failed: singular matrix\n" in output
    assert "both failed: its member near failed\n" in output
    assert table["last"][0] == table["floor"][0]


def test_the_command_fails_if_a_row_failed_and_the_tables_have_the_others(
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


def test_seeds_give_mean_and_deviation_and_a_consensus_for_each_seed(root, tmp_path):
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


def test_the_command_prints_the_table_and_finds_the_root_in_the_environment(copy, root):
    words = ["experiment", str(copy / "plan.toml"), "--out", str(copy)]
    shown = CliRunner().invoke(app, words, env={"ONTODEX_DATA": str(root)})
    assert shown.exit_code == 0, shown.output
    assert "A & B (quoted)" in shown.stdout
    assert f"written to {copy}" in shown.stdout


NOISY = PLAN.replace('test.jsonl"\n', 'test.jsonl"\nmissing = [0.4, 0.8]\ninvalid = [0.5]\n', 1)


@pytest.mark.slow
def test_workers_train_the_same_runs_as_one_process_and_report_failures(root, tmp_path):
    text = NOISY + '[[systems]]\nname = "lost"\nmodel = "dxml"\nsettings.model.graph = "ontology"\n'
    alone = run_experiment(plan(tmp_path, text), tmp_path / "alone", root=root)
    apart = run_experiment(plan(tmp_path, text), tmp_path / "apart", root=root, workers=2)
    assert apart.curves[0].tables() == alone.curves[0].tables()
    assert "needs an ontology" in apart.sections[0].rows[-2].failure

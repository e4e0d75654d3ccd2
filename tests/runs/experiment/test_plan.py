"""Experiment files: mistakes are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from ontodex.errors import ConfigError
from ontodex.runs.experiment.execute import run_experiment
from ontodex.runs.experiment.plan import read_plan
from small_experiment import PLAN, plan

FILES = Path(__file__).resolve().parents[3] / "experiments"


def test_a_seed_reaches_every_training_of_a_system(tmp_path):
    text = """
[corpora.small]
train = "train.jsonl"
test = "test.jsonl"
[[systems]]
name = "levels"
model = "levelwise"
seeds = [5]
"""
    known = read_plan(plan(tmp_path, text))
    ((_, tables),) = known.jobs(known.systems["levels"], tmp_path)
    assert tables["model"]["train"] == {"seed": 5}
    assert "pointer" not in tables["model"], "it takes the seed of the system"


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
def test_a_mistake_in_the_file_is_refused_before_anything_runs(tmp_path, old, new, complaint):
    assert PLAN.count(old) == 1
    with pytest.raises(ConfigError, match=complaint):
        run_experiment(plan(tmp_path, PLAN.replace(old, new)), tmp_path / "out", root=tmp_path)
    assert not (tmp_path / "out").exists()


def test_a_system_like_another_inherits_its_model_and_settings(tmp_path):
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


NOISY = PLAN.replace('test.jsonl"\n', 'test.jsonl"\nmissing = [0.4, 0.8]\ninvalid = [0.5]\n', 1)


def test_a_noise_rate_outside_0_to_1_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="rates in"):
        read_plan(plan(tmp_path, NOISY.replace("0.4, 0.8", "40")))


@pytest.mark.parametrize("path", sorted(FILES.glob("*.toml")), ids=lambda path: path.stem)
def test_the_files_in_experiments_are_valid(path):
    plan = read_plan(path)
    assert plan.systems


def test_the_file_in_the_guide_is_valid(tmp_path):
    guide = (FILES.parent / "docs" / "guide" / "experiments.md").read_text()
    example = guide.split("```toml\n")[1].split("```")[0]
    described = read_plan(plan(tmp_path, example))
    jobs = described.jobs(described.systems["both"], tmp_path)
    assert [folder.name for folder, _ in jobs] == ["both-1", "both-2", "both-3"]
    assert jobs[2][1]["model"]["members"] == [str(tmp_path / "linear-3"), str(tmp_path / "lexical")]


def test_settings_of_one_system_are_sent_to_train(tmp_path):
    path = tmp_path / "rankae.toml"
    path.write_text('[model]\nname = "rankae"\n')
    with pytest.raises(ConfigError, match="settings of one system, not an experiment") as refused:
        read_plan(path)
    assert f"ontodex train --config {path}" in refused.value.hint

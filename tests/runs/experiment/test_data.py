"""The data of an experiment: missing files, ready sets."""

from __future__ import annotations

import shutil

import pytest
from typer.testing import CliRunner

from ontodex.cli import app
from ontodex.corpora import datasets
from ontodex.corpora.open import write_docs
from ontodex.errors import DataError
from ontodex.runs.experiment.data import check_data
from ontodex.runs.experiment.execute import run_experiment
from ontodex.runs.experiment.plan import read_plan
from ontodex.types import Corpus, Doc
from small_experiment import PLAN, corpus, plan


def test_all_missing_files_are_named_before_anything_starts(root, tmp_path):
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


def test_a_file_that_is_not_a_corpus_is_refused_before_anything_starts(root, tmp_path):
    write_docs(corpus(4), tmp_path / "train.jsonl", "jsonl")
    (tmp_path / "test.jsonl").write_bytes(b"")
    with pytest.raises(DataError, match=r"test\.jsonl: is an empty file"):
        run_experiment(plan(tmp_path, PLAN), tmp_path / "out", root=tmp_path)
    assert not (tmp_path / "out").exists()


def test_a_corpus_of_several_files_with_a_common_prefix_is_found(tmp_path):
    features = '[corpora.b]\ntrain = "tr"\ntest = "tr"\n[[systems]]\nname = "a"\nmodel = "knn"\n'
    known = read_plan(plan(tmp_path, features))
    with pytest.raises(DataError, match="nothing was started"):
        check_data(known, root=tmp_path, out=tmp_path)
    rows = [Doc(str(i), features={i: 1.0}, labels=("a",)) for i in range(3)]
    write_docs(Corpus.of(rows), tmp_path / "tr", "xmc-matrix")
    check_data(known, root=tmp_path, out=tmp_path)


def test_a_ready_set_below_the_root_is_used_otherwise_written(tmp_path):
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
    ready = datasets.Dataset("laws", "laws", "small", make, source_files=needed)
    monkeypatch.setattr(datasets, "DATASETS", (*datasets.DATASETS, ready))


def test_a_ready_set_is_made_from_the_files_below_the_root(laws, root, tmp_path):
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "laws").symlink_to(root)
    run_experiment(plan(tmp_path, LAWS), tmp_path / "one", root=tmp_path / "files")
    made = tmp_path / "one" / "data"
    assert "12 test" in (tmp_path / "one" / "results.md").read_text()
    assert (made / "laws" / datasets.MANIFEST).exists()
    run_experiment(plan(tmp_path, LAWS), tmp_path / "two", root=made)  # what `data get` wrote
    assert not (tmp_path / "two" / "data").exists()
    assert "12 test" in (tmp_path / "two" / "results.md").read_text()
    run_experiment(plan(tmp_path, LAWS), tmp_path / "one", root=tmp_path)  # the set is there


def test_a_ready_set_without_its_files_is_refused_before_anything_starts(laws, root, tmp_path):
    (tmp_path / "laws").mkdir()
    shutil.copy(root / "test.jsonl", tmp_path / "laws")
    with pytest.raises(DataError, match=r"there is no [^,]*laws/train\.jsonl; nothing"):
        run_experiment(plan(tmp_path, LAWS), tmp_path / "out", root=tmp_path)
    assert not (tmp_path / "out").exists()

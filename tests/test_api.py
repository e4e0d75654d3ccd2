"""The public Python API, as a user types it: the examples of its docstrings run here."""

from __future__ import annotations

import dataclasses
import doctest
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import ontodex
from ontodex.corpora.formats import jsonl
from ontodex.errors import ConfigError
from ontodex.models import MODELS, find_model
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.ontology.open import write_ontology
from ontodex.runs.recipe import train
from ontodex.runs.settings import merge_keywords
from ontodex.serve.database.database import Database

CONCEPTS = [
    Concept("animals", {"en": "Animals"}),
    Concept("fish", {"en": "Fish"}, parents=["animals"]),
    Concept("oak", {"en": "Oak"}),
    Concept("newt", {"en": "Newt"}, parents=["animals"]),
]
ONTOLOGY = build_ontology(CONCEPTS)
DOCS = [
    ontodex.Doc(
        str(number),
        {"text": f"trout in the stream {number}" if number % 3 else f"an old oak {number}"},
        labels=("fish",) if number % 3 else ("oak",),
    )
    for number in range(30)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.jsonl, test.jsonl, ontology.json and the run runs/floor."""
    folder = tmp_path_factory.mktemp("api")
    jsonl.write(DOCS, folder / "train.jsonl")
    jsonl.write(DOCS[:6], folder / "test.jsonl")
    write_ontology(ONTOLOGY, folder / "ontology.json")
    ontodex.train(
        "popularity",
        train=str(folder / "train.jsonl"),
        ontology=str(folder / "ontology.json"),
        out=str(folder / "runs" / "floor"),
    )
    return folder


@pytest.fixture
def session(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with runs/knn, new.jsonl, newer.json and decisions.sqlite, entered."""
    monkeypatch.chdir(folder)
    ontodex.train("knn", train="train.jsonl", out="runs/knn")
    new = [ontodex.Doc(f"new{n}", {"text": "newts in a pond"}, labels=("newt",)) for n in (1, 2)]
    jsonl.write(new, Path("new.jsonl"))
    eel = Concept("eel", {"en": "Eel"}, parents=["animals"])
    write_ontology(build_ontology([*CONCEPTS, eel]), Path("newer.json"))
    Database.open("decisions.sqlite").close()
    return folder


# In this order: what one example writes is there for the next one, as in a session.
EXAMPLES = [
    train, ontodex.prepare, ontodex.load, ontodex.Run.suggest, ontodex.Run.explain,
    ontodex.Run.index, ontodex.evaluate, ontodex.compare, ontodex.export, ontodex.tune,
    ontodex.update,
    ontodex.list_versions, ontodex.restore_version, ontodex.migrate, ontodex.push, ontodex.pull,
    ontodex.learn,
]  # fmt: skip


def test_the_examples_of_the_docstrings_print_what_they_show(session):
    names = {"ontodex": ontodex}
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    for function in EXAMPLES:
        if (session / "runs" / "linear").exists():
            names["linear"] = ontodex.load("runs/linear")
        names["run"] = ontodex.load("runs/floor")
        (test,) = finder.find(function, function.__qualname__, globs=names)
        assert test.examples, f"{function.__qualname__} has no example"
        result = runner.run(test)
        assert result.failed == 0, function.__qualname__


def test_a_list_of_documents_gives_a_list_of_lists(folder):
    run = ontodex.load(folder / "runs" / "floor")
    one = run.suggest("trout")
    assert [found.name for found in one] == ["Fish", "Oak"]
    assert run.suggest(["trout", "oak"]) == [one, one]
    assert run.suggest(DOCS[0]) == one
    assert run.suggest(DOCS[:3]) == [one] * 3
    assert run.suggest([]) == []


def test_a_run_is_shown_in_one_line(folder):
    run = ontodex.load(folder / "runs" / "floor")
    assert repr(run) == f"Run({str(folder / 'runs' / 'floor')!r}, popularity, 4 labels)"


def test_runs_and_corpora_are_given_as_objects_or_as_paths(folder):
    path, corpus = folder / "runs" / "floor", ontodex.open_corpus(str(folder / "test.jsonl"))
    run = ontodex.load(path)
    assert ontodex.evaluate(str(path), str(folder / "test.jsonl"))["P@1"] == pytest.approx(4 / 6)
    assert ontodex.evaluate(run, corpus)["P@1"] == pytest.approx(4 / 6)
    found = ontodex.compare({"one": run, "two": run}, corpus)
    assert found.values["MiF"][0] == found.values["MiF"][1]


def test_keywords_are_settings_of_the_model_but_for_four_names():
    assert merge_keywords(
        "levelwise",
        {"model": {"hidden": 1, "ontology": "cluster"}, "labels": {"min_count": 2}},
        {"hidden": 2, "pointer": {"hidden": 3}, "loop": {"epochs": 4}, "refit": True,
         "decide": {"limit": 5}},
    ) == {
        "model": {"name": "levelwise", "hidden": 2, "ontology": "cluster", "pointer": {"hidden": 3},
                  "train": {"epochs": 4}},
        "labels": {"min_count": 2},
        "train": {"refit": True},
        "decide": {"limit": 5},
    }  # fmt: skip


def test_no_setting_of_a_system_is_hidden_by_a_parameter_that_means_something_else():
    """[model.train] is given as `loop`; [model] ontology of levelwise only in `config`."""
    taken = {*inspect.signature(train).parameters, "labels", "decide", "refit", "loop"}
    hidden = {
        setting.name
        for name in MODELS
        for setting in dataclasses.fields(find_model(name).Config)
        if setting.name in taken
    }
    assert hidden <= {"train", "ontology"}


def test_a_mistyped_setting_is_refused_before_a_file_is_read(tmp_path):
    with pytest.raises(ConfigError, match="did you mean 'cost'"):
        ontodex.train("linear", train="no-such-file.jsonl", out=tmp_path / "run", costs=2.0)
    assert not (tmp_path / "run").exists()


def test_importing_the_package_loads_nothing_heavy():
    code = "import ontodex, sys; print('numpy' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def test_the_probability_of_an_explanation_is_that_of_the_whole_ranking(folder, tmp_path):
    run = ontodex.train(
        "linear", train=folder / "train.jsonl", ontology=ONTOLOGY, out=tmp_path / "linear"
    )
    corpus = ontodex.Corpus.of([ontodex.Doc("", {"text": "an oak"})])
    whole = run.rank(corpus, len(run.labels))
    for column, probability in zip(whole.columns[0], whole.probabilities[0], strict=True):
        if column >= 0:
            found = run.explain("an oak", run.labels.ids[column])
            assert found.probability == probability
    assert run.explain("an oak").label == run.labels.ids[whole.columns[0, 0]]

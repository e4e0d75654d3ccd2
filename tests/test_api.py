"""The public Python API, as a user types it: the examples of its docstrings run here."""

from __future__ import annotations

import dataclasses
import doctest
import inspect
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ontodex
from ontodex.corpora.formats import jsonl
from ontodex.errors import ConfigError
from ontodex.models import MODELS, find_model
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.ontology.open import write_ontology
from ontodex.runs.index.job import IndexOptions, index_documents
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

NEWS = """headline,content,topics
Trout return,to the stream,fish|rivers
Storm,fells old trees,oaks
"""
EXPERIMENT = """
title = "One"
[corpora.one]
train = "train.jsonl"
test = "test.jsonl"
[[systems]]
name = "floor"
model = "popularity"
"""


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
    Path("news.csv").write_text(NEWS)
    Path("experiment.toml").write_text(EXPERIMENT)
    return folder


# In this order: what one example writes is there for the next one, as in a session.
EXAMPLES = [
    ontodex.Doc, ontodex.Corpus, ontodex.Ontology, ontodex.LabelSpace, ontodex.Ranking,
    ontodex.open_corpus, ontodex.read_ontology, ontodex.check, ontodex.convert, ontodex.prepare,
    ontodex.compare_ontologies, ontodex.list_systems, ontodex.find_settings,
    ontodex.train, ontodex.load, ontodex.Run.rank, ontodex.Run.decide, ontodex.Run.suggest,
    ontodex.Run.explain, ontodex.Run.index, ontodex.suggest_in_context, ontodex.explain_set,
    ontodex.evaluate, ontodex.compare, ontodex.export, ontodex.tune, ontodex.update,
    ontodex.list_versions, ontodex.restore_version, ontodex.migrate, ontodex.push, ontodex.pull,
    ontodex.learn, ontodex.migrate_decisions, ontodex.save_consensus, ontodex.run_experiment,
    ontodex.OntodexClassifier,
]  # fmt: skip


def test_every_public_function_has_an_example():
    functions = {name for name in ontodex.__all__ if inspect.isfunction(getattr(ontodex, name))}
    verbs = {"Run.rank", "Run.decide", "Run.suggest", "Run.explain", "Run.index"}
    nouns = {"Doc", "Corpus", "Ontology", "LabelSpace", "Ranking", "OntodexClassifier"}
    names = [f"Run.{thing.__name__}" if thing.__qualname__[:4] == "Run." else
             next(name for name in ontodex.__all__ if getattr(ontodex, name) is thing)
             for thing in EXAMPLES]  # fmt: skip
    assert set(names) == functions | verbs | nouns


def test_the_options_of_run_index_are_those_of_index_documents():
    options = inspect.get_annotations(IndexOptions)
    wanted = inspect.signature(index_documents).parameters.values()
    assert {name: str(hint) for name, hint in options.items()} == {
        f"{one.name}": f"ForwardRef({one.annotation!r}, module='{IndexOptions.__module__}')"
        for one in wanted
        if one.kind is one.KEYWORD_ONLY
    }


def test_the_examples_of_the_docstrings_print_what_they_show(session):
    names = {"ontodex": ontodex}
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    for function in EXAMPLES:
        if (session / "runs" / "linear").exists():
            names["linear"] = ontodex.load("runs/linear")
        names["run"] = ontodex.load("runs/floor")
        (test,) = finder.find(function, function.__qualname__, globs=names)
        assert test.examples, f"{function.__qualname__} has no example"
        runner.run(test)
    assert runner.summarize().failed == 0


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


PATHS = ("Path", "Documents", "Sources")  # parts of the annotations of arguments that take paths


def list_path_arguments() -> Iterator[tuple[str, str]]:
    """Yield the name and the annotation of each public function or method, for each argument that
    takes a path. Constructors of runs and corpora are not called by users."""
    for name in ontodex.__all__:
        thing = getattr(ontodex, name)
        functions = {name: thing} if inspect.isfunction(thing) else {}
        if inspect.isclass(thing):
            members = {f"{name}.{own}": getattr(thing, own) for own in vars(thing) if own[0] != "_"}
            functions = {own: value for own, value in members.items() if callable(value)}
        for own, function in functions.items():
            for parameter in inspect.signature(function).parameters.values():
                if any(word in str(parameter.annotation) for word in PATHS):
                    yield own, str(parameter.annotation)


# Calls with every path argument, of the public functions and methods that have one.
CALLS: dict[str, Callable[[Callable[[str], Any]], object]] = {
    "Corpus.open": lambda path: ontodex.Corpus.open(path("./corpus")),
    "Corpus.write": lambda path: ontodex.Corpus.write(DOCS, path("./written")),
    "Corpus.write_without_text": lambda path: ontodex.Corpus.of(DOCS).write_without_text(
        path("./bare")
    ),
    "Run.index": lambda path: ontodex.load("runs/floor").index(
        path("test.jsonl"), path("indexed.csv"), workers=1
    ),
    "CheckReport.plot": lambda path: ontodex.check(path("train.jsonl")).plot(path("plot.png")),
    "check": lambda path: ontodex.check(
        path("train.jsonl"), path("ontology.json"), path("test.jsonl")
    ),
    "compare_ontologies": lambda path: ontodex.compare_ontologies(
        path("ontology.json"), path("ontology.json")
    ),
    "convert": lambda path: ontodex.convert(
        path("train.jsonl"), path("converted.csv"), ontology=path("ontology.json")
    ),
    "prepare": lambda path: ontodex.prepare(
        [path("train.jsonl"), path("test.jsonl")], path("ready"), ontology=path("ontology.json")
    ),
    "compare": lambda path: ontodex.compare(
        [path("runs/floor"), path("runs/knn")], path("test.jsonl")
    ),
    "evaluate": lambda path: ontodex.evaluate(path("runs/floor"), path("test.jsonl")),
    "export": lambda path: ontodex.export(path("runs/linear"), path("onnx")),
    "learn": lambda path: ontodex.learn(
        path("runs/floor"), path("decisions.sqlite"), retrain=True, train=path("train.jsonl")
    ),
    "list_versions": lambda path: ontodex.list_versions(path("runs/knn")),
    "load": lambda path: ontodex.load(path("runs/floor")),
    "migrate": lambda path: ontodex.migrate(
        path("runs/floor"), path("ontology.json"), path("runs/new"), train=path("train.jsonl")
    ),
    "migrate_decisions": lambda path: ontodex.migrate_decisions(
        path("decisions.sqlite"),
        path("runs/floor"),
        ontodex.migrate("runs/floor", "ontology.json", "runs/newest"),
    ),
    "save_consensus": lambda path: ontodex.save_consensus(
        [path("runs/floor"), path("runs/knn")], path("runs/joined"), train=path("train.jsonl")
    ),
    "open_corpus": lambda path: ontodex.open_corpus(path("train.jsonl")),
    "pull": lambda path: ontodex.pull(path("./published"), path("runs/pulled")),
    "push": lambda path: ontodex.push(path("runs/floor"), path("./shared")),
    "read_ontology": lambda path: ontodex.read_ontology(path("ontology.json")),
    "restore_version": lambda path: ontodex.restore_version(path("runs/knn")),
    "run_experiment": lambda path: ontodex.run_experiment(
        path("experiment.toml"), path("experiment"), root=path(".")
    ),
    "train": lambda path: ontodex.train(
        train=path("train.jsonl"), dev=path("test.jsonl"), ontology=path("ontology.json"),
        out=path("runs/both"), config=path("consensus.toml"),
    ),
    "tune": lambda path: ontodex.tune(
        path("runs/linear"), path("runs/tuned"), train=path("train.jsonl"), dev=path("test.jsonl"),
        budget="1s",
    ),
    "update": lambda path: ontodex.update(path("runs/knn"), path("newest.jsonl")),
}  # fmt: skip


@pytest.fixture(scope="module")
def files(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that the calls read; runs/knn has an earlier version."""
    files = tmp_path_factory.mktemp("files") / "files"
    for name in ("train.jsonl", "test.jsonl", "ontology.json"):
        files.mkdir(exist_ok=True)
        shutil.copy(folder / name, files)
    shutil.copytree(folder / "runs" / "floor", files / "runs" / "floor")
    for name in ("knn", "linear"):
        ontodex.train(name, train=DOCS, out=files / "runs" / name)
    for number, name in enumerate(("new", "newest")):
        text = {"text": f"newts in pond {number}"}
        jsonl.write([ontodex.Doc(name, text, labels=("newt",))], files / f"{name}.jsonl")
    ontodex.update(files / "runs" / "knn", files / "new.jsonl")
    ontodex.Corpus.write(DOCS, files / "corpus")
    ontodex.push(files / "runs" / "floor", files / "published")
    Database.open(files / "decisions.sqlite").close()
    (files / "experiment.toml").write_text(EXPERIMENT)
    (files / "consensus.toml").write_text(
        '[model]\nname = "consensus"\nmembers = ["runs/knn", "runs/linear"]\n'
    )
    return files


@pytest.mark.parametrize("path", [str, Path])
@pytest.mark.parametrize("name", CALLS)
def test_paths_are_given_as_text_or_as_path(name, path, files, tmp_path, monkeypatch):
    shutil.copytree(files, tmp_path / "files")
    monkeypatch.chdir(tmp_path / "files")
    CALLS[name](path)


def test_every_argument_that_takes_a_path_is_called_with_both():
    found = dict(list_path_arguments())
    assert set(found) == set(CALLS)
    one_form = [
        name for name, hint in list_path_arguments() if "Path" in hint and "str" not in hint
    ]
    assert one_form == []


def test_settings_that_name_files_take_paths_too():
    tables = merge_keywords(
        "consensus", None, {"members": [Path("a"), "b"], "inner": {"x": Path("c")}}
    )
    assert tables["model"] == {"name": "consensus", "members": ["a", "b"], "inner": {"x": "c"}}

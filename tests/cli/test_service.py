"""The commands of the service."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from corpus_files import write_jsonl
from ontodex.cli.app import app
from ontodex.errors import ConfigError
from ontodex.runs.recipe import train
from ontodex.runs.run import load
from ontodex.runs.vocabulary import get_vocabulary_key
from ontodex.serve.database.database import Database
from ontodex.serve.database.tables import NewDecision
from ontodex.types import Doc


@pytest.mark.parametrize(
    "command", [["serve", "run"], ["learn", "run"], ["migrate", "run", "new.json", "--out", "x"]]
)
@pytest.mark.parametrize(
    "url", ["postgresql://ada:secret@host/name", "postgresql://host/name?user=a&password=secret"]
)
def test_a_password_on_the_command_line_is_refused(command, url):
    done = CliRunner().invoke(app, [*command, "--database", url])
    assert isinstance(done.exception, ConfigError)
    assert "secret" not in str(done.exception)
    assert "ONTODEX_DATABASE" in done.exception.hint


def test_a_password_in_the_environment_is_taken(tmp_path):
    environment = {"ONTODEX_DATABASE": "postgresql://ada:secret@127.0.0.1:1/none"}
    done = CliRunner().invoke(app, ["learn", str(tmp_path)], env=environment)
    assert isinstance(done.exception, ConfigError)
    assert "cannot be opened" in str(done.exception)
    assert "secret" not in str(done.exception)


@pytest.fixture
def small_run(tmp_path):
    """A run, its training corpus and two versions of its vocabulary."""
    texts = {"fish": "trout in the stream", "oak": "oak in the forest"}
    docs = [
        Doc(f"{label}{i}", {"text": f"{text} {i}"}, (), (label,))
        for i in range(10)
        for label, text in texts.items()
    ]
    corpus = write_jsonl(docs, tmp_path / "train.jsonl")
    old = [{"id": "fish", "label": "Fish"}, {"id": "oak", "label": "Oak"}]
    new = [{"id": "fish2", "label": "Fish"}, {"id": "newt", "label": "Newt"}]
    (tmp_path / "old.json").write_text(json.dumps(old))
    (tmp_path / "new.json").write_text(json.dumps(new))
    train("knn", train=corpus, dev=corpus, ontology=tmp_path / "old.json", out=tmp_path / "run")
    return tmp_path


def invoke(*words):
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == 0, done.output
    return done.stdout


def test_migrate_moves_labels_and_decisions_and_says_what_to_look_at(small_run):
    where = str(small_run / "decisions.sqlite")
    database = Database.open(where)
    old = load(small_run / "run")
    own = database.projects.open(get_vocabulary_key(old.about, old.labels), "old")
    other = database.projects.open("another vocabulary", "other")
    doc = Doc("1", {"text": "x"})
    (number,) = database.add_documents([doc], batch="b", user="ada", project=own)
    (foreign,) = database.add_documents([doc], batch="b", user="ada", project=other)
    new = [NewDecision(foreign, "fish", "accept"), NewDecision(foreign, "oak", "accept")]
    new += [NewDecision(number, "fish", "accept"), NewDecision(number, "oak", "accept")]
    database.write_decisions(new, user="ada")
    text = invoke(
        "migrate", small_run / "run", small_run / "new.json", "--out", small_run / "run2",
        "--decisions", "--database", where,
    )  # fmt: skip
    assert "new concepts that are found by their names: 1" in text
    assert "decisions moved to successors: 1; about concepts without one: 1" in text
    assert "Oak (oak): 10" in text, "its training documents"
    assert "Fish (fish) -> Fish (fish2)" in text, "guessed by its name"
    assert [v["label"] for v in database.find_verdicts([number])[number]] == ["oak", "fish2"]
    assert [v["label"] for v in database.find_verdicts([foreign])[foreign]] == ["fish", "oak"]
    migrated = load(small_run / "run2")
    assert database.projects.find(get_vocabulary_key(migrated.about, migrated.labels)) == own
    database.close()
    assert migrated.suggest("trout in the stream")[0].label == "fish2"


def test_diff_names_the_changes_as_text_and_as_json(small_run):
    versions = [small_run / "old.json", small_run / "new.json"]
    text = invoke("ontology", "diff", *versions)
    assert text.splitlines()[0] == (
        "1 added, 1 removed, 1 replaced, 0 merged, 0 split, 0 renamed, 0 moved"
    )
    assert "  Fish (fish) -> Fish (fish2) (guessed: same name)" in text
    found = json.loads(invoke("ontology", "diff", *versions, "--json"))
    assert (found["added"], found["removed"]) == (["newt"], ["oak"])
    assert found["replaced"] == {"fish": "fish2"}


def test_versions_are_listed_and_restored(small_run):
    newt = Doc("n", {"text": "newt in the stream"}, (), ("newt",))
    more = write_jsonl([newt], small_run / "more.jsonl")
    first = json.loads(invoke("versions", small_run / "run", "--json"))
    invoke("update", small_run / "run", more)
    lines = invoke("versions", small_run / "run").splitlines()
    assert len(lines) == 2
    assert lines[0].endswith("current")
    assert lines[1].startswith(first[0]["version"])
    restored = invoke("versions", small_run / "run", "--restore", "previous")
    assert restored.splitlines()[0].startswith(first[0]["version"])


def test_learn_takes_a_training_corpus_only_to_train_again(small_run):
    done = CliRunner().invoke(app, ["learn", str(small_run / "run"), "--train", "x.jsonl"])
    assert isinstance(done.exception, ConfigError)
    assert "--retrain" in str(done.exception)

"""Decisions change thresholds and memory, and the effect is measured."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array
from typer.testing import CliRunner

from ontodex.cli import app
from ontodex.errors import ConfigError, RunError
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.runs.recipe import train
from ontodex.runs.run import load
from ontodex.serve.database import Database
from ontodex.serve.database_tables import NewDecision
from ontodex.serve.learn import (
    HELD_OUT,
    DocumentDecisions,
    is_held_out,
    learn,
    measure,
    read_new_decisions,
)
from ontodex.types import Corpus, Doc

ONTOLOGY = build_ontology([Concept("nature"), Concept("fish", parents=["nature"]), Concept("oak")])
DOCS = [
    Doc(f"{label}{i}", {"text": f"{text} {i}"}, (), (label,))
    for i in range(10)
    for label, text in (("fish", "trout in the cold stream"), ("oak", "leaves in the forest"))
]
NEWTS = [Doc(f"n{i}", {"text": f"a newt crawls through cold moss {i}"}) for i in range(40)]


@pytest.fixture
def folder(run_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run_folder, tmp_path / "run"))


@pytest.fixture
def database(tmp_path: Path):
    opened = Database.open(str(tmp_path / "decisions.sqlite"))
    opened.id = "0" * 32  # decides which documents are held out
    yield opened
    opened.close()


def decide(database, docs, *, accept=(), reject=(), done=True):
    for number in database.add_documents(docs, batch="b", user="ada"):
        new = [NewDecision(number, label, "accept") for label in accept]
        new += [NewDecision(number, label, "reject") for label in reject]
        database.write_decisions(new, user="ada")
        if done:
            database.set_state(number, "done", user="ada")


def test_a_label_that_curators_add_is_suggested_afterwards(folder, database):
    text = "a newt in cold moss"
    assert "newt" not in [s.label for s in load(folder).suggest(text)]
    decide(database, NEWTS, accept=["newt"])
    result = learn(folder, database)
    assert load(folder).suggest(text)[0].label == "newt"
    assert (result.n_documents, result.n_accepted, result.n_stored) == (40, 40, 40)
    assert result.n_held_out == pytest.approx(40 / HELD_OUT, abs=6)
    assert result.before.recall == 0
    assert result.after.recall == 1


def test_thresholds_change_as_ofo_computes(folder, database):
    before = load(folder)
    docs = [Doc(f"d{i}", {"text": "trout in the stream"}) for i in range(3)]
    decide(database, docs, accept=["oak"], reject=["fish"], done=False)
    result = learn(folder, database)
    rows = np.arange(4)
    column = before.labels.column
    accepted, rejected = (
        csr_array((np.ones(3, np.int8), np.full(3, column[label]), rows), (3, len(before.labels)))
        for label in ("oak", "fish")
    )
    expected = before.decision.update(before.rank(Corpus.of(docs)), accepted, rejected)
    after = load(folder).decision.rule
    np.testing.assert_array_equal(after.thresholds, expected.rule.thresholds)
    assert result.n_thresholds == 2
    assert result.n_stored == 0, "a document that is not done is not complete"


def test_decisions_are_learned_once(folder, database):
    decide(database, NEWTS[:10], accept=["newt"])
    learn(folder, database)
    first = load(folder)
    nothing = learn(folder, database)
    assert (nothing.n_documents, nothing.is_applied) == (0, False)
    assert nothing.render_text().startswith("no new decisions")
    decide(database, NEWTS[10:20], accept=["newt"])
    assert learn(folder, database).n_documents == 10
    assert load(folder).model.memory.shape[0] == first.model.memory.shape[0] + 10


def test_documents_are_stored_only_once(folder, database):
    """The same documents, brought in and decided again."""
    decide(database, NEWTS[:10], accept=["newt"])
    first = learn(folder, database)
    taken = load(folder).model.memory.shape[0]
    decide(database, NEWTS[:10], accept=["newt"])
    again = learn(folder, database)
    assert (first.n_documents, again.n_documents) == (10, 10)
    assert (first.n_stored, again.n_stored) == (10, 0)
    assert load(folder).model.memory.shape[0] == taken


def test_undone_and_replaced_decisions_are_not_learned(database):
    (number,) = database.add_documents(NEWTS[:1], batch="b", user="ada")
    wrong, *_ = database.write_decisions([NewDecision(number, "oak", "accept")], user="ada")
    database.undo_decision(wrong["id"], user="ada")
    for verdict in ("accept", "reject"):
        database.write_decisions([NewDecision(number, "newt", verdict)], user="ada")
    ((one,), last) = read_new_decisions(database, 0)
    assert (one.accepted, one.rejected, last) == ((), ("newt",), 3)


def test_a_run_stays_unchanged_if_learning_makes_it_worse(folder, database):
    docs = [Doc(f"d{i}", {"text": "trout in the stream"}) for i in range(30)]
    for number in database.add_documents(docs, batch="b", user="ada"):
        # Held-out documents confirm what the run predicts, the others contradict it.
        right, wrong = ("fish", "newt") if is_held_out(database.id, number) else ("newt", "fish")
        new = [NewDecision(number, right, "accept"), NewDecision(number, wrong, "reject")]
        database.write_decisions(new, user="ada")
        database.set_state(number, "done", user="ada")
    manifest = (folder / "manifest.json").read_bytes()
    result = learn(folder, database)
    assert result.before.f == 1
    assert result.after.f < 1
    assert not result.is_applied
    assert "nothing was learned" in result.render_text()
    assert (folder / "manifest.json").read_bytes() == manifest


def test_only_decided_labels_count_in_the_measure(run_folder):
    run = load(run_folder)
    doc = Doc("", {"text": "trout in the stream"})
    assert [s.label for s in run.suggest(doc)] == ["fish"]
    one = DocumentDecisions(1, doc, ("fish",), (), True)
    assert measure(run, [one]).f == 1
    assert measure(run, [replace(one, accepted=("fish", "newt"))]).recall == 1 / 2
    assert measure(run, [replace(one, accepted=(), rejected=("fish",))]).precision == 0


@pytest.mark.parametrize("merge", ["threshold", "pointer"])
def test_the_thresholds_of_a_deciding_system_are_adapted(tmp_path, database, merge):
    loop = {"epochs": 8, "batch": 8, "lr": 0.05, "patience": 0}
    small = {"width": 12, "hidden": 8, "value_dim": 8, "bag": 0, "min_count": 1, "inputs": "words"}
    pointer = {"embedding": 8, "hidden": 8, "train": {**loop, "epochs": 1}}
    model = {"name": "levelwise", **small, "merge": merge, "train": loop, "pointer": pointer}
    out = tmp_path / "levels"
    before = train(config={"model": model}, out=out, train=Corpus.of(DOCS), ontology=ONTOLOGY)
    docs = [Doc(f"d{i}", {"text": "trout in the cold stream"}) for i in range(3)]
    decide(database, docs, accept=["oak"], reject=["fish"], done=False)
    result = learn(out, database)
    assert result.is_applied
    assert result.n_thresholds >= 1
    after = load(out)
    changed = np.flatnonzero(after.model.thresholds != before.model.thresholds)
    assert set(changed) <= {before.labels.column[label] for label in ("oak", "fish")}
    assert len(changed) == result.n_thresholds


def test_a_run_that_cannot_learn_says_so(tmp_path, database):
    out = tmp_path / "floor"
    docs = Corpus.of([Doc(str(i), {"text": "x"}, (), ("fish",)) for i in range(20)])
    train(config={"model": {"name": "popularity"}}, out=out, train=docs)
    decide(database, NEWTS[:1], accept=["fish"])
    with pytest.raises(RunError, match="does not learn from decisions"):
        learn(out, database)


def test_the_command_shows_the_effect(folder, tmp_path):
    where = str(tmp_path / "other.sqlite")
    database = Database.open(where)
    decide(database, NEWTS, accept=["newt"])
    database.close()
    done = CliRunner().invoke(app, ["learn", str(folder), "--database", where])
    assert done.exit_code == 0, done.output
    assert "40 documents with 40 accepted and 0 rejected labels" in done.output
    assert "precision" in done.output
    again = CliRunner().invoke(app, ["learn", str(folder), "--database", where, "--json"])
    assert again.exit_code == 0, "a nightly job need not fail"
    assert json.loads(again.stdout)["n_documents"] == 0
    assert json.loads((folder / "manifest.json").read_text())["learned"]


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}", "sqlite:///file:{}?uri=true"])
def test_a_missing_database_is_refused_and_not_created(folder, tmp_path, form):
    file = tmp_path / "nofile.sqlite"
    done = CliRunner().invoke(app, ["learn", str(folder), "--database", form.format(file)])
    assert isinstance(done.exception, ConfigError)
    assert str(done.exception) == f"--database {file}: there is no such file"
    assert not file.exists()
    Database.open(str(file)).close()
    done = CliRunner().invoke(app, ["learn", str(folder), "--database", form.format(file)])
    assert done.output.startswith("no new decisions")

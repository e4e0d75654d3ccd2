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

from corpus_files import write_jsonl
from ontodex.cli import app
from ontodex.errors import ConfigError, RunError
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.runs.recipe import train
from ontodex.runs.run import load
from ontodex.runs.versions import restore_version
from ontodex.runs.vocabulary import get_vocabulary_key
from ontodex.serve.database.database import Database
from ontodex.serve.database.tables import NewDecision
from ontodex.serve.decided_documents import (
    HELD_OUT,
    DocumentDecisions,
    find_project,
    is_held_out,
    measure,
    read_new_decisions,
)
from ontodex.serve.learn import describe_abilities, learn, retrain
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


def open_project(database, folder):
    """The project of a run, as `serve` opens it."""
    run = load(folder)
    return database.projects.open(get_vocabulary_key(run.about, run.labels), "name")


def decide(database, folder, docs, *, accept=(), reject=(), done=True):
    project = open_project(database, folder)
    for number in database.add_documents(docs, batch="b", user="ada", project=project):
        new = [NewDecision(number, label, "accept") for label in accept]
        new += [NewDecision(number, label, "reject") for label in reject]
        database.write_decisions(new, user="ada")
        if done:
            database.set_state(number, "done", user="ada")


def test_a_label_that_curators_add_is_suggested_afterwards(folder, database):
    text = "a newt in cold moss"
    assert "newt" not in [s.label for s in load(folder).suggest(text)]
    decide(database, folder, NEWTS, accept=["newt"])
    result = learn(folder, database)
    assert load(folder).suggest(text)[0].label == "newt"
    assert (result.n_documents, result.n_accepted, result.n_stored) == (40, 40, 40)
    assert result.n_held_out == pytest.approx(40 / HELD_OUT, abs=6)
    assert result.before.recall == 0
    assert result.after.recall == 1


def test_thresholds_change_as_ofo_computes(folder, database):
    before = load(folder)
    docs = [Doc(f"d{i}", {"text": "trout in the stream"}) for i in range(3)]
    decide(database, folder, docs, accept=["oak"], reject=["fish"], done=False)
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
    decide(database, folder, NEWTS[:10], accept=["newt"])
    learn(folder, database)
    first = load(folder)
    nothing = learn(folder, database)
    assert (nothing.n_documents, nothing.is_applied) == (0, False)
    assert nothing.render_text().startswith("no new decisions")
    decide(database, folder, NEWTS[10:20], accept=["newt"])
    assert learn(folder, database).n_documents == 10
    assert load(folder).model.memory.shape[0] == first.model.memory.shape[0] + 10


def test_documents_are_stored_only_once(folder, database):
    """The same documents, brought in and decided again."""
    decide(database, folder, NEWTS[:10], accept=["newt"])
    first = learn(folder, database)
    taken = load(folder).model.memory.shape[0]
    decide(database, folder, NEWTS[:10], accept=["newt"])
    again = learn(folder, database)
    assert (first.n_documents, again.n_documents) == (10, 10)
    assert (first.n_stored, again.n_stored) == (10, 0)
    assert load(folder).model.memory.shape[0] == taken


def test_undone_and_replaced_decisions_are_not_learned(database):
    project = database.projects.open("digest", "name")
    (number,) = database.add_documents(NEWTS[:1], batch="b", user="ada", project=project)
    wrong, *_ = database.write_decisions([NewDecision(number, "oak", "accept")], user="ada")
    database.undo_decision(wrong["id"], user="ada")
    for verdict in ("accept", "reject"):
        database.write_decisions([NewDecision(number, "newt", verdict)], user="ada")
    ((one,), last) = read_new_decisions(database, project, 0)
    assert (one.accepted, one.rejected, last) == ((), ("newt",), 3)


def test_a_run_stays_unchanged_if_learning_makes_it_worse(folder, database):
    docs = [Doc(f"d{i}", {"text": "trout in the stream"}) for i in range(30)]
    project = open_project(database, folder)
    for number in database.add_documents(docs, batch="b", user="ada", project=project):
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
    small = {"width": 12, "hidden": 8, "value_dim": 8, "bag": 8, "min_count": 1}
    pointer = {"embedding": 8, "hidden": 8, "steps": 1}
    model = {"name": "attentive-levels", **small, "merge": merge, "train": loop, "pointer": pointer}
    out = tmp_path / "levels"
    before = train(config={"model": model}, out=out, train=Corpus.of(DOCS), ontology=ONTOLOGY)
    docs = [Doc(f"d{i}", {"text": "trout in the cold stream"}) for i in range(3)]
    decide(database, out, docs, accept=["oak"], reject=["fish"], done=False)
    result = learn(out, database)
    assert result.is_applied
    assert result.n_thresholds >= 1
    after = load(out)
    changed = np.flatnonzero(after.model.thresholds != before.model.thresholds)
    assert set(changed) <= {before.labels.column[label] for label in ("oak", "fish")}
    assert len(changed) == result.n_thresholds


@pytest.mark.parametrize("rule", ["threshold", "per-label"])
def test_thresholds_of_the_other_rules_learn_too(tmp_path, database, rule):
    """Curators reject what the run predicts, so it predicts less."""
    out, tables = tmp_path / "linear", {"model": {"name": "linear"}, "decide": {"rule": rule}}
    before = train(config=tables, out=out, train=Corpus.of(DOCS), dev=Corpus.of(DOCS))
    docs = [Doc(f"d{i}", {"text": f"trout in the cold stream {i}"}) for i in range(40)]
    corpus = Corpus.of(docs)
    assert (before.decide(corpus).columns >= 0).any()
    decide(database, out, docs, reject=["fish"], done=False)
    result = learn(out, database)
    assert result.is_applied
    assert result.n_thresholds == 1
    changed = load(out).decision.rule.thresholds > before.decision.rule.thresholds
    assert changed.sum() == 1


def test_labels_that_a_curator_leaves_out_of_a_done_document_are_wrong(run_folder):
    run = load(run_folder)
    one = DocumentDecisions(1, Doc("", {"text": "trout in the stream"}), ("newt",), (), True)
    assert measure(run, [one]).precision == 0
    undecided = measure(run, [replace(one, is_done=False)])
    assert (undecided.precision, undecided.recall) == (0, 0)


def test_a_later_decision_comes_with_the_earlier_ones_of_its_document(folder, database):
    decide(database, folder, NEWTS[:1], accept=["newt"])
    project = open_project(database, folder)
    _, last = read_new_decisions(database, project, 0)
    database.write_decisions([NewDecision(1, "oak", "accept")], user="ada")
    ((one,), _) = read_new_decisions(database, project, last)
    assert one.accepted == ("newt", "oak")


def test_a_run_that_cannot_learn_names_the_way_that_can(tmp_path, database):
    out = tmp_path / "floor"
    tables = {"model": {"name": "popularity"}, "decide": {"rule": "top-k"}}
    train(config=tables, out=out, train=Corpus.of(DOCS))
    with pytest.raises(RunError, match="'top-k' has no thresholds") as refused:
        learn(out, database)
    assert "--retrain" in refused.value.hint
    run = load(out)
    assert describe_abilities(run.decision, run.model).endswith("(ontodex learn --retrain)")


@pytest.fixture
def corpus_file(tmp_path):
    return write_jsonl(DOCS, tmp_path / "train.jsonl")


@pytest.mark.parametrize("rule", ["top-k", "per-label"])
def test_retraining_learns_the_training_corpus_and_the_decisions(
    tmp_path, database, corpus_file, rule
):
    out, tables = tmp_path / "linear", {"model": {"name": "linear"}, "decide": {"rule": rule}}
    train(config=tables, out=out, train=corpus_file)
    decide(database, out, NEWTS, accept=["newt"])
    result = retrain(out, database)
    assert (result.is_applied, result.is_retrained, result.n_stored) == (True, True, 40)
    assert (result.before.recall, result.after.recall) == (0, 1)
    after = load(out)
    assert after.suggest("a newt in wet moss")[0].label == "newt"
    assert after.suggest("trout in the cold stream")[0].label == "fish"
    assert after.about["train"]["documents"] == 60
    assert after.about["train"]["path"] == str(corpus_file), "it can be trained again"
    assert learn_nothing_new(after, database)


def learn_nothing_new(run, database):
    _, last = read_new_decisions(database, find_project(run, database), 0)
    return run.about["learned"][database.id] == last


def test_a_decided_document_replaces_the_training_document_of_its_id(
    tmp_path, database, corpus_file
):
    out = tmp_path / "floor"
    train("popularity", train=corpus_file, dev=corpus_file, out=out)
    decide(
        database,
        tmp_path / "floor",
        [Doc("fish0", {"text": "a newt, not a fish"})],
        accept=["newt"],
    )
    retrain(out, database)
    after = load(out)
    assert after.about["train"]["documents"] == 20
    assert after.labels.frequency[after.labels.column["fish"]] == 9


def test_retraining_a_consensus_trains_its_members(tmp_path, database, corpus_file):
    for name in ("linear", "knn"):
        train(name, train=corpus_file, out=tmp_path / name)
    members = [str(tmp_path / "linear"), str(tmp_path / "knn")]
    out = tmp_path / "both"
    train("consensus", members=members, train=corpus_file, out=out)
    decide(database, out, NEWTS, accept=["newt"])
    assert retrain(out, database).after.recall == 1
    after = load(out)
    assert [type(member.model).__name__ for member in after.model.members] == [
        "LinearSystem",
        "KnnSystem",
    ]
    assert all("newt" in member.labels.column for member in after.model.members)


def test_a_missing_training_corpus_is_reported_before_any_work(tmp_path, database, corpus_file):
    out = tmp_path / "floor"
    train("popularity", train=corpus_file, out=out)
    corpus_file.rename(tmp_path / "moved.jsonl")
    with pytest.raises(RunError, match="it is gone"):
        retrain(out, database)
    decide(database, tmp_path / "floor", NEWTS[:5], accept=["newt"])
    assert retrain(out, database, train=tmp_path / "moved.jsonl").is_applied
    train("popularity", train=Corpus.of(DOCS), out=tmp_path / "nameless")
    with pytest.raises(RunError, match="does not record"):
        retrain(tmp_path / "nameless", database)


def test_a_missing_dev_corpus_is_replaced_by_a_tenth_of_train(
    tmp_path, database, corpus_file, caplog
):
    dev = write_jsonl(DOCS[:4], tmp_path / "dev.jsonl")
    train("popularity", train=corpus_file, dev=dev, out=tmp_path / "floor")
    dev.unlink()
    decide(database, tmp_path / "floor", NEWTS[:5], accept=["newt"])
    assert retrain(tmp_path / "floor", database).is_applied
    assert f"{dev} is gone" in caplog.text


@pytest.fixture
def roads(tmp_path):
    """A run of another vocabulary, whose labels have the same ids."""
    docs = Corpus.of(Doc(str(i), {"text": f"cars brake {i}"}, (), ("fish",)) for i in range(8))
    concepts = [Concept("fish", {"en": "Road"}), Concept("newt", {"en": "Car"})]
    out = tmp_path / "roads"
    train("knn", train=docs, dev=docs, ontology=build_ontology(concepts), out=out)
    return out


def test_decisions_with_another_vocabulary_are_never_learned(folder, roads, database, corpus_file):
    cars = [Doc(f"c{i}", {"text": f"a newt in cold moss {i}"}) for i in range(20)]
    decide(database, roads, cars, accept=["newt"], reject=["fish"])
    manifest = (folder / "manifest.json").read_bytes()
    assert learn(folder, database).n_documents == 0
    assert retrain(folder, database, train=corpus_file).n_documents == 0
    assert (folder / "manifest.json").read_bytes() == manifest
    decide(database, folder, NEWTS[:10], accept=["oak"])
    result = learn(folder, database)
    assert (result.n_documents, result.n_accepted, result.n_rejected) == (10, 10, 0)
    assert load(folder).n_updated == 10
    assert learn(roads, database).n_documents == 20, "their own run learns them"


def test_documents_without_a_vocabulary_are_not_learned_and_are_counted(folder, database, caplog):
    (number,) = database.add_documents(NEWTS[:1], batch="b", user="ada")
    database.write_decisions([NewDecision(number, "newt", "accept")], user="ada")
    assert learn(folder, database).n_documents == 0
    assert "1 document of an older database has no vocabulary yet" in caplog.text


@pytest.mark.parametrize("way", [learn, retrain])
@pytest.mark.parametrize("has_ontology", [True, False])
def test_a_run_that_learned_keeps_its_project(tmp_path, database, corpus_file, way, has_ontology):
    """Without an ontology the vocabulary is known by the labels, and new ones may come."""
    names = {"fi": "Kala", "en": "Fish"}
    own = [Concept("fish", names), *map(Concept, ("oak", "nature", "newt"))]
    ontology = build_ontology(own) if has_ontology else None
    out = tmp_path / "knn"
    train("knn", train=corpus_file, dev=corpus_file, out=out, ontology=ontology, language=["fi"])
    project = open_project(database, out)
    for _ in range(2):
        decide(database, out, NEWTS, accept=["newt"])
        assert way(out, database).is_applied
        assert open_project(database, out) == project


def test_learning_keeps_the_version_before(folder, database):
    before = load(folder).about
    decide(database, folder, NEWTS, accept=["newt"])
    learn(folder, database)
    restore_version(folder)
    assert load(folder).about == before


def test_the_command_shows_the_effect(folder, tmp_path):
    where = str(tmp_path / "other.sqlite")
    database = Database.open(where)
    decide(database, folder, NEWTS, accept=["newt"])
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

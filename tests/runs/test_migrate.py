"""A run in the columns of a newer version of its vocabulary."""

from __future__ import annotations

import numpy as np
import pytest

from corpus_files import write_jsonl
from ontodex.errors import ConfigError, RunError
from ontodex.io.tensors import save_tensors
from ontodex.models.baselines.lexical import LexicalSystem
from ontodex.models.consensus.members import find_system
from ontodex.models.consensus.system import Consensus
from ontodex.models.semantic.system import SemanticSystem
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.runs.folder import verify_folder, write_manifest
from ontodex.runs.migrate import migrate
from ontodex.runs.recipe import train
from ontodex.runs.retrain import open_sources, retrain_run
from ontodex.runs.run import load
from ontodex.types import Corpus, Doc
from tiny_encoder import write_tiny_encoder

SENTENCES = {
    "fish": "trout swim in the cold stream of the fish",
    "whale": "a whale sings in the ocean of the whale",
    "oak": "old oak trees stand in the forest",
    "ether": "light moves through ether and more ether",
}
OLD = build_ontology([Concept(label, {"en": label.title()}) for label in (*SENTENCES, "never")])
CONCEPTS = [
    Concept("fish", {"en": "Fish"}),
    Concept("oak-2026", {"en": "Oak trees"}, exact_matches=["oak"]),
    Concept("whale", {"en": "Whale"}, deprecated=True, replaced_by="fish"),  # an old error
    Concept("newt", {"en": "Newt"}),
    Concept("never", {"en": "Never"}),
]
NEW = build_ontology(CONCEPTS)
DOCS = [
    Doc(f"{label}{i}", {"text": f"{text} {i}"}, (), (label,))
    for i in range(12)
    for label, text in SENTENCES.items()
]
LINEAR = {"model": {"name": "linear"}}


@pytest.fixture
def corpus_file(tmp_path):
    return write_jsonl(DOCS, tmp_path / "train.jsonl")


@pytest.fixture
def old(tmp_path, corpus_file):
    return train(config=LINEAR, train=corpus_file, dev=corpus_file, ontology=OLD,
                 out=tmp_path / "old")  # fmt: skip


def best(run, text):
    return [s.label for s in run.suggest(text, limit=1)]


def test_labels_go_to_their_successors(old, tmp_path):
    done = migrate(tmp_path / "old", NEW, tmp_path / "new")
    run = done.run
    assert "\n# new\n" in (run.folder / "README.md").read_text()
    assert best(run, "old oak trees stand in the forest") == ["oak-2026"]
    assert best(run, "a whale sings in the ocean") == ["fish"]
    assert best(run, "trout swim in the cold stream") == ["fish"]
    assert "ether" not in run.labels.column
    assert done.successors == {"oak": "oak-2026", "whale": "fish"}
    assert done.lost == {"ether": 12}
    assert run.labels.frequency[run.labels.column["fish"]] == 24
    assert set(run.labels.ids) == {"fish", "oak-2026", "newt", "never"}


def test_probabilities_and_thresholds_stay_those_of_the_old_run(old, tmp_path):
    run = migrate(tmp_path / "old", NEW, tmp_path / "new").run
    corpus = Corpus.of(DOCS)
    before, after = old.rank(corpus).scores(len(old.labels)), run.rank(corpus)
    after = after.scores(len(run.labels)).toarray()
    before = before.toarray()
    column = old.labels.column
    merged = np.maximum(before[:, column["fish"]], before[:, column["whale"]])
    np.testing.assert_array_equal(after[:, run.labels.column["fish"]], merged)
    np.testing.assert_array_equal(after[:, run.labels.column["oak-2026"]], before[:, column["oak"]])
    thresholds = run.decision.rule.thresholds
    assert thresholds[run.labels.column["oak-2026"]] == old.decision.rule.thresholds[column["oak"]]
    assert thresholds[run.labels.column["newt"]] == max(old.decision.rule.default, 0.5)


def test_new_concepts_are_found_by_their_names(old, tmp_path):
    done = migrate(tmp_path / "old", NEW, tmp_path / "new")
    assert (done.found_by_name, done.not_served) == (["newt"], [])
    text = "a newt crawls through wet moss"
    assert "newt" in [s.label for s in done.run.suggest(text)]
    (span,) = done.run.explain(text, "newt").spans
    assert text[span.start : span.end] == "newt"
    assert done.run.explain("old oak trees", "oak-2026").spans


def test_a_run_with_a_lexical_member_needs_no_corpus(tmp_path, corpus_file):
    corpus = Corpus.of(DOCS)  # no path is recorded
    for name in ("linear", "lexical"):
        train(name, train=corpus, dev=corpus, ontology=OLD, out=tmp_path / name)
    members = [str(tmp_path / "linear"), str(tmp_path / "lexical")]
    train("consensus", members=members, train=corpus, dev=corpus, ontology=OLD,
          out=tmp_path / "both")  # fmt: skip
    alone = migrate(tmp_path / "linear", NEW, tmp_path / "linear2")
    assert alone.not_served == ["newt"], "nothing is at hand to learn matching from"
    given = migrate(tmp_path / "linear", NEW, tmp_path / "linear3", train=corpus_file)
    both = migrate(tmp_path / "both", NEW, tmp_path / "both2")
    for done in (given, both):
        assert done.found_by_name == ["newt"]
        assert "newt" in [s.label for s in done.run.suggest("a newt in wet moss")]


def test_a_migrated_run_can_be_migrated_and_trained_again(old, tmp_path):
    migrate(tmp_path / "old", NEW, tmp_path / "new")
    last = build_ontology(
        [Concept("fish", {"en": "Fish"}), Concept("tree", {"en": "Tree"}),
         Concept("oak-2026", deprecated=True, replaced_by="tree"),
         Concept("newt", {"en": "Newt"}), Concept("toad", {"en": "Toad"})]
    )  # fmt: skip
    done = migrate(tmp_path / "new", last, tmp_path / "newest")
    assert best(done.run, "old oak trees stand in the forest") == ["tree"]
    assert {"newt", "toad"} <= {s.label for s in done.run.suggest("a newt and a toad")}
    newts = [Doc(f"n{i}", {"text": f"wet moss {i}"}, (), ("newt",)) for i in range(6)]
    sources = open_sources(done.run)
    run = retrain_run(done.run, tmp_path / "trained", sources, Corpus.of(newts), device="cpu")
    assert run.settings.name == "linear"
    assert best(run, "old oak trees stand in the forest") == ["tree"]
    assert best(run, "wet moss") == ["newt"]


def test_the_same_vocabulary_changes_nothing(old, tmp_path):
    done = migrate(tmp_path / "old", OLD, tmp_path / "same")
    corpus = Corpus.of(DOCS)
    np.testing.assert_array_equal(done.run.rank(corpus).columns, old.rank(corpus).columns)
    np.testing.assert_array_equal(done.run.decide(corpus).columns, old.decide(corpus).columns)
    assert (done.successors, done.lost) == ({}, {})


def test_a_system_that_decides_by_itself_keeps_its_thresholds(tmp_path):
    loop = {"epochs": 8, "batch_size": 8, "lr": 0.05, "patience": 0}
    small = {"width": 12, "hidden": 8, "value_dim": 8, "bag": 8, "min_count": 1}
    model = {"name": "attentive-levels", **small, "merge": "threshold", "train": loop}
    corpus = Corpus.of(DOCS)
    old = train(config={"model": model}, out=tmp_path / "old", train=corpus, ontology=OLD)
    run = migrate(tmp_path / "old", NEW, tmp_path / "new").run
    thresholds = old.model.label_thresholds()
    assert (
        run.decision.rule.thresholds[run.labels.column["oak-2026"]]
        == thresholds[old.labels.column["oak"]]
    )


def test_what_cannot_be_migrated_is_refused_in_one_sentence(old, tmp_path):
    with pytest.raises(RunError, match="exists already"):
        migrate(tmp_path / "old", NEW, tmp_path / "old")
    train(config=LINEAR, train=Corpus.of(DOCS), out=tmp_path / "flat")
    with pytest.raises(RunError, match="has no ontology"):
        migrate(tmp_path / "flat", NEW, tmp_path / "new")
    with pytest.raises(ConfigError, match="is not trained"):
        train("migrated", train=Corpus.of(DOCS), out=tmp_path / "wrong")


def test_a_damaged_map_of_columns_is_refused(old, tmp_path):
    out = tmp_path / "new"
    migrate(tmp_path / "old", NEW, out)
    about = verify_folder(out)
    save_tensors(out / "model", "columns", {"columns": np.array([99, 0, 0, 0, 0])})
    write_manifest(out, {k: v for k, v in about.items() if k not in ("format", "files")})
    with pytest.raises(RunError, match="columns"):
        load(out)


@pytest.mark.parametrize("members", [("semantic",), ("linear", "semantic", "lexical")])
def test_new_concepts_are_found_by_the_systems_of_the_run_that_read_names(tmp_path, members):
    encoder = write_tiny_encoder(tmp_path / "encoder", [*SENTENCES.values(), "newt toad"])
    corpus = Corpus.of(DOCS)  # no path is recorded
    for name in members:
        settings = {"encoder": str(encoder)} if name == "semantic" else {}
        train(name, config={"model": settings}, train=corpus, dev=corpus, ontology=OLD,
              out=tmp_path / name)  # fmt: skip
    old = tmp_path / members[0]
    if len(members) > 1:
        old = tmp_path / "both"
        train("consensus", members=[str(tmp_path / one) for one in members], train=corpus,
              dev=corpus, ontology=OLD, out=old)  # fmt: skip
    done = migrate(old, NEW, tmp_path / "new")
    assert (done.found_by_name, done.not_served) == (["newt"], [])
    newest = build_ontology([*CONCEPTS, Concept("toad", {"en": "Toad"})])
    again = migrate(tmp_path / "new", newest, tmp_path / "newest")
    assert again.found_by_name == ["toad"]
    for run, label in ((done.run, "newt"), (again.run, "newt"), (again.run, "toad")):
        column = run.labels.column[label]
        scores = run.rank(Corpus.of([Doc("x", {"text": f"{label} {label}"}), DOCS[0]]))
        found, other = scores.scores(len(run.labels)).toarray()[:, column]
        assert found > other
        assert run.explain(f"a {label}", label).spans
    places = (tmp_path / "new" / "model" / "names").rglob("config.toml")
    names = {find_system(place.parent) for place in places}
    both = {Consensus, SemanticSystem, LexicalSystem}
    assert names == (both if len(members) > 1 else {SemanticSystem})

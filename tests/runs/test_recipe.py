"""Training: data that is refused or suspicious, dev set aside."""

from __future__ import annotations

import pytest

from floor_run import DOCS, ONTOLOGY, TABLES
from ontodex.errors import ConfigError, DataError, RunError
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.runs.recipe import train
from ontodex.runs.run import Run, load
from ontodex.types import Corpus, Doc
from tiny_encoder import write_tiny_encoder


def test_a_tenth_is_set_aside_without_dev_and_learned_at_the_end(folder, tmp_path):
    about = load(folder).about
    assert (about["refit"], about["train"]["documents"]) == (True, 30)
    assert 1 <= about["dev"]["documents"] <= 8
    tables = {**TABLES, "train": {"refit": False}}
    without = train(config=tables, out=tmp_path / "run", train=DOCS, ontology=ONTOLOGY).about
    assert without["train"]["documents"] + without["dev"]["documents"] == 30


def test_dev_that_is_given_is_not_learned(tmp_path):
    about = train(config=TABLES, out=tmp_path / "run", train=DOCS, dev=DOCS.select([0, 1])).about
    assert (about["refit"], about["train"]["documents"]) == (False, 30)


def test_counts_are_those_of_the_documents_learned_in_the_end(tmp_path, caplog):
    # Each document has a label of its own: a tenth of them is first seen when it is learned.
    train_docs = Corpus.of(
        Doc(f"d{i}", {"title": f"trout {i}"}, (), ("fish", f"strange{i}")) for i in range(40)
    )
    ontology = build_ontology([Concept("fish", {"en": "fish"})])
    run = train("knn", train=train_docs, out=tmp_path / "run", ontology=ontology)
    assert run.about["dev"]["documents"] > 0
    assert (run.about["labels"], run.about["train"]["documents"]) == (41, 40)
    assert "labels of the training documents that are not in the ontology: 40 of 41" in caplog.text


def test_an_unfinished_run_is_not_loaded_and_can_be_started_again(copy):
    (copy / "manifest.json").unlink()
    with pytest.raises(RunError, match="not a finished run"):
        load(copy)
    run = train(config=TABLES, out=copy, train=DOCS, ontology=ONTOLOGY)
    assert isinstance(run, Run)


def test_a_corpus_without_labels_cannot_be_trained_on(tmp_path):
    blank = Corpus.of([Doc("1", {"text": "x"}), Doc("2", {"text": "y"})])
    with pytest.raises(DataError, match="no training document has a label") as refused:
        train(config=TABLES, out=tmp_path / "run", train=blank)
    assert "min_count" not in str(refused.value.hint)


def test_a_min_count_that_no_label_reaches_is_refused(tmp_path):
    tables = {**TABLES, "labels": {"min_count": 31}}
    with pytest.raises(DataError, match="in fewer than 31 training documents") as refused:
        train(config=tables, out=tmp_path / "run", train=DOCS)
    assert refused.value.hint == "lower --set labels.min_count"


def test_labels_outside_the_ontology_and_a_dev_without_labels_are_warned_of(tmp_path, caplog):
    strange = Corpus.of([*DOCS, Doc("x", {"title": "asteroid"}, (), ("asteroid",))])
    bare = Corpus.of([Doc("y", {"title": "trout"})])
    train(config=TABLES, out=tmp_path / "run", train=strange, dev=bare, ontology=ONTOLOGY)
    messages = [record.getMessage() for record in caplog.records]
    assert any("not in the ontology: 1 of 3 " in line and "'asteroid'" in line for line in messages)
    assert any("no dev document has a label" in line for line in messages)


def test_an_ontology_with_none_of_the_labels_is_refused(tmp_path):
    ontology = build_ontology([Concept("D001", {"en": "Calcimycin"})])
    with pytest.raises(DataError, match=r"no label .* \(of 2\) .* like 'fish', .* like 'D001'"):
        train(config=TABLES, out=tmp_path / "run", train=DOCS, ontology=ontology)
    assert not (tmp_path / "run").exists()


def test_every_missing_file_is_named_before_a_document_is_read(tmp_path):
    broken = tmp_path / "train.jsonl"
    broken.write_text("not JSON: an error here would mean that it was read\n")
    present = tmp_path / "there"
    present.mkdir()
    for options, name in [
        ({"dev": tmp_path / "dev.jsonl"}, "dev.jsonl"),
        ({"ontology": str(tmp_path / "mesh.tsv")}, "mesh.tsv"),
        ({"model": "consensus", "members": (str(present), str(tmp_path / "away"))}, "away"),
    ]:
        with pytest.raises(DataError, match="there is no such file or folder") as refused:
            train(**{"model": "popularity", "train": broken, "out": tmp_path / "run", **options})
        assert refused.value.path.name == name
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["semantic", "attentive-bert"])
def test_a_missing_encoder_is_named_before_a_document_is_read(name, tmp_path):
    (tmp_path / "train.jsonl").write_text("no JSON")
    with pytest.raises(ConfigError, match=f"{name} needs a pretrained encoder") as caught:
        train(name, train=tmp_path / "train.jsonl", out=tmp_path / "out")
    assert "ontodex data get minilm DIR" in caught.value.hint
    assert not (tmp_path / "out").exists()


def test_a_system_that_cannot_learn_dev_says_what_it_is_for(tmp_path, caplog):
    concepts = [Concept("fish", {"en": "trout"}), Concept("tree", {"en": "oak"})]
    labels = ("tree", "fish")
    docs = Corpus.of(Doc(str(i), {"text": "oak"}, labels=(labels[i % 2],)) for i in range(30))
    encoder = write_tiny_encoder(tmp_path / "encoder", ["oak leaves trout"])
    with caplog.at_level("INFO"):
        train(
            "semantic", train=docs, ontology=build_ontology(concepts), out=tmp_path / "out",
            encoder=str(encoder),
        )  # fmt: skip
    assert "semantic does not learn dev: the tenth" in caplog.text

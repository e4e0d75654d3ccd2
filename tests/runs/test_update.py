"""New documents in a finished run; and all documents, dev's too, in a run that was tuned on dev."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ontodex.cli import app
from ontodex.corpora.formats import jsonl
from ontodex.errors import ConfigError, DataError, RunError
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.runs.evaluate import evaluate
from ontodex.runs.folder import verify_folder
from ontodex.runs.recipe import train
from ontodex.runs.run import load
from ontodex.runs.update import update
from ontodex.types import Corpus, Doc, LabelSpace

TOPICS = {"sea": "wave ship tide", "sky": "cloud wind star", "soil": "root worm clay"}
KNN = {"model": {"name": "knn"}}


def new(name: str = "n") -> Corpus:
    text = "lava crater ash wave"
    return Corpus.of(Doc(f"{name}{i}", {"text": text}, labels=("fire", "sea")) for i in range(9))


NEW = new()


def corpus(n: int = 60) -> Corpus:
    rng = np.random.default_rng(0)
    topics = rng.choice(list(TOPICS), n)
    texts = [
        " ".join(rng.choice(TOPICS[t].split(), 3)) + f" ash {i % 5}" for i, t in enumerate(topics)
    ]
    return Corpus.of(
        Doc(str(i), {"text": text}, labels=(topic,))
        for i, (topic, text) in enumerate(zip(topics, texts, strict=True))
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "knn"
    train(config=KNN, out=out, train=corpus())
    return out


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def test_new_documents_and_labels_are_used_at_once(run):
    before = load(run)
    assert "fire" not in before.labels.ids
    update(run, NEW)
    after = load(run)
    assert after.labels.ids == (*before.labels.ids, "fire")
    assert after.labels.frequency[-1] == 9
    assert after.labels.n_docs == before.labels.n_docs + 9
    assert {s.label for s in after.suggest("ash and wave", limit=2)} == {"fire", "sea"}
    assert after.about["updates"]["documents"] == 9
    assert after.about["train"] == before.about["train"]


def test_updates_follow_each_other(run):
    for name in ("n", "m"):
        update(run, new(name))
    again = load(run)
    assert again.about["updates"]["documents"] == 18
    assert again.labels.frequency[again.labels.column["fire"]] == 18
    assert again.labels.ids.count("fire") == 1


@pytest.mark.parametrize("later", [(), ("m",), ("m", "o")])
def test_documents_that_were_added_before_are_refused(run, later):
    update(run, NEW)
    for name in later:
        update(run, new(name))
    taken = (run / "manifest.json").read_bytes()
    with pytest.raises(RunError, match="run: has taken these documents already") as refused:
        update(run, NEW)
    assert refused.value.hint == "give only documents that are new"
    assert (run / "manifest.json").read_bytes() == taken


def test_documents_that_were_trained_on_are_refused(tmp_path):
    train(config=KNN, out=tmp_path / "run", train=corpus(), dev=NEW)
    with pytest.raises(RunError, match="has taken these documents already"):
        update(tmp_path / "run", corpus())


def test_a_run_updated_by_an_older_version_knows_its_last_documents(run):
    update(run, NEW)
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["updates"] = {"documents": 9, "last": NEW.key}
    (run / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(RunError, match="has taken these documents already"):
        update(run, NEW)
    update(run, new("m"))
    with pytest.raises(RunError, match="has taken these documents already"):
        update(run, NEW)


def test_documents_without_labels_are_refused(run):
    bare = Corpus.of(Doc(f"b{i}", {"text": "lava"}) for i in range(2))
    for nothing in (bare, Corpus.of([])):
        with pytest.raises(DataError, match="no new document has a label"):
            update(run, nothing)
    assert "updates" not in load(run).about


def test_documents_without_labels_are_left_out_with_a_warning(run, tmp_path, caplog):
    bare = [Doc(f"b{i}", {"text": "lava crater"}) for i in range(3)]
    jsonl.write(Corpus.of([*NEW, *bare]), tmp_path / "new.jsonl")
    before = load(run).model.gold.shape[0]
    done = CliRunner().invoke(app, ["update", str(run), str(tmp_path / "new.jsonl")])
    assert "left out, because they have no label: 3 of 12 new documents" in caplog.text
    assert "9 documents and 1 new label added" in done.output
    assert load(run).n_updated == 9
    assert load(run).model.gold.shape[0] == before + 9


def test_new_labels_outside_the_ontology_are_warned_of(tmp_path, caplog):
    ontology = build_ontology([Concept(topic) for topic in (*TOPICS, "rain")])
    train(config=KNN, out=tmp_path / "run", train=corpus(), ontology=ontology)
    update(tmp_path / "run", NEW)
    assert (
        "labels of the new documents that are not in the ontology: 1 of 2 ('fire' is one)"
        in caplog.text
    )
    caplog.clear()
    update(tmp_path / "run", Corpus.of([Doc("r", {"text": "drops"}, labels=("rain",))]))
    assert not caplog.text


def test_a_new_label_gets_the_threshold_of_labels_without_dev_documents(run):
    old = load(run).decision
    update(run, NEW)
    found = load(run)
    values = found.decision.rule.thresholds  # type: ignore[attr-defined]
    assert len(values) == len(found.labels)
    np.testing.assert_array_equal(values[:-1], old.rule.thresholds)  # type: ignore[attr-defined]
    assert values[-1] in old.rule.thresholds  # type: ignore[attr-defined]
    assert len(found.decide(NEW)) == 9


def test_metrics_of_the_old_run_are_not_copied(run):
    evaluate(run, corpus(), report=True)
    update(run, NEW)
    assert not (run / "metrics.json").exists()
    assert not list(run.parent.glob(".*")), "nothing is left beside the run"


def test_a_system_that_cannot_take_documents_says_so(tmp_path):
    train(config={"model": {"name": "popularity"}}, out=tmp_path / "floor", train=corpus())
    with pytest.raises(RunError, match="cannot take documents without training"):
        update(tmp_path / "floor", NEW)
    with pytest.raises(RunError, match="no such run folder"):
        update(tmp_path / "nowhere", NEW)


def test_the_command_updates_a_run(run, tmp_path):
    jsonl.write(NEW, tmp_path / "new.jsonl")
    done = CliRunner().invoke(app, ["update", str(run), str(tmp_path / "new.jsonl")])
    assert done.exit_code == 0, done.output
    assert "9 documents and 1 new label added" in done.output
    assert "fire" in load(run).labels.ids


def test_graphknn_takes_documents_through_the_same_command(tmp_path):
    training = {"epochs": 5, "batch_size": 16, "lr": 0.02}
    model = {"name": "graphknn", "hidden": 16, "label_size": 4, "networks": 1, "train": training}
    train(config={"model": model}, out=tmp_path / "run", train=corpus())
    before = len(load(tmp_path / "run").model.memory)
    update(tmp_path / "run", Corpus.of([*NEW, Doc("bare", {"text": "lava"})]))
    updated = load(tmp_path / "run")
    assert {s.label for s in updated.suggest("ash wave", limit=9)} >= {"fire"}
    assert len(updated.model.memory) == updated.model.gold.shape[0] == before + 9


UPDATER = """
import dataclasses, secrets, sys
from pathlib import Path
from ontodex.corpora.open import open_corpus
from ontodex.runs.update import update
from ontodex.types import Corpus
docs = list(open_corpus(Path(sys.argv[2])))
while True:
    name = secrets.token_hex(4)  # other documents each time, in each process
    new = Corpus.of(dataclasses.replace(doc, id=name + doc.id) for doc in docs)
    update(Path(sys.argv[1]), new)
    print("done", flush=True)
"""


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_the_old_run_or_the_new_one(run, tmp_path):
    jsonl.write(NEW, tmp_path / "new.jsonl")
    rng = random.Random(1)
    counts = set()
    for _ in range(12):
        process = subprocess.Popen(
            [sys.executable, "-c", UPDATER, str(run), str(tmp_path / "new.jsonl")],
            stdout=subprocess.PIPE,
            env={**os.environ, "ONTODEX_CACHE": str(tmp_path / "cache")},
        )
        assert process.stdout is not None
        process.stdout.readline()  # it is at work
        time.sleep(rng.random() * 0.2)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        found = load(run)  # checks every file against the manifest
        n = found.about["updates"]["documents"]
        assert found.labels.frequency[found.labels.column["fire"]] == n
        assert found.model.memory.shape[0] == found.labels.n_docs  # type: ignore[attr-defined]
        counts.add(n)
    assert len(counts) == 12  # each time it got further


def test_refitting_learns_the_documents_that_were_set_aside(tmp_path):
    rare = Corpus.of(
        [*corpus(), *(Doc(f"r{i}", {"text": "gneiss"}, labels=("rock",)) for i in range(3))]
    )
    plain = train(config={**KNN, "train": {"refit": False}}, out=tmp_path / "plain", train=rare)
    full = train(config=KNN, out=tmp_path / "full", train=rare)
    assert plain.model.memory.shape[0] == plain.about["train"]["documents"] < 63  # type: ignore[attr-defined]
    assert full.model.memory.shape[0] == 63  # type: ignore[attr-defined]
    assert (full.about["refit"], full.about["train"]["documents"]) == (True, 63)
    assert full.labels.frequency.sum() == 63
    assert full.model.neighbours == plain.model.neighbours  # type: ignore[attr-defined]
    assert full.model.calibration.to_json() == plain.model.calibration.to_json()  # type: ignore[attr-defined]
    assert full.suggest("gneiss")[0].label == "rock"


def test_a_label_that_only_dev_has_is_known_after_refitting(tmp_path):
    dev = Corpus.of([Doc("d", {"text": "gneiss worm"}, labels=("rock",))])
    found = train(
        config={**KNN, "train": {"refit": True}}, out=tmp_path / "run", train=corpus(), dev=dev
    )
    assert "rock" in {s.label for s in found.suggest("gneiss worm")}
    assert verify_folder(tmp_path / "run")["labels"] == 4


def test_refitting_a_system_that_cannot_is_refused_before_anything_is_read(tmp_path):
    tables = {"model": {"name": "xmlcnn"}, "train": {"refit": True}}
    with pytest.raises(ConfigError, match="cannot be refitted"):
        train(config=tables, out=tmp_path / "run", train=corpus())
    assert not (tmp_path / "run").exists()


def test_parts_of_a_corpus_join_to_a_larger_part_of_it(tmp_path):
    whole = Corpus.write(corpus(), tmp_path / "c")
    one, two, three = (whole.select(rows) for rows in ([4, 1], [2, 9], np.arange(60)))
    assert one.join(two).ids == ["1", "2", "4", "9"]
    assert one.join(two).folder == whole.folder
    assert one.join(three).key == whole.key
    assert one.join(NEW).ids == ["1", "4", *NEW.ids]
    assert LabelSpace.of(one.join(NEW)).frequency.sum() == 2 + 18

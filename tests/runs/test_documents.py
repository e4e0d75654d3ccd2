"""A user's own table from training to indexing: columns are named once, labels are names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import ontodex
from ontodex.cli import app
from ontodex.corpora.field_mapping import FieldMapping
from ontodex.errors import DataError
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.ontology.open import write_ontology
from ontodex.runs.folder import verify_folder
from ontodex.runs.retrain import open_sources, retrain_run
from ontodex.types import Corpus

HEADER = "doc,headline,content,topics\n"
TRAIN = HEADER + "".join(
    f"f{i},Trout {i},Trout swim in the stream {i},Fish;1.2\n"
    f"o{i},Oak {i},Oak leaves fall {i},quercus\n"
    for i in range(8)
)
TEST = HEADER + "t1,Trout,Trout in the lake,FISH\nt2,Oak,Old oak leaves,oak\n"
MAPPING = FieldMapping(("headline", "content"), "topics", "doc")
OPTIONS = [
    *("--text-field", "headline", "--text-field", "content"),
    *("--label-field", "topics", "--id-field", "doc"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tables, an ontology, and a run that was trained on the tables."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "train.csv").write_text(TRAIN)
    (folder / "test.csv").write_text(TEST)
    concepts = [
        Concept("http://e/fish", {"en": "Fish", "fi": "Kalat"}, notation="1.1"),
        Concept("http://e/water", {"en": "Water"}, notation="1.2"),
        Concept("http://e/oak", {"en": "Oak"}, synonyms={"en": ["Quercus"]}),
    ]
    write_ontology(build_ontology(concepts), folder / "ontology.json")
    done = run(folder, "train", "--model", "knn", "--train", "train.csv", "--ontology",
               "ontology.json", "--out", "run", *OPTIONS)  # fmt: skip
    assert done.exit_code == 0, done.output
    return folder


def run(folder: Path, command: str, *words: str) -> Result:
    """Run a command; words that name a file of the folder become paths."""
    known = ("train.csv", "test.csv", "new.csv", "out.jsonl", "ontology.json", "run", "other")
    paths = [str(folder / word) if word in known else word for word in words]
    return CliRunner().invoke(app, [command, *paths])


def test_names_and_notations_become_concepts_and_the_columns_are_recorded(place: Path) -> None:
    trained = ontodex.load(place / "run")
    assert set(trained.labels.ids[:3]) == {"http://e/fish", "http://e/water", "http://e/oak"}
    assert trained.labels.n_seen == 3
    assert FieldMapping.of(**verify_folder(place / "run")["fields"]) == MAPPING


def test_later_commands_need_no_options(place: Path) -> None:
    done = run(place, "evaluate", "run", "test.csv", "--json")
    assert json.loads(done.stdout)["P@1"] == 1.0
    done = run(place, "index", "run", "test.csv", "out.jsonl", "--workers", "1")
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in (place / "out.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == ["t1", "t2"]


def test_runs_are_compared_and_updated_with_names_as_labels(place: Path) -> None:
    ontodex.train(
        "popularity",
        train=place / "train.csv",
        ontology=place / "ontology.json",
        out=place / "other",
        mapping=MAPPING,
    )
    found = ontodex.compare([place / "run", place / "other"], place / "test.csv")
    assert found.values["P@1"][0] == 1.0
    (place / "new.csv").write_text(HEADER + "n1,Trout,A trout,Kalat\nn2,Newt,A newt,Newts\n")
    done = run(place, "update", "run", "new.csv")
    assert done.exit_code == 0, done.output
    labels = ontodex.load(place / "run").labels
    assert ("Kalat" in labels.column, "Newts" in labels.column) == (False, True)


def test_what_was_matched_is_reported(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    (place / "new.csv").write_text(TRAIN + "x,Newt,A newt,Newts\n")
    with caplog.at_level("INFO"):
        ontodex.train(
            "popularity",
            train=place / "new.csv",
            ontology=place / "ontology.json",
            out=place / "reported",
            mapping=MAPPING,
        )
    assert "read 17 documents with 25 labels" in caplog.text
    expected = "25 labels: 0 ids, 24 matched by name or notation, 0 ambiguous, 1 unknown ('Newts')"
    assert expected in caplog.text


def test_a_table_without_the_label_column_says_which_there_are(place: Path) -> None:
    with pytest.raises(DataError, match="no training document has a label") as met:
        ontodex.train(
            "popularity",
            train=place / "train.csv",
            out=place / "unlabelled",
            mapping=FieldMapping(("content",)),
        )
    assert met.value.hint == "give --label-field if they are in one of doc, headline, topics"


def test_labels_of_another_vocabulary_name_the_file_of_the_user(place: Path) -> None:
    path = place / "foreign.csv"
    path.write_text(HEADER + "t1,Snow,Snow falls,Weather\n")
    with pytest.raises(DataError, match="knows none of the labels") as met:
        ontodex.evaluate(place / "run", path)
    assert str(met.value).startswith(f"{path}: ")


def test_training_again_reads_the_columns_that_the_run_recorded(place: Path) -> None:
    trained = ontodex.train(
        "popularity",
        train=place / "train.csv",
        ontology=place / "ontology.json",
        out=place / "first",
        mapping=MAPPING,
    )
    sources = open_sources(trained)
    assert set(next(iter(sources.train.labels()))) == {"http://e/fish", "http://e/water"}
    again = retrain_run(trained, place / "again", sources, Corpus.of([]))
    assert again.labels.ids == trained.labels.ids
    assert FieldMapping.of(**verify_folder(place / "again")["fields"]) == MAPPING


@pytest.mark.slow
def test_tuning_and_auto_take_the_columns_too(place: Path) -> None:
    words = ["--train", "train.csv", "--ontology", "ontology.json", "--budget", "10s"]
    done = run(place, "auto", *words, "--system", "linear", "--out", str(place / "auto"), *OPTIONS)
    assert done.exit_code == 0, done.output
    assert ontodex.evaluate(place / "auto", place / "test.csv")["P@1"] == 1.0
    linear = ontodex.train(
        "linear",
        train=place / "train.csv",
        ontology=place / "ontology.json",
        out=place / "linear",
        mapping=MAPPING,
    )
    words = ["--train", "train.csv", "--budget", "5s", "--out", str(place / "tuned")]
    done = run(place, "tune", str(linear.folder), *words)
    assert done.exit_code == 0, done.output
    assert FieldMapping.of(**verify_folder(place / "tuned")["fields"]) == MAPPING

"""Documents of a program: dicts in memory are read as the same JSON lines in a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ontodex
from ontodex.errors import DataError

OBJECTS = [
    {"text": f"trout in the stream {n}" if n % 3 else f"an old oak {n}", "labels": [str(n % 3)]}
    for n in range(30)
]


def test_dicts_are_read_like_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in OBJECTS))
    assert list(ontodex.open_corpus(OBJECTS)) == list(ontodex.open_corpus(path))
    with_tuples = [{**one, "labels": tuple(one["labels"])} for one in OBJECTS]
    assert list(ontodex.open_corpus(with_tuples)) == list(ontodex.open_corpus(path))


def test_a_run_is_trained_measured_and_asked_with_dicts_alone(tmp_path: Path) -> None:
    run = ontodex.train("knn", train=OBJECTS, dev=OBJECTS[:9], out=tmp_path / "run")
    assert ontodex.evaluate(run, OBJECTS)["P@1"] > 0.5
    assert run.suggest({"text": "an old oak"}) == run.suggest("an old oak")
    assert run.suggest([{"text": "an old oak"}])[0][0].label == "0"


def test_other_keys_are_named_as_for_a_file(tmp_path: Path) -> None:
    objects = [{"headline": one["text"], "topics": "; ".join(one["labels"])} for one in OBJECTS]
    mapping = ontodex.FieldMapping.of("headline", "topics")
    run = ontodex.train("popularity", train=objects, out=tmp_path / "run", mapping=mapping)
    assert run.about["labels"] == 3
    with pytest.raises(DataError, match="there is no column 'topics'; the columns are text, label"):
        ontodex.open_corpus(OBJECTS, label_field="topics")


def test_what_is_no_document_is_named_with_what_to_give() -> None:
    with pytest.raises(DataError, match="document 1 is of the type str, not a dict") as error:
        ontodex.open_corpus(["only a text"])
    assert '{"text": ..., "labels": [...]}' in error.value.hint
    with pytest.raises(DataError, match="document 2: no text; the object has"):
        ontodex.open_corpus([OBJECTS[0], {"body text": "oak"}])
    with pytest.raises(DataError, match="document 1: 'labels' is text 'oak', not a list of texts"):
        ontodex.open_corpus([{"text": "an oak", "labels": "oak"}])


def test_a_corpus_and_metrics_are_one_line_at_the_prompt(tmp_path: Path) -> None:
    assert repr(ontodex.open_corpus(OBJECTS)) == "Corpus(30 documents)"
    run = ontodex.train("knn", train=OBJECTS, out=tmp_path / "run")
    metrics = ontodex.evaluate(run, OBJECTS)
    assert repr(metrics).startswith(f"Metrics(P@1={metrics['P@1']:.3f}, ")
    assert repr(metrics).endswith("30 documents)")
    assert len(repr(metrics)) < 200

"""A loaded run: suggest and explain."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from floor_run import ONTOLOGY
from ontodex.cli import app
from ontodex.errors import RunError
from ontodex.runs.recipe import train
from ontodex.runs.run import Run, load
from ontodex.types import Corpus, Doc
from tiny_encoder import write_tiny_encoder


def test_a_run_suggests_names_ids_and_places(folder):
    best, second = load(folder).suggest("any text")
    assert (best.label, best.name, best.path) == ("fish", "Fish", ("Animals", "Fish"))
    assert best.probability == 1.0
    assert second.label == "oak"
    assert load(folder).suggest("x", language="de")[0].path == ("Tiere", "Fische")
    assert [s.label for s in load(folder).suggest("x", threshold=0.9)] == ["fish"]
    assert len(load(folder).suggest("x", limit=1)) == 1


def test_a_system_that_cannot_explain_says_so(folder):
    with pytest.raises(RunError, match="'popularity' cannot explain"):
        load(folder).explain("text")


def test_attention_is_shown_only_by_systems_whose_labels_attend_to_words(folder):
    old = load(Path(__file__).parent / "0.1" / "attentionxml")
    found = old.explain("words about the law", attention=True)
    assert old.settings.name == "attentive"
    assert sum(span.weight for span in found.spans) == pytest.approx(1.0)
    assert [span.weight for span in old.explain("words about the law").spans] != [
        span.weight for span in found.spans
    ]
    with pytest.raises(RunError, match="'popularity' attend to no words"):
        load(folder).explain("text", attention=True)


def test_a_run_with_a_pretrained_encoder_shows_the_attention_of_a_label(tmp_path):
    encoder = write_tiny_encoder(tmp_path / "encoder", ["trout leaves in the cold water"])
    model = {"encoder": str(encoder), "value_dim": 8, "bag": 8, "window": 16, "min_count": 1}
    settings = {"name": "attentive-bert", **model, "train": {"epochs": 1}}
    run = small_run(tmp_path / "run", "attentive-bert", model=settings)
    spans = run.explain("trout in the cold water", "fish", attention=True).spans
    assert len(spans) == 5
    assert all(0 < span.weight < 1 for span in spans)


def test_an_unknown_label_is_refused_with_similar_names(folder):
    run = load(folder)
    assert run.find_column("OAK") == run.find_column("Quercus") == run.find_column("oak")
    with pytest.raises(RunError, match=r"no concept 'fisch'; did you mean 'Fish'\?$") as met:
        run.find_column("fisch")
    assert met.value.hint == f"take an id or a name of the 4 in {folder / 'labels.tsv'}"
    with pytest.raises(RunError, match=r"no concept 'zebra crossings'$"):
        run.find_column("zebra crossings")


def small_run(out: Path, name: str, **tables: dict[str, object]) -> Run:
    docs = [
        Doc(f"{label}{i}", {"text": f"{word} in the cold water {i}"}, (), (label,))
        for i in range(6)
        for label, word in (("fish", "trout"), ("oak", "leaves"))
    ]
    docs += [Doc("n", {"text": "a newt in the moss"}, (), ("newt",))]
    corpora = {"train": Corpus.of(docs), "dev": Corpus.of(docs)}
    return train(config={"model": {"name": name}, **tables}, out=out, ontology=ONTOLOGY, **corpora)


@pytest.mark.parametrize("name", ["linear", "knn", "lexical"])
def test_a_concept_that_was_never_learned_gets_a_remark(tmp_path, name):
    run = small_run(tmp_path / "run", name)
    asked = ["explain", str(run.folder), "trout in the river", "--label", "Animals"]
    assert "never learned: no training document has it" in CliRunner().invoke(app, asked).stdout
    record = json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)
    assert record["remark"] == "never learned: no training document has it"
    assert run.explain("trout in the river", "newt").remark == ""


def test_a_label_of_too_few_documents_gets_a_remark(tmp_path):
    run = small_run(tmp_path / "run", "linear", labels={"min_count": 2})
    remark = run.explain("a newt", "newt").remark
    assert remark == "never learned: fewer than 2 training documents have it"


def test_a_name_explains_a_concept_that_was_never_learned(tmp_path):
    found = small_run(tmp_path / "run", "lexical").explain("many animals drink", "Animals")
    assert found.probability > 0
    assert [found.text[span.start : span.end] for span in found.spans] == ["animals"]
    assert found.remark == ""

"""The language of a run: guessed, given, recorded, and what it decides."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

import ontodex
from ontodex.errors import ConfigError
from ontodex.runs.languages import describe_foreign, prefer_languages
from ontodex.types import Corpus, Doc

FISH = "http://example.org/c1"
FINNISH = "Täällä on aina ollut kala, ja se on myös nyt tärkeä."
SWEDISH = "Det har alltid varit många fiskar här, och de är också viktiga nu."


@pytest.fixture(scope="module")
def finnish(multilingual: Path, tmp_path_factory: pytest.TempPathFactory) -> ontodex.Run:
    """`lexical` trained on Finnish texts, with the vocabulary in three languages."""
    return ontodex.train(
        "lexical",
        train=multilingual / "fi.jsonl",
        ontology=multilingual / "vocabulary.ttl",
        out=tmp_path_factory.mktemp("runs") / "fi",
        lemmas="",
    )


def test_a_finnish_corpus_matches_the_finnish_names_of_a_multilingual_vocabulary(
    finnish, multilingual
):
    assert finnish.languages == finnish.settings.model.languages == ("fi",)
    assert ontodex.evaluate(finnish, multilingual / "fi.jsonl")["P@1"] == 1.0
    assert finnish.suggest("fish, forests and libraries") == []  # English names are not matched


def test_names_are_shown_in_the_language_of_the_documents(finnish):
    assert finnish.suggest(FINNISH)[0].name == "kalat"
    assert finnish.suggest(FINNISH, language="German")[0].name == "Fische"
    assert finnish.suggest(FINNISH, language="en")[0].path == ("fishes",)
    assert finnish.explain(FINNISH, "kalat").name == "kalat"
    assert finnish.explain(FINNISH, "Fische", language="English").name == "fishes"
    assert "kalat" in (finnish.folder / "labels.tsv").read_text(encoding="utf-8")


def test_concepts_are_found_by_a_name_in_any_language(finnish):
    columns = {finnish.find_column(name) for name in (FISH, "kala", "FISCHE", "Fisch", "fishes")}
    assert columns == {finnish.labels.column[FISH]}


def test_a_text_in_another_language_is_warned_of(finnish, caplog):
    for ask in (finnish.suggest, finnish.explain):
        caplog.clear()
        ask(f"{SWEDISH} kala")
        assert "the text seems to be Swedish; this run was trained on Finnish" in caplog.text
    caplog.clear()
    finnish.suggest(FINNISH)
    assert caplog.text == ""


def test_the_warning_for_a_corpus_counts_the_texts():
    corpus = Corpus.of(Doc(str(i), {"text": t}) for i, t in enumerate([FINNISH, SWEDISH, SWEDISH]))
    assert "2 of 3 texts seem to be in other languages, most in Swedish" in describe_foreign(
        corpus, ("fi",)
    )
    assert describe_foreign(corpus, ("fi", "sv")) == describe_foreign(corpus, ()) == ""


def test_a_mixed_corpus_is_read_in_both_languages(multilingual, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    run = ontodex.train(
        "lexical",
        train=multilingual / "mixed.jsonl",
        ontology=multilingual / "vocabulary.ttl",
        out=tmp_path / "run",
    )
    assert "language: German and English, guessed from the texts" in caplog.text
    assert run.languages == ("de", "en")
    for part in ("de", "en"):
        assert ontodex.evaluate(run, multilingual / f"{part}.jsonl")["P@1"] == 1.0


def test_titles_without_grammar_are_in_the_language_of_the_vocabulary(
    multilingual, tmp_path, monkeypatch, caplog
):
    # The names are German; a dictionary of German is all that shows it.
    titles = {"Brücken": "c4", "Fische": "c1"}
    docs = [
        {"id": str(i), "text": f"{title} {1900 + i}", "labels": [f"http://example.org/{label}"]}
        for i, (title, label) in enumerate([*titles.items()] * 20)
    ]
    known = {"Brücken", "Fische"}
    monkeypatch.setattr(
        "ontodex.features.corpus_languages.count_known",
        lambda words, language: len(known & {*words}) if language == "de" else 0,
    )
    monkeypatch.setattr("ontodex.features.corpus_languages._LEAST_WORDS", 2)
    settings = {"ontology": multilingual / "vocabulary.ttl", "lemmas": ""}
    run = ontodex.train("lexical", train=docs, out=tmp_path / "run", **settings)
    assert run.languages == ("de",)
    assert run.suggest("Fische")[0].label == FISH
    known.clear()
    caplog.clear()
    unsure = ontodex.train("lexical", train=docs, out=tmp_path / "unsure", **settings)
    assert unsure.languages == ()
    assert "language: not recognised, because the texts show too little; give it" in caplog.text


def test_the_language_can_be_given_by_name_and_survives_loading(multilingual, tmp_path):
    run = ontodex.train(
        "kernel",
        train=multilingual / "en.jsonl",
        language="German",
        out=tmp_path / "run",
    )
    assert ontodex.load(run.folder).languages == ("de",)
    assert ontodex.load(run.folder).settings.model.languages == ("de",)
    none = ontodex.train(
        "kernel", train=multilingual / "en.jsonl", language="none", out=tmp_path / "none"
    )
    assert none.languages == ()
    with pytest.raises(ConfigError, match="'Klingon' is no language that ontodex knows"):
        ontodex.train("kernel", train="x", language="Klingon", out=tmp_path / "x")


def test_lemmas_of_the_guessed_language_are_learned(multilingual, tmp_path):
    pytest.importorskip("simplemma")
    run = ontodex.train("kernel", train=multilingual / "de.jsonl", out=tmp_path / "run")
    one, many = (run.suggest(f"Das war über die {name}.")[0] for name in ("Brücke", "Brücken"))
    assert one.label == many.label == "http://example.org/c4"
    assert one.probability == many.probability


def test_a_vocabulary_without_names_in_the_language_is_warned_of(multilingual, tmp_path, caplog):
    ontology = ontodex.read_ontology(multilingual / "vocabulary.ttl")
    ontodex.train(
        "lexical",
        train=multilingual / "en.jsonl",
        ontology=ontology,
        language="Swedish",
        out=tmp_path / "run",
    )
    assert "the vocabulary has no names in Swedish: its names in English are matched" in caplog.text


def test_a_language_without_stop_words_is_named(multilingual, tmp_path, caplog):
    train = multilingual / "en.jsonl"
    ontodex.train("popularity", train=train, language=["Manx", "en"], out=tmp_path / "gv")
    assert "Manx: no stop words are known, so words of grammar are read like others" in caplog.text


def test_without_a_language_names_are_english_as_before(multilingual):
    ontology = ontodex.read_ontology(multilingual / "vocabulary.ttl")
    assert prefer_languages(ontology, ()).language == "en"
    assert prefer_languages(ontology, ("sv", "fi")).language == "fi"


@pytest.mark.parametrize("language", ["German", ()])
def test_the_language_of_a_prepared_folder_is_recorded_and_read(
    multilingual, tmp_path, caplog, language
):
    caplog.set_level(logging.INFO)
    folder = tmp_path / "carried"
    ontodex.prepare(
        [multilingual / "de.jsonl"], out=folder, language=language, stop_words="own", min_count=1
    )
    record = json.loads((folder / "prepared.json").read_text(encoding="utf-8"))
    assert record["plan"]["settings"]["languages"] == ["de"]
    caplog.clear()
    run = ontodex.train("kernel", train=folder / "de", out=tmp_path / "run", lemmas="")
    assert run.languages == run.settings.model.languages == ("de",)
    assert "language: German, as the corpus was prepared" in caplog.text
    other = ontodex.train("popularity", train=folder / "de", language="fi", out=tmp_path / "fi")
    assert other.languages == ("fi",)

from __future__ import annotations

import dataclasses

import pytest
from scipy.sparse import csr_array

from ontodex.corpora.label_names import LabelMatcher, NameIndex, resolve_names
from ontodex.types import Corpus, Doc, Ontology
from ontodex.types.sparse_column import SparseColumn


def ontology() -> Ontology:
    ids = ("D1", "D2", "D3", "D4")
    return Ontology(
        ids,
        {"en": SparseColumn.of(("Humans", "Rain", "Mercury", "Mercury (planet)"), "")},
        csr_array((4, 4)),
        {
            "en": SparseColumn.of(
                (("People",), ("Showers", "Humans"), (), ("Mercury", "people")), ()
            )
        },
    )


def labels_of(*names: str) -> tuple[str, ...]:
    (doc,) = resolve_names([Doc("1", {"text": "t"}, labels=names)], ontology())
    return doc.labels


def test_names_become_ids_preferred_names_before_synonyms() -> None:
    assert labels_of("Humans", "Rain") == ("D1", "D2")  # "Humans" is also a synonym of Rain
    assert labels_of("Mercury") == ("D3",)
    assert labels_of("Showers", "D4") == ("D2", "D4")


def test_case_matters_only_when_it_has_to() -> None:
    assert labels_of("People", "people") == ("D1", "D4")
    assert labels_of("HUMANS", "rain") == ("D1", "D2")


def test_two_names_of_one_concept_are_one_label() -> None:
    assert labels_of("Rain", "Showers") == ("D2",)


def test_names_of_no_concept_or_of_several_are_kept_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert labels_of("PEOPLE", "Snow") == ("PEOPLE", "Snow")
    expected = "2 labels: 0 ids, 0 matched by name or notation, 1 ambiguous ('PEOPLE'), 1 unknown"
    assert f"{expected} ('Snow')" in caplog.text


def test_notations_have_priority_over_names_and_ids_over_both() -> None:
    notated = dataclasses.replace(ontology(), notations={"D1": "02.6", "D2": "Mercury", "D3": "D4"})
    matcher = LabelMatcher(NameIndex(notated))
    assert matcher.match(("02.6", "Mercury", "D4")) == ("D1", "D2", "D4")


def test_a_retired_concept_gives_its_name_to_the_current_one() -> None:
    retired = dataclasses.replace(ontology(), deprecated=frozenset({"D3"}))
    renamed = dataclasses.replace(
        retired, names={"en": SparseColumn.of(("Humans", "Rain", "Mercury", "Mercury"), "")}
    )
    assert LabelMatcher(NameIndex(renamed)).match(("Mercury", "D3")) == ("D4", "D3")


def test_a_corpus_gets_ids_and_a_report_of_every_use() -> None:
    docs = [Doc("1", {"text": "t"}, labels=("Rain", "D1", "Snow")), Doc("2", {"text": "u"})]
    matcher = LabelMatcher(NameIndex(ontology()))
    matched = matcher.match_corpus(Corpus.of(docs))
    assert list(matched.labels()) == [["D2", "D1", "Snow"], []]
    assert matcher.report.to_dict() == {
        "n_read": 3,
        "n_ids": 1,
        "n_matched": 1,
        "n_ambiguous": 0,
        "n_unknown": 1,
        "ambiguous": [],
        "unknown": ["Snow"],
    }


def test_labels_that_a_run_knows_stay_as_they_are() -> None:
    matcher = LabelMatcher(NameIndex(ontology()), known={"Rain"})
    corpus = Corpus.of([Doc("1", {"text": "t"}, labels=("Rain",))])
    assert matcher.match_corpus(corpus) is corpus


def test_names_joined_by_another_mark_are_reported_with_the_option_to_give(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert labels_of("Rain, Humans", "Rain / Humans", "Rain, Showers", "Snow, ice") == (
        "Rain, Humans", "Rain / Humans", "Rain, Showers", "Snow, ice",
    )  # fmt: skip
    assert (
        "2 of the unknown labels are several names joined by ','; divide them with "
        "--label-separator ','"
    ) in caplog.text

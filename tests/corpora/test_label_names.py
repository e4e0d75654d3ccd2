from __future__ import annotations

import pytest
from scipy.sparse import csr_array

from ontodex.corpora.label_names import resolve_names
from ontodex.types import Doc, Ontology
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
    assert "2 names (2 uses) are not of exactly one concept" in caplog.text

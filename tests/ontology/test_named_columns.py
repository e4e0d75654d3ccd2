"""Vocabularies in tables with named columns, as spreadsheet programs write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ontodex.corpora.convert import convert
from ontodex.errors import DataError
from ontodex.ontology.detect import detect_format
from ontodex.ontology.open import read_ontology


def put(tmp_path: Path, text: str, encoding: str = "utf-8") -> Path:
    path = tmp_path / "vocabulary.csv"
    path.write_bytes(text.encode(encoding))
    return path


ROWS = (
    "Id;PrefLabel_fi;PrefLabel_en;AltLabel_fi;Broader;Notation\r\n"
    "p1;kirjastoala;library sector;;;00\r\n"
    'p2;kirjastot;"libraries; all";lukutuvat|yleiset kirjastot;p1;02.6\r\n'
    "p3;sää ja ilma;;;p1|p2;\r\n"
    ";;;;;\r\n"
)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "latin-1"])
def test_names_in_languages_synonyms_parents_and_notations_are_read(tmp_path, encoding):
    ontology = read_ontology(put(tmp_path, ROWS, encoding))
    assert ontology.ids == ("p1", "p2", "p3")
    assert ontology.names_of("p2") == {"fi": "kirjastot", "en": "libraries; all"}
    assert ontology.names_of("p3") == {"fi": "sää ja ilma"}
    assert ontology.synonyms_by_language("p2") == {"fi": ("lukutuvat", "yleiset kirjastot")}
    assert ontology.parents_of("p3") == ["p1", "p2"]
    assert ontology.notations == {"p1": "00", "p2": "02.6"}


def test_columns_divided_by_commas_take_semicolons_in_a_cell_and_others_are_named(tmp_path, caplog):
    text = "id,name,parents,colour\n1,Nature,,green\n2,Fish,1,blue\n3,Pike,1; 2,grey\n"
    ontology = read_ontology(put(tmp_path, text))
    assert ontology.names_of("3") == {"und": "Pike"}
    assert ontology.parents_of("3") == ["1", "2"]
    assert "columns left out: colour" in caplog.text


def test_a_table_with_other_columns_is_no_list_of_names(tmp_path):
    with pytest.raises(DataError, match="a vocabulary: Nr, Name, Oberbegriff") as error:
        read_ontology(put(tmp_path, "Nr;Name;Oberbegriff\n1;Natur;\n2;Fisch;1\n"))
    assert "name the columns in the first line: id, name" in error.value.hint
    with pytest.raises(DataError, match="not those of a vocabulary: id, text, label"):
        read_ontology(put(tmp_path, "id,text,label\n1,Trout return,fish\n2,Oaks grow,oak\n"))
    assert detect_format(put(tmp_path, "Fish, dried\nOaks\nOaks, old, felled\n")) == "labels"


def test_a_damaged_row_is_named(tmp_path):
    with pytest.raises(DataError, match=r"vocabulary.csv:3: 1 columns, but the header has 2"):
        read_ontology(put(tmp_path, "id,name\n1,Fish\n2\n"))
    with pytest.raises(DataError, match=r"vocabulary.csv:2: a row without an id"):
        read_ontology(put(tmp_path, "id,name\n,Fish\n"))


def test_a_table_is_converted_as_a_vocabulary(tmp_path):
    source, target = put(tmp_path, ROWS), tmp_path / "vocabulary.json"
    assert convert(source, target) == (3, "concepts")
    assert read_ontology(target).names == read_ontology(source).names

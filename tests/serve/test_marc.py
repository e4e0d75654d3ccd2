"""MARC: the field, its indicators, the code of the vocabulary and the number of the concept."""

from __future__ import annotations

import pytest

from ontodex.serve.marc import MarcOptions, escape_marc, format_record, format_subject


def test_marc_signs_are_written_by_name():
    assert escape_marc("a$b{c}\\\nd") == "a{dollar}b{lcub}c{rcub}{bsol} d"


@pytest.mark.parametrize(
    ("label", "line"),
    [
        ("http://zbw.eu/stw/descriptor/1", "=650  \\7$aN$2stw$0http://zbw.eu/stw/descriptor/1"),
        ("D005393", "=650  \\2$aN$0https://id.nlm.nih.gov/mesh/D005393"),
        ("http://id.nlm.nih.gov/mesh/D005393", "=650  \\2$aN$0http://id.nlm.nih.gov/mesh/D005393"),
        ("gnd:4003694-7", "=650  \\7$aN$2gnd$0(DE-588)4003694-7"),
        ("https://d-nb.info/gnd/4003694-7", "=650  \\7$aN$2gnd$0(DE-588)4003694-7"),
        (
            "http://id.loc.gov/authorities/subjects/sh85048702",
            "=650  \\0$aN$0http://id.loc.gov/authorities/subjects/sh85048702",
        ),
        ("http://www.yso.fi/onto/yso/p1", "=650  \\7$aN$2yso/fin$0http://www.yso.fi/onto/yso/p1"),
        ("C0364", "=650  \\7$aN$2local$0C0364"),
        ("D12", "=650  \\7$aN$2local$0D12"),
    ],
)
def test_the_vocabulary_is_found_by_the_id(label, line):
    assert format_subject(label, "N", "fi", MarcOptions()) == line


def test_the_code_and_the_field_may_be_given():
    given = MarcOptions("655", "eurovoc")
    assert format_subject("1309", "report", "en", given) == "=655  \\7$areport$2eurovoc$01309"
    assert format_subject("1309", "report", "en", MarcOptions("653")) == "=653  \\\\$areport"
    mesh = MarcOptions("650", "mesh")
    assert format_subject("x1", "Fishes", "en", mesh) == "=650  \\2$aFishes$0x1"


def test_a_record_has_a_leader_an_id_and_an_empty_line_behind():
    lines = format_record(
        "a1", ("C1", "C2"), str.lower, {"C1": "1.2", "C2": ""}.__getitem__, "en", MarcOptions()
    ).split("\n")
    assert lines[0].startswith("=LDR  ")
    assert len(lines[0]) == len("=LDR  ") + 24
    assert lines[1:] == [
        "=001  a1", "=084  \\\\$a1.2$2local",
        "=650  \\7$ac1$2local$0C1", "=650  \\7$ac2$2local$0C2", "", "",
    ]  # fmt: skip

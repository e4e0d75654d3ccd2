"""Escapes of the export formats."""

from __future__ import annotations

from ontodex.serve.export_formats import _escape_marc


def test_marc_signs_are_written_by_name():
    assert _escape_marc("a$b{c}\\\nd") == "a{dollar}b{lcub}c{rcub}{bsol} d"

"""Hashes, licences, advisories and the bill of materials."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tools import audit, licences, lock, sbom
from tools.dependencies import Dependency, find_dependencies, normalise, read_constraints

ROOT = Path(__file__).resolve().parents[2]
NEEDED = find_dependencies()


def test_the_dependencies_of_all_extras_are_found():
    names = {one.name for one in NEEDED}
    assert {"numpy", "torch", "starlette", "psycopg-binary", "markupsafe"} <= names
    assert not names & {"ontodex", "pytest", "ray"}


def test_every_licence_goes_with_apache_2():
    assert licences.find_refused(NEEDED) == []


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("BSD-3-Clause AND Zlib", True),
        ("Apache-2.0 WITH LLVM-exception AND MIT", True),
        ("GPL-3.0-only OR MIT", True),
        ("(MIT)", True),
        ("LGPL-3.0-only", True),
        ("GPL-3.0-only", False),
        ("MIT AND GPL-2.0-or-later", False),
        ("AGPL-3.0-only", False),
        ("unknown", False),
        ("", False),
    ],
)
def test_an_expression_is_allowed_by_its_parts(expression, allowed):
    assert licences.is_allowed(expression) == allowed


def test_the_page_lists_every_library():
    page = licences.PAGE.read_text(encoding="utf-8")
    for one in NEEDED:
        assert f"| {one.name} | {one.version} | {one.licence} |" in page, "run make licences"


def test_the_lock_has_hashes_for_every_pinned_version():
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    locked = dict(re.findall(r"^(\S+)==(\S+) \\\n    --hash=sha256:[0-9a-f]{64}", text, re.M))
    wanted = {one.name: one.version for one in NEEDED if one.name not in lock.LEFT_OUT}
    assert locked == wanted, "run make lock"
    constraints = read_constraints()
    assert all(locked[name] == constraints.get(name, locked[name]) for name in locked)


def test_hashes_are_taken_from_the_files_of_the_version_alone():
    page = """
    <a href="f/a_b-1.0-py3-none-any.whl#sha256=11">x</a> <a href="f/a_b-1.0.tar.gz#sha256=22">x</a>
    <a href="f/a_b-1.0.1.tar.gz#sha256=33">x</a> <a href="f/a_b-1.0-py2-none-any.whl">x</a>
    <a href="f/other.txt#sha256=44">x</a>
    """
    assert lock.find_hashes(page, "1.0") == ["11", "22"]
    assert lock.find_hashes(page, "2.0") == []


def test_no_pinned_version_has_a_known_vulnerability():
    assert audit.find_known(read_constraints()) == []


def test_a_version_with_a_known_vulnerability_is_found(tmp_path):
    known = tmp_path / "advisories.toml"
    known.write_text(
        '[[advisory]]\npackage = "torch"\nid = "X-1"\naffected = "<2.6"\nwhat = "an example"\n'
    )
    (line,) = audit.find_known({"torch": "2.5.1", "h11": "0.16.0"}, known)
    assert "torch" in line
    assert "X-1" in line
    assert audit.find_known({"torch": "2.6.0"}, known) == []


def test_an_audit_without_the_service_does_not_fail(monkeypatch, capsys):
    monkeypatch.setattr(audit, "ask_service", lambda: None)
    assert audit.main() == 0
    assert "cannot be reached" in capsys.readouterr().out


def test_a_finding_of_the_service_fails_the_audit(monkeypatch):
    monkeypatch.setattr(audit, "ask_service", lambda: 1)
    assert audit.main() == 1


def test_the_bill_of_materials_names_every_library_once(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    wheel = tmp_path / "ontodex-1.0-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    made = sbom.build_sbom(wheel, NEEDED)
    assert made["bomFormat"] == "CycloneDX"
    assert made["metadata"]["timestamp"] == "2001-09-09T01:46:40Z"
    assert [one["name"] for one in made["components"]] == [one.name for one in NEEDED]
    references = {one["bom-ref"] for one in made["components"]} | {"pkg:pypi/ontodex@1.0"}
    assert len(references) == len(NEEDED) + 1
    assert {one["ref"] for one in made["dependencies"]} == references
    assert {needed for one in made["dependencies"] for needed in one["dependsOn"]} < references
    assert sbom.build_sbom(wheel, NEEDED) == made
    sbom.main(tmp_path)
    assert json.loads((tmp_path / "ontodex-1.0.cdx.json").read_text()) == made


def test_names_are_normalised():
    assert normalise("Jinja2.Ext__x") == "jinja2-ext-x"
    assert Dependency("a", "1", "MIT", ()).requires == ()

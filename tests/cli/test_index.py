"""The command that indexes many documents."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from ontodex.cli import app
from ontodex.errors import ConfigError


def test_many_inputs_become_parts_and_a_table_of_current_records(folder, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": "1", "text": "trout"}\n{"id": "2", "text": "oak"}\n')
    (tmp_path / "b.csv").write_text("id,text\n2,oaks\n3,\n")
    inputs = [str(tmp_path / name) for name in ("b.csv", "a.jsonl")]
    out, table = str(tmp_path / "out"), str(tmp_path / "current.csv")
    words = ["index", str(folder), *inputs, out, "--workers", "1", "--merge", table]
    done = CliRunner().invoke(app, words)
    assert done.stdout == (
        f"3 documents indexed in {out}; 1 rejected, see {out}/rejects; current records in {table}; "
        "1 replaced or deleted by later inputs\n"
    )
    ids = [line.split(",")[0] for line in (tmp_path / "current.csv").read_text().splitlines()]
    assert ids == ["id", "1", "2"]
    found = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert found == {"documents": 3, "rejected": 1, "outdated": 1}
    late = CliRunner().invoke(app, [*words[:-2], "--since", "2200-01-01"])
    assert late.stdout == f"0 documents indexed in {out}\n"
    late = CliRunner().invoke(app, ["index", *words[1:4], table, "--since", "2200-01-01"])
    assert str(late.exception) == "no input was modified since 2200-01-01 00:00:00"


def test_documents_and_a_place_for_them_are_both_needed(folder):
    done = CliRunner().invoke(app, ["index", str(folder), "in.jsonl"])
    assert isinstance(done.exception, ConfigError)
    assert str(done.exception) == "in.jsonl: there must be documents and OUT"


def test_an_unknown_engine_is_refused(folder):
    for options, message in (
        (["--engine", "spark"], "--engine is local or ray, not 'spark'"),
        (["--gpus-per-worker", "1"], "--gpus-per-worker is for --engine ray"),
    ):
        done = CliRunner().invoke(app, ["index", str(folder), "in.jsonl", "out.csv", *options])
        assert str(done.exception) == message

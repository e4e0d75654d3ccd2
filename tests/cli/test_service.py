"""The commands of the service."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from ontodex.cli.app import app
from ontodex.errors import ConfigError


@pytest.mark.parametrize("command", [["serve", "run"], ["learn", "run"]])
@pytest.mark.parametrize(
    "url", ["postgresql://ada:secret@host/name", "postgresql://host/name?user=a&password=secret"]
)
def test_a_password_on_the_command_line_is_refused(command, url):
    done = CliRunner().invoke(app, [*command, "--database", url])
    assert isinstance(done.exception, ConfigError)
    assert "secret" not in str(done.exception)
    assert "ONTODEX_DATABASE" in done.exception.hint


def test_a_password_in_the_environment_is_taken(tmp_path):
    environment = {"ONTODEX_DATABASE": "postgresql://ada:secret@127.0.0.1:1/none"}
    done = CliRunner().invoke(app, ["learn", str(tmp_path)], env=environment)
    assert isinstance(done.exception, ConfigError)
    assert "cannot be opened" in str(done.exception)
    assert "secret" not in str(done.exception)

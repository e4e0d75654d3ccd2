"""Connections: durable commits, and messages without passwords."""

from __future__ import annotations

import pytest

from ontodex.errors import ConfigError
from ontodex.serve.database.connection import describe_location
from ontodex.serve.database.database import Database


@pytest.fixture
def database(tmp_path):
    connected = Database.open(str(tmp_path / "decisions.sqlite"))
    yield connected
    connected.close()


def test_a_commit_waits_for_the_disk(database):
    with database._begin_read() as connection:
        settings = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    assert settings == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("/no/such/folder/d.sqlite", "unable to open"),
        ("mongodb://u:secret@h/d", "not a file or a known URL"),
        ("postgresql://ada:secret@127.0.0.1:1/none", "cannot be opened"),
    ],
)
def test_the_error_of_an_unreachable_database_hides_the_password(location, message):
    with pytest.raises(ConfigError, match=message) as caught:
        Database.open(location)
    assert "secret" not in str(caught.value)


def test_a_location_is_described_without_secrets(tmp_path):
    file = tmp_path / "decisions.sqlite"
    assert describe_location(str(file)) == f"{file} (new)"
    file.touch()
    assert describe_location(str(file)) == str(file)
    for url in ("postgresql://ada:secret@host/name", "postgresql://host/name?password=secret"):
        assert "secret" not in describe_location(url)
        assert describe_location(url).endswith("host/name")

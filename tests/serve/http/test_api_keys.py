"""Keys: names, one key a name, and a file of hashes."""

from __future__ import annotations

import pytest

from ontodex.errors import ConfigError
from ontodex.serve.http import api_keys


@pytest.fixture
def key_file(tmp_path):
    return tmp_path / "keys.tsv"


@pytest.mark.parametrize("name", ["", "a\tb", " ada", "a\nb", "x" * 101])
def test_a_name_must_fit_on_a_line(key_file, name):
    with pytest.raises(ConfigError, match="cannot name a key"):
        api_keys.add_key(key_file, name)


def test_a_name_has_one_key_and_a_damaged_file_is_named(key_file):
    api_keys.add_key(key_file, "ada")
    with pytest.raises(ConfigError, match="has a key"):
        api_keys.add_key(key_file, "ada")
    with pytest.raises(ConfigError, match="no key of 'bob'"):
        api_keys.remove_key(key_file, "bob")
    key_file.write_text("ada\tnot a hash\n")
    with pytest.raises(ConfigError, match=r"keys\.tsv:1"):
        api_keys.ApiKeys(key_file)


def test_a_name_with_half_a_surrogate_pair_gets_no_key(tmp_path):
    with pytest.raises(ConfigError, match="cannot name a key"):
        api_keys.add_key(tmp_path / "keys.tsv", "caf\udce9")
    assert not (tmp_path / "keys.tsv").exists()

"""The settings of the service."""

from __future__ import annotations

import shutil

import pytest

from ontodex.errors import ConfigError
from ontodex.serve.http import api_keys
from ontodex.serve.http.problems import Problem
from ontodex.serve.service import ServeConfig, is_loopback, open_runs, open_service


def test_binding_another_address_needs_keys(tmp_path):
    key_file = tmp_path / "keys.tsv"
    with pytest.raises(ConfigError, match="needs keys"):
        ServeConfig(host="0.0.0.0")
    api_keys.add_key(key_file, "ada")
    assert ServeConfig(host="0.0.0.0", keys=key_file).port == 8000


@pytest.mark.parametrize(
    ("settings", "option"),
    [
        ({"port": 70_000}, "--port"),
        ({"queue": 0}, "--queue"),
        ({"batch": 0}, "--batch"),
        ({"max_body": 0}, "--max-body"),
        ({"timeout": 0.0}, "--timeout"),
    ],
)
def test_a_setting_out_of_range_is_named(settings, option):
    with pytest.raises(ConfigError, match=option):
        ServeConfig(**settings)


@pytest.mark.parametrize(
    ("host", "is_local"),
    [("localhost", True), ("127.0.0.1", True), ("::1", True), ("10.0.0.1", False), ("a.b", False)],
)
def test_loopback_addresses_are_recognised(host, is_local):
    assert is_loopback(host) == is_local


def test_two_runs_of_the_same_name_are_refused(run_folder, tmp_path):
    again = shutil.copytree(run_folder, tmp_path / run_folder.name)
    with pytest.raises(ConfigError, match="would both be called 'small'"):
        open_runs([run_folder, again])


def test_runs_are_found_by_name_and_the_first_is_the_default(start, served):
    client = start(dict.fromkeys(("first", "second"), served))
    service = client.app._service
    assert service.find_run(None) is service.find_run("first")
    with pytest.raises(Problem, match="there is no run 'third'"):
        service.find_run("third")


def test_the_service_says_what_it_loads_and_where_decisions_are_kept(run_folder, tmp_path, caplog):
    caplog.set_level("INFO", logger="ontodex")
    database = tmp_path / "new.sqlite"
    service = open_service([run_folder], ServeConfig(database=str(database)))
    service.close()
    assert caplog.messages == [
        f"documents and decisions are kept in {database} (new)",
        f"reading {run_folder}",
        f"{run_folder}: knn, 6 labels, 6 concepts",
        "small: learns thresholds and documents from decisions (ontodex learn)",
        "loading the model of small (1 of 1)",
    ]

"""The files in deploy/ name options that exist and keep the promises of docs/guide/deploy.md."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import typer

from ontodex.cli import app
from tools.dependencies import find_dependencies, normalise

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"


def parse_serve(arguments: list[str]) -> dict[str, Any]:
    """The settings that `ontodex serve` would take from these words; it refuses unknown ones."""
    name, *rest = arguments
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    settings: dict[str, Any] = command.make_context(name, rest).params
    return settings


def compose() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found


def unit() -> dict[str, list[tuple[str, str]]]:
    """The sections of the unit; a key may stand there twice, so they are lists."""
    lines = [
        line for line in (DEPLOY / "ontodex.service").read_text().splitlines() if line[:1] != "#"
    ]
    sections: dict[str, list[tuple[str, str]]] = {}
    for line in filter(None, lines):
        if line.startswith("["):
            here = sections.setdefault(line.strip("[]"), [])
        else:
            key, _, value = line.partition("=")
            here.append((key, value))
    return sections


def test_the_compose_file_serves_with_options_that_exist():
    service = compose()["services"]["ontodex"]
    settings = parse_serve(service["command"])
    assert settings["keys"] is not None
    mounted = {volume.split(":")[1] for volume in service["volumes"]}
    for path in (settings["keys"], settings["runs"][0], Path(settings["database"])):
        assert str(path.parent) in mounted, f"{path} is in no volume"
    assert f":{settings['port']}/" in service["healthcheck"]["test"][-1]


def test_no_container_is_root_can_write_its_system_or_gain_rights():
    services = compose()["services"]
    assert services["ontodex"]["user"] == "10001:10001"
    for name, service in services.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["mem_limit"], name
        assert service["pids_limit"], name


def test_only_the_proxy_is_reached_from_outside_and_the_service_reaches_nothing():
    found = compose()
    assert "ports" not in found["services"]["ontodex"]
    assert found["services"]["ontodex"]["networks"] == ["inside"]
    assert found["networks"]["inside"] == {"internal": True}


def test_the_proxy_knows_the_name_the_port_and_the_limit_of_the_service():
    settings = parse_serve(compose()["services"]["ontodex"]["command"])
    caddy = (DEPLOY / "Caddyfile").read_text()
    assert re.search(r"^(\S+) \{", caddy, re.M)[1] in settings["allowed_host"]  # type: ignore[index]
    assert f"reverse_proxy ontodex:{settings['port']}\n" in caddy
    limit = int(re.search(r"max_size (\d+)MB", caddy)[1])  # type: ignore[index]
    assert limit * 1_000_000 == settings["max_upload"]


def test_the_image_copies_only_files_that_exist_and_does_not_run_as_root():
    lines = (DEPLOY / "Containerfile").read_text().splitlines()
    kept = (DEPLOY / "Containerfile.dockerignore").read_text().split()
    for line in lines:
        if line.startswith("COPY ") and "--from" not in line:
            for name in line.split()[1:-1]:
                assert (ROOT / name).exists(), name
                assert f"!{name}" in kept, f"{name} is kept out of the build"
    last = [line for line in lines if line.startswith("USER ")][-1]
    assert last == "USER 10001:10001"


# Loads and asks all runs of a folder while the libraries named first are missing.
LOAD = """
import sys
from pathlib import Path

for name in sys.argv[1].split(","):
    sys.modules[name] = None
import ontodex
import ontodex.serve.api

for folder in sorted(Path(sys.argv[2]).iterdir()):
    if folder.is_dir():
        ontodex.load(folder).suggest("rodent control in city sewers")
        print(folder.name)
"""


def test_the_image_has_all_that_serving_needs():
    text = (DEPLOY / "Containerfile").read_text()
    extras = re.search(r"^ARG EXTRAS=(\S+)$", text, re.M)[1]  # type: ignore[index]
    kept = {one.name for extra in extras.split(",") for one in find_dependencies("ontodex", extra)}
    left_out = {one.name for one in find_dependencies("ontodex", "all")} - kept
    assert {"gensim", "scikit-learn", "matplotlib", "omikuji", "faiss-cpu"} <= left_out
    modules = [
        module
        for module, names in metadata.packages_distributions().items()
        if {normalise(name) for name in names} <= left_out
    ]
    runs = ROOT / "tests" / "runs" / "0.1"
    done = subprocess.run(
        [sys.executable, "-c", LOAD, ",".join(modules), str(runs)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == sum(path.is_dir() for path in runs.iterdir())


def test_the_unit_serves_with_options_that_exist():
    service = dict(unit()["Service"])
    program, *arguments = shlex.split(service["ExecStart"])
    settings = parse_serve(arguments)
    assert Path(program).name == "ontodex"
    assert settings["host"] == "127.0.0.1"
    assert settings["keys"] is not None
    assert Path(settings["database"]).parent.name == service["StateDirectory"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("CapabilityBoundingSet", ""),
        ("MemoryMax", "4G"),
        ("User", "ontodex"),
    ],
)
def test_the_unit_is_hardened(key, value):
    assert (key, value) in unit()["Service"]


def test_the_unit_is_one_for_systemd_too(tmp_path):
    analyse = shutil.which("systemd-analyze")
    if analyse is None:
        pytest.skip("systemd-analyze is not installed")
    text = (DEPLOY / "ontodex.service").read_text()
    there = text.replace("/opt/ontodex/bin/ontodex", shutil.which("true") or "/bin/true")
    (tmp_path / "ontodex.service").write_text(there)
    done = subprocess.run(
        [analyse, "verify", str(tmp_path / "ontodex.service")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ontodex.service" not in done.stderr

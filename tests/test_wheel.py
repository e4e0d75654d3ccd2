"""The wheel, in an environment of its own: it has the sample, and the demo runs from it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import time
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.slow
def test_the_wheel_runs_the_demo_from_a_clean_environment(tmp_path):
    build = ["-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run([sys.executable, *build], check=True, capture_output=True)
    wheel = next(tmp_path.glob("*.whl"))
    names = zipfile.ZipFile(wheel).namelist()
    assert "ontodex/corpora/sample/ontology.json" in names
    assert "ontodex/corpora/sample/sentences.toml" in names
    assert "ontodex/evaluation/report.css" in names
    assert "ontodex/serve/page/index.html" in names
    others = ("tests", "bench", "docs", "attack", "tools")
    assert not [name for name in names if name.startswith(others)]

    home = tmp_path / "clean"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--no-deps", "--quiet", str(wheel)]
    subprocess.run(install, check=True)
    # The libraries themselves are lent by this environment; ours comes from the wheel alone.
    lent = sysconfig.get_path("purelib")
    inside = subprocess.run(
        [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    for entry in Path(lent).iterdir():
        target = Path(inside) / entry.name
        if not target.exists() and "ontodex" not in entry.name and entry.suffix != ".pth":
            target.symlink_to(entry)
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [str(home / "bin" / "ontodex"), "demo", "demo"]
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "P@1" in done.stdout
    where = [str(python), "-c", "import ontodex; print(ontodex.__file__)"]
    seen = subprocess.run(where, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    assert str(home) in seen.stdout


@pytest.mark.slow
def test_two_builds_give_the_same_bytes(tmp_path):
    """From two folders, at two times, with files of other ages."""
    source = tmp_path / "source"
    no_caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", source / "src", ignore=no_caches)
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copyfile(ROOT / name, source / name)
    wheels = []
    for copy in ("one", "two"):
        folder = tmp_path / copy
        shutil.copytree(source, folder, copy_function=shutil.copyfile)
        build = ["-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder / "dist")]
        environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
        subprocess.run(
            [sys.executable, *build, str(folder)], check=True, capture_output=True, env=environment
        )
        wheels.append(next((folder / "dist").glob("*.whl")))
        time.sleep(2.1)  # the times in a zip have steps of two seconds
    first, second = wheels
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()

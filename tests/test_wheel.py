"""The wheel, in an environment of its own: it has the sample, and the demo runs from it."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
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
    assert "ontodex/sample/ontology.json" in names
    assert "ontodex/sample/sentences.toml" in names
    assert "ontodex/evaluate/report.css" in names
    assert "ontodex/serve/page/index.html" in names
    assert not [name for name in names if name.startswith(("tests", "bench", "docs"))]

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

"""Check the pinned versions against known vulnerabilities: `make audit`.

`pip-audit` asks the advisory service of PyPI. Where the service or pip-audit cannot be reached, the
versions are checked against tools/advisories.toml instead, and the output says so. The exit status
is 1 only for a known vulnerability, so that a build without a network does not fail.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.specifiers import SpecifierSet

from tools.dependencies import ROOT, read_constraints

ADVISORIES = ROOT / "tools" / "advisories.toml"


def find_known(versions: dict[str, str], advisories: Path = ADVISORIES) -> list[str]:
    """Return one line for each pinned version that an advisory in the file names."""
    table = tomllib.loads(advisories.read_text(encoding="utf-8"))
    return [
        f"{one['package']} {versions[one['package']]}: {one['id']}, {one['what']}"
        for one in table.get("advisory", [])
        if one["package"] in versions
        and versions[one["package"]] in SpecifierSet(one["affected"], prereleases=True)
    ]


def ask_service() -> int | None:
    """Run pip-audit over constraints.txt; return its status, or None if it cannot ask."""
    command = [
        sys.executable,
        "-m",
        "pip_audit",
        "--no-deps",
        "--disable-pip",
        "--progress-spinner",
    ]
    command += ["off", "--timeout", "15", "--requirement", str(ROOT / "constraints.txt")]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        return None
    print(done.stdout, end="")
    if "Found" in done.stderr or done.returncode == 0:
        print(done.stderr, end="")
        return done.returncode
    return None


def main() -> int:
    """Ask the service and read the pinned advisories; return 1 for a known vulnerability."""
    known = find_known(read_constraints())
    for line in known:
        print(line)
    status = ask_service()
    if status is None:
        print("the advisory service cannot be reached: only tools/advisories.toml was checked")
    return int(bool(known) or bool(status))


if __name__ == "__main__":
    sys.exit(main())

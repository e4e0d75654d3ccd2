"""The libraries that ontodex[all] installs, with versions and licences.

They are found in the metadata of the installed environment, and the versions in constraints.txt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent

# Libraries whose metadata has no expression of SPDX: their licence, as their sources state it.
STATED = {
    "cloudpickle": "BSD-3-Clause",
    "contourpy": "BSD-3-Clause",
    "cycler": "BSD-3-Clause",
    "jinja2": "BSD-3-Clause",
    "kiwisolver": "BSD-3-Clause",
    "markdown-it-py": "MIT",
    "matplotlib": "PSF-2.0",
    "mdurl": "MIT",
    "milksnake": "Apache-2.0",
    "mpmath": "BSD-3-Clause",
    "python-dateutil": "Apache-2.0 OR BSD-3-Clause",
    "safetensors": "Apache-2.0",
    "scipy": "BSD-3-Clause",
    "shellingham": "ISC",
    "simplemma": "MIT",
    "smart-open": "MIT",
    "sympy": "BSD-3-Clause",
}


@dataclass(frozen=True)
class Dependency:
    """A library, its version and its licence as an expression of SPDX."""

    name: str
    version: str
    licence: str
    requires: tuple[str, ...]  # names of the libraries that it needs itself


def normalise(name: str) -> str:
    """Return a name as package indexes write it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_constraints(path: Path = ROOT / "constraints.txt") -> dict[str, str]:
    """Return the version of each library in constraints.txt."""
    lines = path.read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if "==" in line and not line.startswith("#"))
    return {normalise(name): version.strip() for name, version in pairs}


def find_dependencies(package: str = "ontodex", extra: str = "all") -> list[Dependency]:
    """Return every library that a package with an extra needs on this machine, by name."""
    found: dict[str, set[str]] = {}
    waiting = [(package, frozenset({extra}))]
    while waiting:
        name, extras = waiting.pop()
        for needed in _requirements(name, extras):
            known = found.setdefault(normalise(needed.name), set())
            if not known or not needed.extras <= known:
                known |= {"", *needed.extras}
                waiting.append((normalise(needed.name), frozenset(needed.extras)))
    found.pop(package, None)
    constraints = read_constraints()
    return [_describe(name, found[name], constraints, set(found)) for name in sorted(found)]


def _requirements(name: str, extras: frozenset[str]) -> Iterator[Requirement]:
    for line in metadata.requires(name) or ():
        needed = Requirement(line)
        chosen = ({"extra": extra} for extra in ("", *extras))
        if needed.marker is None or any(map(needed.marker.evaluate, chosen)):
            yield needed


def _describe(
    name: str, extras: set[str], constraints: dict[str, str], known: set[str]
) -> Dependency:
    installed = metadata.metadata(name).json
    licence = str(
        installed.get("license_expression") or STATED.get(name) or installed.get("license", "")
    )
    version = constraints.get(name) or metadata.version(name).split("+")[0]
    needed = {normalise(one.name) for one in _requirements(name, frozenset(extras))}
    requires = tuple(sorted(needed & known))
    return Dependency(name, version, licence or "unknown", requires)

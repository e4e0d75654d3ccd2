"""The types that all campaigns share.

A campaign is a module of this folder with a function

    run(seconds: float, seed: int, out: Path) -> Result

It tries inputs for about `seconds` seconds. The same seed gives the same inputs in the same order.
Each finding is written to a file under `out`, from which it can be repeated.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Finding:
    """An input that broke a promise.

    `key` names the defect, so that a thousand inputs with one cause are one finding. `seed` is the
    input itself, or the JSON of the steps that repeat it.
    """

    key: str
    what: str  # one sentence: what was done, what was expected, what happened
    seed: bytes = b""
    suffix: str = ".bin"  # ending of the seed file


@dataclass
class Result:
    """The figures of one campaign."""

    tried: int = 0
    findings: list[Finding] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)  # figures for the report, by their name
    worst_ratio: float | None = None  # largest cost of an input relative to a benign one

    def add(self, finding: Finding, out: Path) -> bool:
        """Add a finding and write its seed; return False if its key is known already."""
        if any(finding.key == known.key for known in self.findings):
            return False
        self.findings.append(finding)
        write_seed(finding, out)
        return True


class Campaign(Protocol):
    """The function `run` of each campaign's module."""

    def __call__(self, seconds: float, seed: int, out: Path) -> Result: ...


def write_seed(finding: Finding, out: Path) -> Path:
    """Write the seed of a finding and a JSON file that describes it; return the seed's path."""
    out.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(finding.key.encode() + finding.seed).hexdigest()[:12]
    seed = out / f"{name}{finding.suffix}"
    seed.write_bytes(finding.seed)
    about = {"key": finding.key, "what": finding.what, "seed": seed.name}
    (out / f"{name}.about.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    return seed

"""The trainings of bench/papers.py, in the order of their value, and their settings.

Texts are trained as the papers say, in batches of 40, but for fewer epochs: as many for both sides
of a claim (`EPOCHS`). LightAttention trains three levels, each for a third of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

SEEDS = (1, 2, 3)
EPOCHS = {"eurlex57k": 9, "medline": 18}
# XML-CNN reads the same words as the others: punctuation and stop words too.
SAME_WORDS = {"punctuation": True, "stop_words": ""}
TEXT: dict[str, tuple[str, dict[str, Any]]] = {  # row -> system, settings
    "attentionxml": ("attentionxml", {}),
    "xmlrnn": ("xmlrnn", {}),
    "xmlcnn": ("xmlcnn", SAME_WORDS),
    "lightattention": ("lightattention", {}),
    "lightattention-static": ("lightattention", {"negatives": "static"}),
}
# `passes` trains both passes; its pass 1 is the row `keywords`, and all of it `threshold` and
# `sampling`. Those after `max` share its pass 1, or both passes, and have other neighbour labels
# in pass 2: none (as many steps as `passes`, without what it reads), of other documents, gold.
LEVELS: dict[str, dict[str, Any]] = {
    "passes": {"merge": "threshold"},
    "words": {"inputs": "words", "merge": "threshold"},
    "max": {"pooling": "max", "merge": "threshold"},
    "none": {"merge": "threshold"},
    "shuffled": {"merge": "threshold"},
    "gold": {"merge": "threshold"},
    "pointer": {"merge": "pointer"},
    "label": {"merge": "pointer", "pointer": {"unit": "label"}},
}
NEIGHBOURS = ("none", "shuffled", "gold")
# The search for P, the most chunks of a category, on dev: both streams in one pass.
CHUNKS: dict[str, dict[str, Any]] = {
    f"chunks-{chunks}": {"inputs": "words+keywords", "chunks": chunks, "merge": "threshold"}
    for chunks in (1, 2, 4, 8, 16, 32, 64)
}
LEVEL_EPOCHS = {"eurlex57k": 8, "medline": 16, "sample": 16}
MAX_LENGTH = {"eurlex57k": 200, "medline": 300, "sample": 200}  # words of a document, prepared so
FOLDS = 2


@dataclass(frozen=True)
class Job:
    """A training: a corpus, a row and a seed."""

    corpus: str
    row: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.corpus}-{self.row}-{self.seed}"

    @property
    def kind(self) -> str:
        return "text" if self.row in TEXT else "levels"

    def prepared(self, folder: Path) -> Path:
        """Return the folder of the prepared corpus."""
        return folder / f"{self.corpus}-{'attention' if self.kind == 'text' else 'levels'}"

    def result(self, out: Path) -> Path:
        return out / "results" / f"{self.name}.json"

    def work(self, out: Path) -> Path:
        """Return the folder of checkpoints and finished stages."""
        return out / "work" / self.name

    @property
    def needs(self) -> Mapping[str, str]:
        """The job whose stages this one continues from, and which stages."""
        passes = {"pointer": "pass-[12]-*", "label": "pass-[12]-*"}
        passes |= dict.fromkeys(NEIGHBOURS, "pass-1-*")
        if self.row not in passes:
            return {}
        return {Job(self.corpus, "passes", self.seed).name: passes[self.row]}

    def list_stages(self, out: Path) -> list[Path]:
        """Return the finished stages that this job continues from."""
        return [
            path
            for name, pattern in self.needs.items()
            for path in sorted((out / "work" / name).glob(pattern))
            if path.is_dir() and path.suffix != ".running" and not path.name.startswith(".")
        ]

    def can_start(self, out: Path) -> bool:
        """Return whether all stages that this job continues from are finished."""
        wanted = sum((1 + FOLDS) * (2 if "2" in p else 1) for p in self.needs.values())
        return len(self.list_stages(out)) >= wanted


def _list_jobs() -> list[Job]:
    """Return all trainings, the most valuable first; those of the sample rehearse."""
    search = [Job("medline", row, SEEDS[0]) for row in CHUNKS]
    first = [Job(*one) for one in _product(("medline",), ("passes",))]
    text = [Job(*one) for one in _product(("eurlex57k", "medline"), TEXT)]
    medline = [Job(*one) for one in _product(("medline",), list(LEVELS)[1:])]
    eurlex = [Job(*one) for one in _product(("eurlex57k",), LEVELS)]
    rehearsal = [Job(*one) for one in _product(("sample",), LEVELS)]
    return search + first + text + medline + eurlex + rehearsal


def _product(corpora: tuple[str, ...], rows: Any) -> list[tuple[str, str, int]]:
    return [(corpus, row, seed) for corpus, row, seed in product(corpora, rows, SEEDS)]


JOBS = _list_jobs()
BY_NAME = {job.name: job for job in JOBS}

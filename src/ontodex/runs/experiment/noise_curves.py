"""Curves of P@k against the rate of label noise in training: tables and pictures.

Rank-AE shows its robustness to noisy labels in this way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ontodex.corpora.noise import Noise
from ontodex.errors import require
from ontodex.runs.experiment.results import Row, Section

METRICS = ("P@1", "P@3", "P@5")
_KINDS = {
    "missing": "missing labels",
    "invalid": "missing and invalid labels",
    "flip": "flipped labels",
}


@dataclass(frozen=True)
class Curve:
    """The sections of one corpus under one kind of noise, by its rate in training labels."""

    corpus: str
    noise: Noise
    sections: Mapping[float, Section]

    @property
    def title(self) -> str:
        return f"{self.corpus}, {_KINDS[self.noise]}"

    @property
    def file_name(self) -> str:
        return f"noise-{self.corpus}-{self.noise}.svg"

    def rows(self) -> dict[str, dict[float, Row]]:
        """Return the row of each system at each rate; quoted rows, without noise, are left out."""
        found: dict[str, dict[float, Row]] = {}
        for rate, section in sorted(self.sections.items()):
            for row in section.rows:
                if not row.source:
                    found.setdefault(row.name, {})[rate] = row
        return found

    def tables(self) -> list[list[list[str]]]:
        return [self.table(metric) for metric in METRICS]

    def table(self, metric: str) -> list[list[str]]:
        """Return header and rows in percent: one row a system, one column a rate."""
        rates = sorted(self.sections)
        rows = [
            [name, *(_format_cell(by_rate.get(rate), metric) for rate in rates)]
            for name, by_rate in self.rows().items()
        ]
        return [[metric, *(f"{100 * rate:.0f} %" for rate in rates)], *rows]

    def failures(self) -> list[str]:
        return [
            f"{name} at {100 * rate:.0f} %: {row.failure}"
            for name, by_rate in self.rows().items()
            for rate, row in by_rate.items()
            if row.failure
        ]

    def draw(self, folder: Path) -> Path:
        """Draw one picture: a panel for each metric, a line for each system."""
        matplotlib = require("matplotlib", extra="learn", purpose="the noise curves")
        from matplotlib.figure import Figure

        rates = sorted(self.sections)
        figure = Figure(figsize=(11, 3.6), layout="constrained")
        panels = figure.subplots(1, len(METRICS))
        for metric, panel in zip(METRICS, panels, strict=True):
            for (name, by_rate), marker in zip(self.rows().items(), _markers(), strict=False):
                values = [_get_value(by_rate.get(rate), metric) for rate in rates]
                panel.plot([100 * rate for rate in rates], values, marker=marker, label=name)
            panel.set(title=metric, xlabel="noise, % of training labels")
            panel.grid(alpha=0.3)
        panels[0].set_ylabel("%")
        panels[0].legend(fontsize="small")
        figure.suptitle(self.title)
        path = folder / self.file_name
        # Without a date and with a fixed salt, the same numbers give the same bytes.
        with matplotlib.rc_context({"svg.hashsalt": self.file_name}):
            figure.savefig(path, metadata={"Date": None})
        return path


def _get_value(row: Row | None, metric: str) -> float:
    return row.figures[metric].mean if row is not None and metric in row.figures else math.nan


def _format_cell(row: Row | None, metric: str) -> str:
    return row.figures[metric].format(".2f") if row is not None and metric in row.figures else ""


def _markers() -> str:
    return "osv^Dx+*<>ph" * 4


__all__ = ["METRICS", "Curve"]

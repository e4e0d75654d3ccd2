"""The table of an experiment: rows from run folders beside quoted ones, in three formats."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ontodex.config import suggest
from ontodex.errors import ConfigError
from ontodex.io import tables
from ontodex.io.files import write_text

if TYPE_CHECKING:
    from ontodex.runs.experiment.noise_curves import Curve

METRICS = (
    "P@1", "P@3", "P@5", "nDCG@3", "nDCG@5", "PSP@1", "PSP@3", "PSP@5", "MiF", "MaF"
)  # fmt: skip
COSTS = {"train s": ".1f", "docs/s": ",.0f", "MB": ",.1f"}  # with number formats
READING = (
    "Metrics in percent, on the test documents, which nothing was tuned on; ± is the standard "
    "deviation over seeds. train s: seconds of training, features included (for a consensus, of "
    "joining finished runs); docs/s: test documents ranked a second; MB: the saved model."
)


@dataclass(frozen=True)
class MetricValue:
    """A mean over runs, and the standard deviation where there are several."""

    mean: float
    spread: float | None = None

    def format(self, form: str) -> str:
        text = f"{self.mean:{form}}"
        return text if self.spread is None else f"{text} ± {self.spread:{form}}"


@dataclass(frozen=True)
class Row:
    """A system on a corpus: ours, or quoted from elsewhere."""

    name: str
    figures: Mapping[str, MetricValue] = field(default_factory=dict)
    runs: int = 0
    documents: Mapping[str, int] = field(default_factory=dict)  # by part
    hardware: Sequence[str] = ()
    source: str = ""  # of quoted figures
    failure: str = ""  # why a run is missing

    def cells(self) -> list[str]:
        status = " (quoted)" if self.source else "" if self.runs else " (failed)"
        forms = dict.fromkeys(METRICS, ".2f") | COSTS
        return [
            self.name + status,
            *(self.figures[c].format(forms[c]) if c in self.figures else "" for c in forms),
        ]


def read_row(name: str, folders: Sequence[Path], failure: str = "") -> Row:
    """Return the row of a system from its evaluated run folders, one for each seed."""
    manifests, columns, n_test = [], [], 0
    for folder in folders:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
        n_test = metrics["corpus"]["documents"]
        manifests.append(manifest)
        columns.append(
            {
                **{metric: 100 * metrics[metric] for metric in METRICS},
                "train s": manifest["train_seconds"],
                "docs/s": n_test / max(metrics["rank_seconds"], 1e-6),
                "MB": _count_bytes(folder / "model") / 1e6,
            }
        )
    if not columns:
        return Row(name, failure=failure)
    figures = {key: _average([column[key] for column in columns]) for key in columns[0]}
    first = manifests[0]
    documents = {part: first[part]["documents"] for part in ("train", "dev")} | {"test": n_test}
    hardware = sorted({manifest.get("hardware", "an unnamed machine") for manifest in manifests})
    return Row(name, figures, len(columns), documents, hardware, failure=failure)


def _count_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _average(values: Sequence[float]) -> MetricValue:
    spread = statistics.stdev(values) if len(values) > 1 else None
    return MetricValue(statistics.fmean(values), spread)


def parse_quoted_row(name: str, table: Any) -> Row:
    """Return a published row: numbers by the names of our columns, in percent, and their source."""
    where = f"[published ... {name!r}]"
    known = [*METRICS, *COSTS]
    source = table.get("source") if isinstance(table, Mapping) else None
    if not isinstance(source, str) or not source:
        raise ConfigError(f"{where} needs a source: say where the numbers are published")
    figures = {key: value for key, value in table.items() if key != "source"}
    for key, value in figures.items():
        if key not in known:
            raise ConfigError(f"{where} there is no column {key!r}{suggest(key, known)}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"{where} {key!r} takes a number, not {value!r}")
    return Row(name, {key: MetricValue(float(v)) for key, v in figures.items()}, source=source)


@dataclass(frozen=True)
class Section:
    """The rows of one corpus."""

    corpus: str
    rows: Sequence[Row]

    def table(self) -> list[list[str]]:
        """Return header and rows; an empty column is left out."""
        full = [["", *METRICS, *COSTS], *(row.cells() for row in self.rows)]
        kept = [c for c in range(len(full[0])) if c == 0 or any(row[c] for row in full[1:])]
        return [[row[c] for c in kept] for row in full]

    def facts(self) -> str:
        """Return the numbers of documents and the hardware."""
        measured = [row for row in self.rows if row.runs]
        if not measured:
            return "Nothing was evaluated."
        counts = ", ".join(f"{n:,} {part}" for part, n in measured[0].documents.items())
        machines = sorted({machine for row in measured for machine in row.hardware})
        if len(machines) == 1:
            return f"Documents: {counts}. Hardware: {machines[0]}."
        by_machine = (
            f"{machine} ({', '.join(row.name for row in measured if machine in row.hardware)})"
            for machine in machines
        )
        return f"Documents: {counts}. Hardware: {'; '.join(by_machine)}."

    def notes(self) -> list[str]:
        """Return notes on seeds, failures and sources."""
        notes = [f"{row.name}: {row.runs} seeds" for row in self.rows if row.runs > 1]
        notes += [f"{row.name} failed: {row.failure}" for row in self.rows if row.failure]
        sources = dict.fromkeys(row.source for row in self.rows if row.source)
        for source in sources:
            quoted = ", ".join(row.name for row in self.rows if row.source == source)
            notes.append(f"{quoted}: quoted from {source}")
        return notes


@dataclass(frozen=True)
class Results:
    """All results of an experiment."""

    title: str
    note: str
    sections: Sequence[Section]
    curves: Sequence[Curve] = ()

    def failures(self) -> list[str]:
        """Return the rows of which at least one run failed, with noise too."""
        with_noise = [section for curve in self.curves for section in curve.sections.values()]
        failed = (
            f"{row.name} on {section.corpus}"
            for section in (*self.sections, *with_noise)
            for row in section.rows
            if row.failure
        )
        return list(dict.fromkeys(failed))  # a curve begins with the section without noise

    def to_dict(self) -> dict[str, Any]:
        return {"columns": [*METRICS, *COSTS], **dataclasses.asdict(self)}

    def text(self) -> str:
        """Return the tables for a terminal."""
        parts = []
        for section in self.sections:
            lines = [section.corpus, section.facts(), tables.align_columns(section.table())]
            parts.append("\n".join([*lines, *section.notes()]))
        for curve in self.curves:
            parts += [curve.title, *map(tables.align_columns, curve.tables()), *curve.failures()]
        return "\n\n".join(parts)

    def markdown(self) -> str:
        parts = [f"# {self.title}", *([self.note] if self.note else []), READING]
        for section in self.sections:
            parts += [
                f"## {section.corpus}",
                section.facts(),
                tables.format_markdown(section.table()),
            ]
            parts += ["\n".join(f"- {note}" for note in section.notes())] * bool(section.notes())
        for curve in self.curves:
            parts += [f"## {curve.title}", f"![{curve.title}]({curve.file_name})"]
            parts += [tables.format_markdown(table) for table in curve.tables()]
            parts += ["\n".join(f"- {text}" for text in curve.failures())] * bool(curve.failures())
        return "\n\n".join(parts) + "\n"

    def html(self) -> str:
        """Return one page that loads nothing from the network."""
        style = files("ontodex.evaluation").joinpath("report.css").read_text(encoding="utf-8")
        policy = "default-src 'none'; style-src 'unsafe-inline'"
        parts = [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(self.title)}</title><style>{style}</style></head><body>",
            f"<h1>{escape(self.title)}</h1><p>{escape(self.note)}</p>",
            f'<p class="quiet">{escape(READING)}</p>',
        ]
        for section in self.sections:
            notes = "".join(f"<li>{escape(note)}</li>" for note in section.notes())
            parts += [
                f"<h2>{escape(section.corpus)}</h2><p>{escape(section.facts())}</p>",
                tables.format_html(section.table()),
                f'<ul class="quiet">{notes}</ul>' if notes else "",
            ]
        for curve in self.curves:
            notes = "".join(f"<li>{escape(text)}</li>" for text in curve.failures())
            parts += [f"<h2>{escape(curve.title)}</h2>", *map(tables.format_html, curve.tables())]
            parts += [f'<ul class="quiet">{notes}</ul>' if notes else ""]
        return "\n".join([*parts, "</body></html>"]) + "\n"

    def write(self, folder: Path) -> None:
        """Write results.md, results.html, results.json, and a picture of each curve."""
        write_text(folder / "results.md", self.markdown())
        write_text(folder / "results.html", self.html())
        text = json.dumps(self.to_dict(), indent=1, ensure_ascii=False)
        write_text(folder / "results.json", text + "\n")
        for curve in self.curves:
            curve.draw(folder)


__all__ = ["MetricValue", "Results", "Row", "Section", "parse_quoted_row", "read_row"]

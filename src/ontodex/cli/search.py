"""Commands that choose a system and its settings: auto, tune, systems, settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

import ontodex
from ontodex.cli.app import (
    Device,
    DocumentLanguage,
    Json,
    OntologyPath,
    Set,
    app,
    print_answer,
    print_lines,
)
from ontodex.cli.fields import takes_fields
from ontodex.corpora.field_mapping import FieldMapping

Budget = Annotated[str, Option(help="Time for everything: 90s, 10m, 2h.")]


@app.command()
@takes_fields
def auto(
    mapping: FieldMapping,
    train: Annotated[Path, Option("--train", help="Training corpus, any format.")],
    out: Annotated[Path, Option("--out", help="Run folder to write.")],
    dev: Annotated[Path | None, Option("--dev", help="Else a tenth of train is set aside.")] = None,
    ontology: OntologyPath = None,
    language: DocumentLanguage = None,
    budget: Budget = "10m",
    max_latency: Annotated[
        str, Option(metavar="TIME", help="Most time for one document, as 50ms.")
    ] = "",
    systems: Annotated[
        list[str] | None, Option("--system", help="A candidate; else those that suit. May repeat.")
    ] = None,
    set_: Set = None,
    device: Device = "auto",
) -> None:
    """Find the best systems, settings and weights within a time budget, and train them.

    Candidates are measured on dev or, where it is small, by cross-validation. The best are joined
    and learn all documents. RUN/auto.html says what was tried and why it was chosen. Started again
    after a kill, it continues with what it had finished.

    ontodex auto --train train.jsonl --ontology ontology.json --out runs/auto --budget 2m
    """
    from ontodex.config import merge_tables
    from ontodex.config import read as read_config

    model = {"name": "auto", "budget": budget, "max_latency": max_latency, "systems": systems or []}
    tables = merge_tables({"model": model, "train": {"refit": True}}, read_config(None, set_ or []))
    ontodex.train(
        train=train,
        dev=dev,
        ontology=ontology,
        out=out,
        language=language or None,
        device=device,
        config=tables,
        mapping=mapping,
    )
    print_lines(f"run folder {out}; what was tried: {out / 'auto.html'}")


@app.command()
@takes_fields
def tune(
    mapping: FieldMapping,
    run: Annotated[Path, Argument(help="Run folder, whose settings are the start.")],
    train: Annotated[Path, Option("--train", help="Training corpus of the run.")],
    out: Annotated[Path, Option("--out", help="Run folder to write.")],
    dev: Annotated[Path | None, Option("--dev", help="Else a tenth of train is set aside.")] = None,
    budget: Budget = "5m",
    device: Device = "auto",
) -> None:
    """Find better settings for one system within a time budget, and train it with them.

    Many settings are tried on few documents, the better ones on more, the best on all.

    ontodex tune runs/linear --train train.jsonl --budget 2m --out runs/linear-tuned
    """
    ontodex.tune(run, out, train=train, dev=dev, budget=budget, device=device, mapping=mapping)
    print_lines(f"run folder {out}; what was tried: {out / 'tune.html'}")


@app.command()
def systems(as_json: Json = False) -> None:
    """List the systems, with one line of advice each.

    ontodex systems
    """
    rows = [{"name": name, "advice": advice} for name, advice in ontodex.list_systems().items()]
    width = max(len(row["name"]) for row in rows)
    lines = [f"{row['name']:{width}}  {row['advice']}" for row in rows]
    lines.append("\nontodex settings NAME lists the settings of one; docs/papers has its page")
    print_answer(rows, as_json, lambda: "\n".join(lines))


@app.command()
def settings(
    name: Annotated[str, Argument(help="A system, or a table: labels, train, decide.")],
    as_json: Json = False,
) -> None:
    """List the settings of a system: default, choices and meaning.

    ontodex settings linear
    """
    from ontodex.runs.settings_reference import format_settings

    found = ontodex.find_settings(name)
    print_answer(
        [setting.to_json() for setting in found], as_json, lambda: format_settings(name, found)
    )

"""Commands that train a run folder or use one."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

import ontodex
from ontodex.cli.app import (
    Device,
    DocumentLanguage,
    Json,
    Keywords,
    NameLanguage,
    OntologyPath,
    RunFolder,
    Set,
    Text,
    app,
    print_answer,
    print_lines,
    warn_missing_language,
)
from ontodex.cli.completion import complete_concepts, complete_runs, complete_systems
from ontodex.cli.fields import takes_fields
from ontodex.corpora.field_mapping import FieldMapping
from ontodex.errors import ConfigError, RunError
from ontodex.io.counts import format_count
from ontodex.models import MODELS


@app.command()
@takes_fields
def train(
    mapping: FieldMapping,
    train: Annotated[Path, Option("--train", help="Training corpus, any format.")],
    out: Annotated[Path, Option("--out", help="Run folder to write.")],
    model: Annotated[
        str | None,
        Option("--model", help=f"System: {', '.join(MODELS)}.", autocompletion=complete_systems),
    ] = None,
    dev: Annotated[
        Path | None,
        Option("--dev", help="Else a tenth of train decides settings, and is learned then."),
    ] = None,
    ontology: OntologyPath = None,
    language: DocumentLanguage = None,
    runs: Annotated[
        list[Path] | None,
        Option("--runs", metavar="RUN...", help="For consensus: runs to choose members from."),
    ] = None,
    more_runs: Annotated[list[Path] | None, Argument(hidden=True)] = None,
    config: Annotated[Path | None, Option("--config", help="Settings as TOML.")] = None,
    set_: Set = None,
    device: Device = "auto",
) -> None:
    """Train a system and write a run folder. Started again after a kill, it continues.

    ontodex train --model popularity --train train.jsonl --ontology ontology.json --out runs/floor

    With --runs, a consensus keeps the runs that help on dev, and says what each adds:

    ontodex train --model consensus --runs runs/* --train train.jsonl --dev dev.jsonl --out runs/all
    """
    from ontodex.config import read as read_config

    named = [f"model.name={json.dumps(model)}"] if model else []
    named += _name_members(model, runs or [], more_runs or [])
    tables = read_config(config, [*named, *(set_ or [])])
    run = ontodex.train(
        train=train,
        dev=dev,
        ontology=ontology,
        out=out,
        language=language or None,
        device=device,
        config=tables,
        mapping=mapping,
    )
    about = run.about
    print_lines(
        f"{about['model']}: {format_count(about['labels'], 'label')} from "
        f"{format_count(about['train']['documents'], 'document')} in "
        f"{about['train_seconds']:.1f} s; run folder {out}"
    )


def _name_members(model: str | None, runs: list[Path], more: list[Path]) -> list[str]:
    """Return the settings of --runs. Of `--runs a b`, b arrives as an argument of the command."""
    if more and not runs:
        raise ConfigError(f"train takes options only, not {str(more[0])!r}", hint="see --help")
    if not runs:
        return []
    if model != "consensus":
        raise ConfigError("--runs names the members of a consensus", hint="say --model consensus")
    members = json.dumps([str(run) for run in [*runs, *more]])
    return [f"model.members={members}", "model.weights=select", "model.join=best"]


@app.command()
@takes_fields
def evaluate(
    mapping: FieldMapping,
    context: typer.Context,
    run: RunFolder,
    corpus: Annotated[Path, Argument(help="Labelled corpus.")],
    as_json: Json = False,
    device: Device = "auto",
) -> None:
    """Compute all metrics on a labelled corpus; write metrics.json and report.html into the run.

    The main metrics are printed; with --verbose, all of them.

    ontodex evaluate runs/floor test.jsonl
    """
    metrics = ontodex.evaluate(run, corpus, report=True, device=device, mapping=mapping)
    is_verbose = context.obj["verbose"]
    print_answer(metrics.to_dict(), as_json, metrics.to_text if is_verbose else metrics.to_summary)
    if not as_json:
        print_lines(f"report: {run / 'report.html'}; all metrics: {run / 'metrics.json'}")


@app.command()
def suggest(
    run: RunFolder,
    text: Text,
    limit: Annotated[int, Option(min=1, help="Largest number of concepts.")] = 10,
    threshold: Annotated[float, Option(min=0.0, max=1.0, help="Least probability.")] = 0.0,
    language: NameLanguage = None,
    keyword: Keywords = None,
    as_json: Json = False,
    device: Device = "cpu",
) -> None:
    """Suggest concepts for a text: names, ids, probabilities, place in the ontology.

    ontodex suggest runs/floor "Brown trout return to the restored city stream."
    """
    from ontodex.corpora.text_argument import read_document
    from ontodex.render import outline

    loaded, doc = ontodex.load(run, device=device), read_document(text, keyword)
    ontology = loaded.labels.ontology
    warn_missing_language(language, ontology)
    found = ontodex.suggest_in_context(
        loaded, doc, limit=limit, threshold=threshold, language=language
    )
    if not found.shown:
        print_answer([], as_json, lambda: outline.describe_no_suggestion(found, threshold))
        return
    if ontology is None:
        plain = [dataclasses.asdict(suggestion) for suggestion in found.shown]
        print_answer(plain, as_json, lambda: outline.format_suggestions(found.shown))
    else:
        places = outline.build_outline(found, ontology, language=loaded.find_tag(language))
        rows = outline.outline_to_rows(places)
        print_answer(rows, as_json, lambda: "\n".join(outline.format_outline(places)))
    if not as_json and (more := outline.describe_hidden(found, threshold)):
        print_lines(more)


@app.command()
def explain(
    run: RunFolder,
    text: Text,
    label: Annotated[
        str | None,
        Option(
            help="Concept id or name; else the best one, or the steps of the set.",
            autocompletion=complete_concepts,
        ),
    ] = None,
    attention: Annotated[
        bool, Option("--attention", help="The concept's attention, not contributions.")
    ] = False,
    html: Annotated[Path | None, Option(help="Also write a page with the highlights.")] = None,
    language: NameLanguage = None,
    keyword: Keywords = None,
    as_json: Json = False,
    device: Device = "cpu",
) -> None:
    """Show the text with the words that support a concept, in colour.

    Without colours, as in a file, words are marked: **strong** and *weaker* ones support the
    concept, ~~words~~ are evidence against it.

    Without a label, a system that generates label sets step by step shows its steps: the attention
    of each step, and the coverage of each level of the ontology.

    With --attention, words are weighed by the concept's attention (attentionxml, attentive,
    attentive-bert).

    ontodex explain runs/parabel article.txt --label "Water quality"
    """
    from ontodex.corpora.text_argument import read_document
    from ontodex.io.files import write_text
    from ontodex.render import explanation, set_attention

    loaded, doc = ontodex.load(run, device=device), read_document(text, keyword)
    warn_missing_language(language, loaded.labels.ontology)
    steps = ontodex.explain_set(loaded, doc) if label is None and not attention else None
    if steps is not None:
        if html is not None:
            write_text(html, set_attention.set_attention_page(steps, loaded.labels))
        record = set_attention.set_attention_to_dict(steps, loaded.labels)
        text_of_steps = set_attention.format_set_attention(steps, loaded.labels)
        print_answer(record, as_json, lambda: text_of_steps)
        return
    found = loaded.explain(doc, label, language=language, attention=attention)
    if html is not None:
        write_text(html, explanation.explanation_page(found))
    if as_json:
        print_answer(explanation.explanation_to_dict(found), True, str)
    else:
        explanation.print_explanation(found)


@app.command()
@takes_fields
def compare(
    mapping: FieldMapping,
    runs: Annotated[
        list[Path],
        Argument(metavar="RUN...", help="Two run folders or more.", autocompletion=complete_runs),
    ],
    corpus: Annotated[Path, Option("--corpus", "--on", help="Labelled corpus.")],
    consensus: Annotated[
        bool, Option("--consensus", help="Add the consensus of all runs as one more system.")
    ] = False,
    out: Annotated[Path | None, Option("--out", help="Keep the consensus as a run.")] = None,
    train: Annotated[
        Path | None, Option("--train", help="For --out: the training corpus of the runs.")
    ] = None,
    dev: Annotated[Path | None, Option("--dev", help="For --out: to tune thresholds on.")] = None,
    as_json: Json = False,
    device: Device = "auto",
) -> None:
    """Compare runs on the same documents: metrics, ranks, significance, overlap.

    ontodex compare runs/linear runs/parabel --corpus test.jsonl --consensus
    """
    if (out is None) != (train is None) or (out is not None and not consensus):
        raise ConfigError(
            "--out and --train go together, with --consensus",
            hint="--consensus --out RUN --train CORPUS keeps the consensus; leave them all out "
            "to compare only",
        )
    if out is not None and train is not None:
        ontodex.save_consensus(runs, out, train=train, dev=dev, device=device, mapping=mapping)
        runs, consensus = [*runs, out], False
    found = ontodex.compare(runs, corpus, consensus=consensus, device=device, mapping=mapping)
    print_answer(found.to_dict(), as_json, found.text)


@app.command()
def experiment(
    file: Annotated[Path, Argument(metavar="F.toml", help="Corpora, systems, seeds.")],
    out: Annotated[
        Path | None, Option("--out", help="Folder for runs and tables; else runs/NAME of F.")
    ] = None,
    root: Annotated[
        Path | None,
        Option("--root", envvar="ONTODEX_DATA", help="Where the corpora's paths start."),
    ] = None,
    device: Device = "auto",
    workers: Annotated[int, Option(min=1, help="Runs trained at the same time.")] = 1,
) -> None:
    """Train what is missing, measure it, and write the table as Markdown, HTML and JSON.

    ontodex experiment experiments/sample.toml
    """
    folder = out or Path("runs") / file.stem
    results = ontodex.run_experiment(
        file, folder, root=root or Path(), device=device, workers=workers
    )
    print_lines(results.text())
    print_lines(f"\nwritten to {folder}: results.md, results.html, results.json")
    if failed := results.failures():
        raise RunError(
            f"failed: {', '.join(failed)}",
            hint="correct the causes listed below the tables and start the same command again; "
            "finished runs are kept",
        )


@app.command()
def export(
    run: RunFolder,
    out: Annotated[Path, Argument(help="Folder to write.")],
    to: Annotated[str, Option(help="Format of the model: onnx.")] = "onnx",
) -> None:
    """Write a run for programs without ontodex: an ONNX file, its labels and its tokeniser.

    ontodex export runs/linear exported/ --to onnx
    """
    for path in ontodex.export(run, out, to):
        print_lines(str(path))


@app.command()
def push(
    run: RunFolder,
    target: Annotated[str, Argument(help="user/name on the Hugging Face Hub, or ./FOLDER.")],
    public: Annotated[bool, Option("--public", help="Make a new repository public.")] = False,
) -> None:
    """Publish a run with a model card, without its report and log.

    ontodex push runs/parabel ./shared/parabel
    """
    print_lines(ontodex.push(run, target, public=public))


@app.command()
def pull(
    source: Annotated[str, Argument(help="user/name on the Hugging Face Hub, or ./FOLDER.")],
    out: Annotated[Path, Argument(help="Run folder to write.")],
    revision: Annotated[str | None, Option(help="Branch, tag or commit of the repository.")] = None,
) -> None:
    """Fetch a published run and verify it.

    ontodex pull ./shared/parabel runs/fetched
    """
    print_lines(str(ontodex.pull(source, out, revision=revision)))


@app.command()
@takes_fields
def update(
    mapping: FieldMapping,
    run: Annotated[Path, Argument(help="Run folder of a system that remembers documents.")],
    corpus: Annotated[Path, Argument(help="New labelled documents; labels may be new too.")],
    device: Device = "auto",
) -> None:
    """Add new documents to a run without training.

    ontodex update runs/knn new.jsonl
    """
    before = ontodex.load(run)
    updated = ontodex.update(run, corpus, device=device, mapping=mapping)
    documents = updated.n_updated - before.n_updated
    labels = len(updated.labels) - len(before.labels)
    print_lines(
        f"{format_count(documents, 'document')} and {format_count(labels, 'new label')} added to "
        f"{run}; evaluate it again"
    )

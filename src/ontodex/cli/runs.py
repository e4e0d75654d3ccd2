"""Commands that make a run folder, or ask one."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from ontodex.cli.app import (
    Device,
    Json,
    Keywords,
    OntologyPath,
    Set,
    Text,
    answer,
    app,
    ontology_at,
    warn_of_language,
)
from ontodex.errors import ConfigError, RunError


@app.command()
def train(
    train: Annotated[Path, Option("--train", help="Training corpus, any format.")],
    out: Annotated[Path, Option("--out", help="Run folder to write.")],
    model: Annotated[str | None, Option("--model", help="System; see docs/papers.")] = None,
    dev: Annotated[Path | None, Option("--dev", help="Else a tenth of train is set aside.")] = None,
    ontology: OntologyPath = None,
    config: Annotated[Path | None, Option("--config", help="Settings as TOML.")] = None,
    set_: Set = None,
    device: Device = "auto",
) -> None:
    """Train a system and leave a run folder. Started again after a kill, it goes on.

    ontodex train --model popularity --train train.jsonl --ontology ontology.json --out runs/floor
    """
    from ontodex.config import read as read_config
    from ontodex.read import open_corpus
    from ontodex.recipe import claimed, learn
    from ontodex.settings import resolve

    named = [f"model.name={json.dumps(model)}"] if model else []
    chosen = resolve(read_config(config, [*named, *(set_ or [])]))
    with claimed(out, chosen):  # a bad setting or folder is known before a file is read
        run = learn(
            chosen,
            out,
            train=open_corpus(train),
            dev=None if dev is None else open_corpus(dev),
            ontology=ontology_at(ontology),
            device=device,
        )
    about = run.about
    typer.echo(
        f"{about['model']}: {about['labels']:,} labels from {about['train']['documents']:,} "
        f"documents in {about['train_seconds']:.1f} s; run folder {out}"
    )


@app.command()
def evaluate(
    run: Annotated[Path, Argument(help="Run folder.")],
    corpus: Annotated[Path, Argument(help="Labelled corpus.")],
    as_json: Json = False,
    device: Device = "auto",
) -> None:
    """Every metric against a labelled corpus; metrics.json and report.html go into the run.

    ontodex evaluate runs/floor test.jsonl
    """
    from ontodex.read import open_corpus
    from ontodex.run import load

    metrics = load(run, device=device).evaluate(open_corpus(corpus), report=True)
    answer(metrics.to_dict(), as_json, metrics.text)


@app.command()
def suggest(
    run: Annotated[Path, Argument(help="Run folder.")],
    text: Text,
    limit: Annotated[int, Option(min=1, help="How many concepts at the most.")] = 10,
    threshold: Annotated[float, Option(min=0.0, max=1.0, help="Least probability.")] = 0.0,
    language: Annotated[str | None, Option(help="Language of the names.")] = None,
    keyword: Keywords = None,
    as_json: Json = False,
    device: Device = "cpu",
) -> None:
    """The concepts that fit a text: names, ids, probabilities, place in the ontology.

    ontodex suggest runs/floor "Brown trout return to the restored city stream."
    """
    from ontodex.given import document
    from ontodex.outline import instead, left_out, lines, outline, rows, suggestion_lines
    from ontodex.run import load

    loaded, doc = load(run, device=device), document(text, keyword)
    ontology = loaded.labels.ontology
    warn_of_language(language, ontology)
    found = loaded.suggested(doc, limit=limit, threshold=threshold, language=language)
    if not found.shown:
        answer([], as_json, lambda: instead(loaded, doc, threshold, language))
        return
    if ontology is None:
        plain = [dataclasses.asdict(suggestion) for suggestion in found.shown]
        answer(plain, as_json, lambda: suggestion_lines(found.shown))
    else:
        places = outline(found, ontology, language=language)
        answer(rows(places), as_json, lambda: "\n".join(lines(places)))
    if not as_json and (more := left_out(found, threshold)):
        typer.echo(more)


@app.command()
def explain(
    run: Annotated[Path, Argument(help="Run folder.")],
    text: Text,
    label: Annotated[
        str | None, Option(help="Concept id or name; else the best one, or how the set was chosen.")
    ] = None,
    html: Annotated[Path | None, Option(help="Also write a page with the highlights.")] = None,
    keyword: Keywords = None,
    as_json: Json = False,
    device: Device = "cpu",
) -> None:
    """The text with the words that speak for a concept, in colour.

    Where there are no colours, as in a file, words are marked: **strong** and *weaker* ones for the
    concept, ~~words~~ against it.

    Without a label, a system that chooses a set label by label shows how it did: what each choice
    looked at, and the coverage of each level of the ontology.

    ontodex explain runs/parabel article.txt --label "Water quality"
    """
    from ontodex.explain import highlighted, page, set_page, set_picture, set_to_dict, to_dict
    from ontodex.files import write_text
    from ontodex.given import document
    from ontodex.run import load

    loaded, doc = load(run, device=device), document(text, keyword)
    if label is None and loaded.is_stepwise:
        attention = loaded.explain_set(doc)
        if html is not None:
            write_text(html, set_page(attention, loaded.labels))
        record = set_to_dict(attention, loaded.labels)
        answer(record, as_json, lambda: set_picture(attention, loaded.labels))
        return
    explanation = loaded.explain(doc, label)
    if html is not None:
        write_text(html, page(explanation))
    if as_json:
        answer(to_dict(explanation), True, str)
    else:
        highlighted(explanation)


@app.command()
def index(
    run: Annotated[Path, Argument(help="Run folder.")],
    source: Annotated[Path, Argument(metavar="IN", help="Documents in any corpus format.")],
    out: Annotated[
        Path, Argument(metavar="OUT", help="Table to write: .csv, .tsv, .jsonl or .parquet.")
    ],
    limit: Annotated[int | None, Option(min=1, help="How many concepts at the most.")] = None,
    threshold: Annotated[
        float | None, Option(min=0.0, max=1.0, help="Least probability, not the run's decision.")
    ] = None,
    language: Annotated[str | None, Option(help="Language of the names.")] = None,
    block: Annotated[int, Option(min=1, help="Documents computed and kept together.")] = 1_000,
    workers: Annotated[
        int | None, Option(min=1, help="Processes; else one a processor, or one for a GPU.")
    ] = None,
    ray: Annotated[
        str | None, Option(metavar="ADDRESS|local", help="Compute on a Ray cluster.")
    ] = None,
    as_json: Json = False,
    device: Device = "cpu",
) -> None:
    """The concepts of many documents, as a table. Started again after a kill, it goes on.

    ontodex index runs/parabel articles.jsonl articles-indexed.csv
    """
    from ontodex.index import Places
    from ontodex.index import index as index_documents
    from ontodex.train import store

    if language is not None and store.is_finished(run):
        own = run / "ontology.json"
        warn_of_language(language, ontology_at(own if own.exists() else None))
    done = index_documents(
        run,
        source,
        out,
        limit=limit,
        threshold=threshold,
        language=language,
        block=block,
        workers=workers,
        ray=ray,
        device=device,
    )
    rejected = f"; {done.rejected:,} rejected, see {Places(out).rejects}" if done.rejected else ""
    text = f"{done.documents:,} documents indexed in {out}{rejected}"
    answer(dataclasses.asdict(done), as_json, lambda: text)


@app.command()
def compare(
    runs: Annotated[list[Path], Argument(metavar="RUN...", help="Two run folders or more.")],
    on: Annotated[Path, Option("--on", help="Labelled corpus.")],
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
    """Runs side by side on the same documents: metrics, ranks, significance, overlap.

    ontodex compare runs/linear runs/parabel --on test.jsonl --consensus
    """
    from ontodex.comparison import compare_folders, save_consensus
    from ontodex.read import open_corpus

    if (out is None) != (train is None) or (out is not None and not consensus):
        raise ConfigError(
            "--out and --train go together, with --consensus",
            hint="--consensus --out RUN --train CORPUS keeps the consensus; leave them all out "
            "to compare only",
        )
    if out is not None and train is not None:
        dev_corpus = None if dev is None else open_corpus(dev)
        save_consensus(runs, out, train_corpus=open_corpus(train), dev=dev_corpus, device=device)
        runs, consensus = [*runs, out], False
    found = compare_folders(runs, open_corpus(on), consensus=consensus, device=device)
    answer(found.to_dict(), as_json, found.text)


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
    from ontodex.experiment import run_experiment

    folder = out or Path("runs") / file.stem
    results = run_experiment(file, folder, root=root or Path(), device=device, workers=workers)
    typer.echo(results.text())
    typer.echo(f"\nwritten to {folder}: results.md, results.html, results.json")
    if failed := results.failures():
        raise RunError(
            f"failed: {', '.join(failed)}",
            hint="the same command when what is said below the tables is mended; it keeps what is "
            "finished",
        )


@app.command()
def update(
    run: Annotated[Path, Argument(help="Run folder of a system that remembers documents.")],
    corpus: Annotated[Path, Argument(help="New labelled documents; labels may be new too.")],
    device: Device = "auto",
) -> None:
    """Put new documents into a run without retraining.

    ontodex update runs/dxml new.jsonl
    """
    from ontodex.read import open_corpus
    from ontodex.recipe import update as update_run
    from ontodex.run import load

    before = load(run)
    updated = update_run(run, open_corpus(corpus), device=device)
    documents = updated.n_taken - before.n_taken
    labels = len(updated.labels) - len(before.labels)
    typer.echo(
        f"{documents:,} documents and {labels:,} new labels are now in {run}; evaluate it again"
    )

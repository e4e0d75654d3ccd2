"""The commands. Each is short: the library does the work, and says what a library user would see.

Nothing heavy is imported here, so that `ontodex --help` answers at once.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from ontodex import __version__, progress
from ontodex.errors import ConfigError, OntodexError, RunError

if TYPE_CHECKING:
    from ontodex.types import Ontology


app = typer.Typer(
    name="ontodex",
    help="Index documents with the concepts of an ontology, at extreme scale.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)
data_app = typer.Typer(help="Ready-made data sets.", no_args_is_help=True)
ontology_app = typer.Typer(help="Look into an ontology.", no_args_is_help=True)
app.add_typer(data_app, name="data")
app.add_typer(ontology_app, name="ontology")
keys_app = typer.Typer(help="Keys for the service; the file holds hashes.", no_args_is_help=True)
app.add_typer(keys_app, name="keys")

Text = Annotated[
    str,
    Argument(help="The text, a file with it (PDF, DOCX, HTML too), or - for standard input."),
]
Json = Annotated[bool, Option("--json", help="Print JSON for programs.")]
Device = Annotated[str, Option(help="auto, cpu or cuda.")]
OntologyPath = Annotated[Path | None, Option("--ontology", help="Ontology file, any format.")]
Keywords = Annotated[
    list[str] | None, Option("--keyword", help="A keyword of the author's. May be repeated.")
]
Set = Annotated[
    list[str] | None, Option("--set", help="A setting: table.key=value. May be repeated.")
]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; our errors become one sentence and exit code 2, never a traceback."""
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    for chatty in ("gensim", "faiss"):  # one reports every pass, the other every file it tries
        logging.getLogger(chatty).setLevel(logging.WARNING)
    progress.show()
    try:
        app(arguments)
    except OntodexError as error:
        _complain(str(error), error.hint)
        raise SystemExit(2) from error
    except MemoryError as error:
        _complain("the machine's memory is used up", "use a smaller corpus or batch")
        raise SystemExit(2) from error
    except OSError as error:
        _complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        raise SystemExit(2) from error


def _complain(message: str, hint: str = "") -> None:
    typer.echo(f"ontodex: {message}", err=True)
    if hint:
        typer.echo(f"  try: {hint}", err=True)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    out: Annotated[Path, Argument(help="Folder for the sample and the runs.")] = Path("demo"),
    model: Annotated[str, Option(help="Which system to train.")] = "parabel",
) -> None:
    """Train, evaluate and suggest on the bundled sample, in about a minute.

    Other systems than parabel may take longer: levelwise six to ten minutes on one core.

    ontodex demo
    """
    from ontodex.demo import run_demo

    run_demo(out, model, say=typer.echo)


@data_app.command("list")
def data_list(as_json: Json = False) -> None:
    """The data sets that `ontodex data get` knows.

    ontodex data list
    """
    from ontodex.data import ready_sets

    rows = [{"name": s.name, "description": s.description} for s in ready_sets()]
    _print(rows, as_json, lambda: "\n".join(f"{r['name']:14} {r['description']}" for r in rows))


@data_app.command("get")
def data_get(
    name: Annotated[str, Argument(help="sample, medline-mesh or eurlex57k.")],
    folder: Annotated[Path, Argument(help="Where to write train, dev, test and ontology.")],
    source: Annotated[Path | None, Option(help="Folder with the set's own files.")] = None,
) -> None:
    """Write a ready set into FOLDER: train.*, dev.*, test.* and ontology.*.

    ontodex data get sample sample/
    """
    from ontodex.data import get

    for path in get(name, folder, source=source):
        typer.echo(path)


@app.command()
def convert(
    source: Annotated[Path, Argument(metavar="IN", help="Corpus or ontology.")],
    target: Annotated[Path, Argument(metavar="OUT", help="File or folder to write.")],
    from_: Annotated[
        str | None, Option("--from", help="Format of IN, if not to be guessed.")
    ] = None,
    to: Annotated[
        str | None, Option("--to", help="Format of OUT, if its name does not say.")
    ] = None,
    text_field: Annotated[
        list[str] | None,
        Option(help="A field or column that becomes the text. May be repeated."),
    ] = None,
) -> None:
    """Turn a corpus or an ontology into another format.

    ontodex convert articles.xml.gz articles.jsonl
    """
    from ontodex.convert import convert as convert_file

    count, what = convert_file(
        source, target, from_format=from_, to_format=to, text_fields=text_field or ()
    )
    typer.echo(f"{count:,} {what} written to {target}")


@app.command()
def check(
    corpus: Annotated[Path, Argument(help="Corpus in any format.")],
    ontology: OntologyPath = None,
    against: Annotated[Path | None, Option(help="A second corpus, to look for leakage.")] = None,
    plot: Annotated[Path | None, Option(help="Write the label-frequency plot here (PNG).")] = None,
    as_json: Json = False,
) -> None:
    """Say what is wrong with a corpus, with line numbers.

    ontodex check train.jsonl --ontology mesh.tsv --against test.jsonl
    """
    from ontodex.check import check as check_corpus

    report = check_corpus(corpus, ontology=_ontology(ontology), against=against)
    if plot is not None:
        report.plot(plot)
    _print(report.to_dict(), as_json, report.text)


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
            ontology=_ontology(ontology),
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
    _print(metrics.to_dict(), as_json, metrics.text)


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
    _warn_of_language(language, ontology)
    found = loaded.suggested(doc, limit=limit, threshold=threshold, language=language)
    if not found.shown:
        _print([], as_json, lambda: instead(loaded, doc, threshold, language))
        return
    if ontology is None:
        plain = [dataclasses.asdict(suggestion) for suggestion in found.shown]
        _print(plain, as_json, lambda: suggestion_lines(found.shown))
    else:
        places = outline(found, ontology, language=language)
        _print(rows(places), as_json, lambda: "\n".join(lines(places)))
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
        _print(record, as_json, lambda: set_picture(attention, loaded.labels))
        return
    explanation = loaded.explain(doc, label)
    if html is not None:
        write_text(html, page(explanation))
    if as_json:
        _print(to_dict(explanation), True, str)
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
        _warn_of_language(language, _ontology(own if own.exists() else None))
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
    _print(dataclasses.asdict(done), as_json, lambda: text)


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
    _print(found.to_dict(), as_json, found.text)


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
def prepare(
    corpora: Annotated[list[Path], Argument(metavar="CORPUS...", help="Train first, then others.")],
    out: Annotated[Path, Option("--out", help="Folder to write.")],
    ontology: OntologyPath = None,
    set_: Set = None,
) -> None:
    """Features ahead of time, without the text, for training on another machine.

    ontodex prepare train.jsonl dev.jsonl --out carried/ --set prepare.max_length=500
    """
    from ontodex.config import build
    from ontodex.config import read as read_config
    from ontodex.features.prepare import PrepareConfig, names_of
    from ontodex.features.prepare import prepare as prepare_corpora
    from ontodex.read import open_corpus
    from ontodex.read.split import set_aside

    tables = read_config(None, set_ or [])
    config = build(PrepareConfig, tables.get("prepare", {}), "prepare")
    named = {name: open_corpus(path) for name, path in names_of(corpora, out).items()}
    lists = None
    train, known = next(iter(named.values())), _ontology(ontology)
    if known is not None:
        from ontodex.ontology.levels import lists_with_ancestors

        lists = lists_with_ancestors(known, train.labels())
    # Without a dev corpus, training sets a tenth aside: it will learn from the rest first.
    parts = [train] if len(named) > 1 else [train, set_aside(train)[0]]
    prepared = prepare_corpora(named, out, config, label_lists=lists, learned=parts, ontology=known)
    for name, corpus in prepared.items():
        typer.echo(f"{out / name}: {len(corpus):,} documents")


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

    known, documents = len(load(run).labels), open_corpus(corpus)
    updated = update_run(run, documents, device=device)
    typer.echo(
        f"{len(documents):,} documents and {len(updated.labels) - known:,} new labels are now in "
        f"{run}; evaluate it again"
    )


@ontology_app.command("show")
def ontology_show(
    ontology: Annotated[Path, Argument(help="Ontology file, any format.")],
    concept: Annotated[str | None, Argument(help="Id or name; else the top of the tree.")] = None,
    depth: Annotated[int, Option(min=1, help="How many levels.")] = 2,
) -> None:
    """Print the tree, or one concept with its place, names and neighbours.

    ontodex ontology show ontology.json "Water quality"
    """
    from ontodex.ontology import read_ontology
    from ontodex.ontology.show import show

    for line in show(read_ontology(ontology), concept, depth=depth):
        typer.echo(line)


@app.command()
def serve(
    runs: Annotated[list[Path], Argument(metavar="RUN...", help="Run folders, the usual first.")],
    host: Annotated[str, Option(help="Address to bind; other than loopback needs keys.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, Option(help="0 takes any free one.")] = 8000,
    database: Annotated[str, Option(help="SQLite file, or a URL such as postgresql://...")] = (
        "decisions.sqlite"
    ),
    keys: Annotated[Path | None, Option(help="File of `ontodex keys add`.")] = None,
    user_header: Annotated[str, Option(help="Header in which a proxy says who asks.")] = "",
    proxy: Annotated[
        list[str] | None, Option(help="Address of that proxy; else loopback. May be repeated.")
    ] = None,
    name: Annotated[
        list[str] | None, Option(help="Host name by which it is reached. May be repeated.")
    ] = None,
    max_body: Annotated[int, Option(help="Bytes of a body.")] = 2_000_000,
    max_upload: Annotated[int, Option(help="Bytes of an upload.")] = 20_000_000,
    queue: Annotated[int, Option(help="Documents that may wait; more are refused.")] = 256,
    batch: Annotated[int, Option(help="Documents that are ranked together.")] = 64,
    timeout: Annotated[float, Option(help="Seconds for an answer.")] = 30.0,
    device: Device = "cpu",
) -> None:
    """Serve runs: REST, the REST of Annif under /v1, and the curator's page.

    ontodex serve runs/parabel --port 8000
    """
    from ontodex.errors import require

    for module in ("fastapi", "uvicorn", "sqlalchemy", "multipart"):
        require(module, extra="serve", purpose="serving")
    from ontodex.serve.api import serve as serve_runs
    from ontodex.serve.service import ServeConfig

    config = ServeConfig(
        host=host,
        port=port,
        database=database,
        keys=keys,
        user_header=user_header,
        proxies=tuple(proxy or ServeConfig.proxies),
        names=tuple(name or ()),
        max_body=max_body,
        max_upload=max_upload,
        queue=queue,
        batch=batch,
        timeout=timeout,
        device=device,
    )
    serve_runs(runs, config, ready=lambda address: typer.echo(f"serving on {address}"))


@app.command()
def learn(
    run: Annotated[Path, Argument(help="Run folder.")],
    database: Annotated[str, Option(help="SQLite file or URL, as `ontodex serve` had it.")] = (
        "decisions.sqlite"
    ),
    as_json: Json = False,
    device: Device = "cpu",
) -> None:
    """Learn thresholds and documents from curators' decisions; says what it changed.

    ontodex learn runs/parabel --database decisions.sqlite
    """
    from ontodex.errors import require

    require("sqlalchemy", extra="serve", purpose="reading decisions")
    from ontodex.serve.database import Database
    from ontodex.serve.learn import learn as learn_decisions

    opened = Database.open(database, make=False)
    try:
        lesson = learn_decisions(run, opened, device=device)
    finally:
        opened.close()
    _print(lesson.to_dict(), as_json, lesson.text)


@keys_app.command("add")
def keys_add(
    file: Annotated[Path, Argument(metavar="KEYS", help="File of keys, made if missing.")],
    name: Annotated[str, Argument(help="Who gets it; signs the decisions.")],
) -> None:
    """Make a key and print it: it is nowhere else.

    ontodex keys add keys.tsv ada
    """
    from ontodex.serve import keys

    typer.echo(keys.add(file, name))


@keys_app.command("list")
def keys_list(file: Annotated[Path, Argument(metavar="KEYS", help="File of keys.")]) -> None:
    """Who has a key, and since when.

    ontodex keys list keys.tsv
    """
    from ontodex.serve import keys

    for name, day in keys.names(file).items():
        typer.echo(f"{day}  {name}")


@keys_app.command("remove")
def keys_remove(
    file: Annotated[Path, Argument(metavar="KEYS", help="File of keys.")],
    name: Annotated[str, Argument(help="Whose key is taken away.")],
) -> None:
    """Take a key away; a service that runs notices at once.

    ontodex keys remove keys.tsv ada
    """
    from ontodex.serve import keys

    keys.remove(file, name)


def _ontology(path: Path | None) -> Ontology | None:
    from ontodex.ontology import read_ontology

    return None if path is None else read_ontology(path)


def _warn_of_language(language: str | None, ontology: Ontology | None) -> None:
    """Say so where names cannot come in the language asked for."""
    if language is None:
        return
    if ontology is None:
        _complain(f"--language {language}: this run has no ontology, so ids stand for names")
    elif language not in ontology.names:
        tags = ("no stated language" if tag == "und" else tag for tag in sorted(ontology.names))
        known = ", ".join(tags) or "none"
        _complain(f"--language {language}: not one of the ontology, whose names are in {known}")


def _print(value: Any, as_json: bool, text: Any) -> None:
    typer.echo(json.dumps(value, indent=1, ensure_ascii=False) if as_json else text())

"""Commands for corpora and ontologies: demo, data, ontology, convert, check, prepare."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

import ontodex
from ontodex.cli.app import (
    DocumentLanguage,
    Json,
    NameLanguage,
    OntologyPath,
    Set,
    app,
    print_answer,
    read_ontology_option,
    warn_missing_language,
)
from ontodex.cli.fields import takes_fields
from ontodex.corpora.field_mapping import FieldMapping
from ontodex.io.counts import format_count

if TYPE_CHECKING:
    from ontodex.ontology.level_table import LevelRow
    from ontodex.types import Ontology

data_app = typer.Typer(help="Ready-made data sets.", no_args_is_help=True)
ontology_app = typer.Typer(help="Look into an ontology.", no_args_is_help=True)
app.add_typer(data_app, name="data")
app.add_typer(ontology_app, name="ontology")


@app.command()
def demo(
    out: Annotated[Path, Argument(help="Folder for the sample and the runs.")] = Path("demo"),
    model: Annotated[str, Option(help="System to train; see `ontodex systems`.")] = "auto",
) -> None:
    """Train, evaluate and suggest on the bundled sample, in about a minute.

    Other systems than auto may take longer: attentive-levels six to ten minutes on one core.

    ontodex demo
    """
    from ontodex.demo import run_demo

    run_demo(out, model, say=typer.echo)


@data_app.command("list")
def data_list(as_json: Json = False) -> None:
    """List the data sets that `ontodex data get` knows.

    ontodex data list
    """
    from ontodex.corpora.datasets import list_datasets

    rows = [{"name": s.name, "description": s.description} for s in list_datasets()]
    print_answer(
        rows, as_json, lambda: "\n".join(f"{r['name']:14} {r['description']}" for r in rows)
    )


@data_app.command("get")
def data_get(
    name: Annotated[
        str,
        Argument(
            help="One of `ontodex data list`: sample, medline-mesh, eurlex57k, minilm or e5-small."
        ),
    ],
    folder: Annotated[Path, Argument(help="Where to write the files.")],
    source: Annotated[Path | None, Option(help="Folder with the set's own files.")] = None,
) -> None:
    """Write a ready data set or a pretrained encoder into FOLDER.

    A data set is train.*, dev.*, test.* and ontology.*. An encoder is given to
    `--set model.encoder=FOLDER`.

    ontodex data get sample sample/
    """
    from ontodex.corpora.datasets import get

    for path in get(name, folder, source=source):
        typer.echo(path)


@app.command()
def cache(
    clear: Annotated[bool, Option("--clear", help="Remove the cached corpora.")] = False,
    older_than: Annotated[
        float, Option(min=0.0, help="With --clear: only those unchanged for so many days.")
    ] = 0.0,
    as_json: Json = False,
) -> None:
    """Show the corpora that were read and kept, or remove them; they are read again when needed.

    ontodex cache --clear --older-than 30
    """
    import dataclasses

    from ontodex.corpora.cached import clear_cache, find_cache, list_cached

    found = clear_cache(older_than=older_than) if clear else list_cached()
    rows = [{**dataclasses.asdict(one), "folder": str(one.folder)} for one in found]
    lines = [
        f"{one.bytes / 1e6:10,.1f} MB  {one.days:5.0f} days  "
        f"{format_count(one.documents, 'document')}  {one.source or one.folder}"
        for one in found
    ]
    megabytes = sum(one.bytes for one in found) / 1e6
    done = "removed from" if clear else "in"
    corpora = format_count(len(found), "corpus", "corpora")
    lines.append(f"{corpora}, {megabytes:,.1f} MB, {done} {find_cache()}")
    print_answer(rows, as_json, lambda: "\n".join(lines))


@ontology_app.command("show")
def ontology_show(
    ontology: Annotated[Path, Argument(help="Ontology file, any format.")],
    concept: Annotated[
        str | None, Argument(help="Id, name or notation; else the top of the tree.")
    ] = None,
    depth: Annotated[int, Option(min=1, help="Number of levels.")] = 2,
    language: NameLanguage = None,
) -> None:
    """Print the tree, or one concept with its place, names and neighbours.

    ontodex ontology show ontology.json "Water quality"
    """
    from ontodex.features.languages import match_tag
    from ontodex.render.ontology_tree import format_ontology

    read = ontodex.read_ontology(ontology)
    warn_missing_language(language, read)
    tag = match_tag(language, read.names) if language else None
    for line in format_ontology(read, concept, depth=depth, language=tag):
        typer.echo(line)


@ontology_app.command("diff")
def ontology_diff(
    old: Annotated[Path, Argument(metavar="OLD", help="The older version, any format.")],
    new: Annotated[Path, Argument(metavar="NEW", help="The newer version, any format.")],
    limit: Annotated[int, Option(min=0, help="Concepts named of each kind of change.")] = 20,
    as_json: Json = False,
) -> None:
    """Compare two versions of an ontology: added, removed, merged, split, renamed, moved.

    ontodex ontology diff mesh2025.xml.gz mesh2026.xml.gz
    """
    from ontodex.ontology.diff import compare_ontologies
    from ontodex.render.ontology_diff import format_diff

    before, now = ontodex.read_ontology(old), ontodex.read_ontology(new)
    found = compare_ontologies(before, now)
    lines = format_diff(found, before, now, limit=limit)
    print_answer(found.to_dict(), as_json, lambda: "\n".join(lines))


@app.command()
@takes_fields
def convert(
    mapping: FieldMapping,
    source: Annotated[Path, Argument(metavar="IN", help="Corpus or ontology.")],
    target: Annotated[Path, Argument(metavar="OUT", help="File or folder to write.")],
    from_: Annotated[
        str | None, Option("--from", help="Format of IN, if not to be guessed.")
    ] = None,
    to: Annotated[
        str | None, Option("--to", help="Format of OUT, if its name does not say.")
    ] = None,
    ontology: OntologyPath = None,
) -> None:
    """Turn a corpus or an ontology into another format.

    With an ontology, labels that are names or notations of its concepts become their ids.

    ontodex convert articles.xml.gz articles.jsonl
    """
    from ontodex.corpora.convert import convert as convert_file

    count, what = convert_file(
        source,
        target,
        from_format=from_,
        to_format=to,
        mapping=mapping,
        ontology=read_ontology_option(ontology),
    )
    typer.echo(f"{format_count(count, what.removesuffix('s'))} written to {target}")


@app.command()
@takes_fields
def check(
    mapping: FieldMapping,
    corpus: Annotated[Path, Argument(help="Corpus in any format.")],
    ontology: OntologyPath = None,
    against: Annotated[Path | None, Option(help="A second corpus, to look for leakage.")] = None,
    plot: Annotated[Path | None, Option(help="Write the label-frequency plot here (PNG).")] = None,
    as_json: Json = False,
) -> None:
    """Report what is wrong with a corpus, with line numbers.

    With an ontology, also print the labels and documents of each of its levels.

    ontodex check train.jsonl --ontology mesh.tsv --against test.jsonl
    """
    from ontodex.corpora.check import check as check_corpus
    from ontodex.ontology.level_table import format_levels

    known = read_ontology_option(ontology)
    report = check_corpus(corpus, ontology=known, against=against, mapping=mapping)
    if plot is not None:
        report.plot(plot)
    levels = [] if known is None else _tabulate_levels(corpus, known, mapping)
    record = {**report.to_dict(), "levels": [asdict(row) for row in levels]}
    shown = [report.text(), *([format_levels(levels)] if levels else [])]
    print_answer(record, as_json, lambda: "\n\n".join(shown))


def _tabulate_levels(corpus: Path, ontology: Ontology, mapping: FieldMapping) -> list[LevelRow]:
    """Return the levels of a corpus; none where it cannot be read as a whole."""
    from ontodex.corpora.open import open_mapped
    from ontodex.errors import DataError
    from ontodex.ontology.level_table import tabulate_levels
    from ontodex.runs.documents import match_labels

    try:
        docs = match_labels(open_mapped(corpus, mapping), ontology, corpus)
        return tabulate_levels(docs, ontology)
    except DataError:  # the report has named what is damaged
        return []


@app.command()
@takes_fields
def prepare(
    mapping: FieldMapping,
    corpora: Annotated[list[Path], Argument(metavar="CORPUS...", help="Train first, then others.")],
    out: Annotated[Path, Option("--out", help="Folder to write.")],
    ontology: OntologyPath = None,
    language: DocumentLanguage = None,
    set_: Set = None,
) -> None:
    """Prepare features ahead of time, without the text, for training on another machine.

    ontodex prepare train.jsonl dev.jsonl --out carried/ --set prepare.max_length=500
    """
    from ontodex.config import read as read_config
    from ontodex.runs.prepare import prepare as prepare_corpora

    settings = read_config(None, set_ or []).get("prepare", {})
    prepared = prepare_corpora(
        corpora, out=out, ontology=ontology, language=language or (), mapping=mapping, **settings
    )
    for name, corpus in prepared.items():
        typer.echo(f"{out / name}: {format_count(len(corpus), 'document')}")

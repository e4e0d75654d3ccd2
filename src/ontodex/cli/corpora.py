"""Commands for corpora and ontologies: demo, data, ontology, convert, check, prepare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
    print_lines,
    warn_missing_language,
)
from ontodex.cli.fields import takes_fields
from ontodex.corpora.field_mapping import FieldMapping
from ontodex.io.counts import format_count

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

    run_demo(out, model, say=print_lines)


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
        print_lines(str(path))


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
        print_lines(line)


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
    from ontodex.render.ontology_diff import format_diff

    before, now = ontodex.read_ontology(old), ontodex.read_ontology(new)
    found = ontodex.compare_ontologies(before, now)
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
    count, what = ontodex.convert(
        source, target, from_format=from_, to_format=to, mapping=mapping, ontology=ontology
    )
    print_lines(f"{format_count(count, what.removesuffix('s'))} written to {target}")


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
    report = ontodex.check(corpus, ontology, against, mapping=mapping)
    if plot is not None:
        report.plot(plot)
    print_answer(report.to_dict(), as_json, report.text)


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

    settings = read_config(None, set_ or []).get("prepare", {})
    prepared = ontodex.prepare(
        corpora, out, ontology=ontology, language=language or (), mapping=mapping, **settings
    )
    for name, corpus in prepared.items():
        print_lines(f"{out / name}: {format_count(len(corpus), 'document')}")

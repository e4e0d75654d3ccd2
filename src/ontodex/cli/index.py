"""The command that indexes many documents."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

import ontodex
from ontodex.cli.app import (
    Device,
    Json,
    NameLanguage,
    RunFolder,
    app,
    print_answer,
    warn_missing_language,
)
from ontodex.cli.fields import takes_fields
from ontodex.corpora.field_mapping import FieldMapping
from ontodex.errors import ConfigError

Paths = Annotated[
    list[str],
    Argument(
        metavar="IN... OUT",
        help="Documents in any corpus format: files, folders, 'PATTERNS', @LISTS, URLs. OUT is a "
        "table (.csv, .tsv, .jsonl, .parquet), or a folder for one part an input.",
    ),
]
Limit = Annotated[int | None, Option(min=1, help="Largest number of concepts.")]
Threshold = Annotated[
    float | None, Option(min=0.0, max=1.0, help="Least probability, not the run's decision.")
]
To = Annotated[str, Option(help="Format of the parts: parquet or jsonl.")]
Merge = Annotated[
    str | None,
    Option(metavar="TABLE", help="Also write the current records of all parts in OUT."),
]
Since = Annotated[datetime | None, Option(help="Leave out inputs that were modified before.")]
Block = Annotated[int, Option(min=1, help="Documents computed and kept together.")]
Workers = Annotated[
    int | None, Option(min=1, help="Processes; else one a processor, or one for a GPU.")
]
Engine = Annotated[
    str, Option(help="local, or ray: the cluster at $RAY_ADDRESS, else one started here.")
]
GpusPerWorker = Annotated[
    float, Option(min=0.0, help="For --engine ray: GPUs of a worker; 0.5 shares one.")
]


@app.command()
@takes_fields
def index(
    mapping: FieldMapping,
    run: RunFolder,
    paths: Paths,
    limit: Limit = None,
    threshold: Threshold = None,
    language: NameLanguage = None,
    to: To = "parquet",
    merge: Merge = None,
    since: Since = None,
    block: Block = 1_000,
    workers: Workers = None,
    engine: Engine = "local",
    gpus_per_worker: GpusPerWorker = 0.0,
    as_json: Json = False,
    device: Device = "cpu",
) -> None:
    """Index many documents. Started again after a kill, it continues.

    ontodex index runs/parabel articles.jsonl articles-indexed.csv

    Into a folder, each input becomes one part; inputs whose part is there are skipped:

    ontodex index runs/mesh baseline/ updatefiles/ indexed/ --merge current.parquet
    """
    from ontodex.runs.folder import is_finished
    from ontodex.runs.index.job import describe_result, index_documents

    *sources, out = paths
    if not sources:
        raise ConfigError(f"{out}: there must be documents and OUT", hint="index RUN IN... OUT")
    if language is not None and is_finished(run):
        own: Path = run / "ontology.json"
        warn_missing_language(language, ontodex.read_ontology(own) if own.exists() else None)
    # Not `Run.index`: the workers load the run, and this process need not.
    done = index_documents(
        run,
        sources,
        out,
        limit=limit,
        threshold=threshold,
        language=language,
        block=block,
        workers=workers,
        engine=engine,
        gpus_per_worker=gpus_per_worker,
        device=device,
        mapping=mapping,
        to=to,
        merge=merge,
        since=since,
    )
    print_answer(dataclasses.asdict(done), as_json, lambda: describe_result(done, out, merge))

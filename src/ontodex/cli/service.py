"""Commands of the service: serve, keys, learn from decisions, and versions of a run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, CallbackParam, Option

import ontodex
from ontodex.cli.app import Device, Json, RunFolder, app, print_answer, print_lines
from ontodex.cli.completion import complete_runs
from ontodex.errors import ConfigError

keys_app = typer.Typer(
    help="Manage the keys of the service; the file holds only hashes.", no_args_is_help=True
)
app.add_typer(keys_app, name="keys")

DATABASE_VARIABLE = "ONTODEX_DATABASE"


def refuse_password(context: typer.Context, parameter: CallbackParam, value: str) -> str:
    """Refuse a URL with a password on the command line, which every user of the machine can read.

    The environment variable may have one.
    """
    source = context.get_parameter_source(parameter.name or "")
    is_typed = source is not None and source.name == "COMMANDLINE"
    if is_typed and re.search(r"://[^/@:]*+:[^/@]++@|[?&]password=", value):
        raise ConfigError(
            "--database has a password, and every user of this machine can read a command line",
            hint=f"set {DATABASE_VARIABLE} in the environment, or keep the password in ~/.pgpass",
        )
    return value


RunFolders = Annotated[
    list[Path],
    Argument(
        metavar="RUN...",
        help="Run folders; the first is the default.",
        autocompletion=complete_runs,
    ),
]
ServedDatabase = Annotated[
    str,
    Option(
        help="SQLite file, or a URL such as postgresql://...; with a password only in the "
        "environment.",
        envvar=DATABASE_VARIABLE,
        callback=refuse_password,
    ),
]
DatabaseOption = Annotated[
    str,
    Option(
        help="SQLite file or URL that `ontodex serve` uses.",
        envvar=DATABASE_VARIABLE,
        callback=refuse_password,
    ),
]


Proxies = Annotated[
    list[str] | None,
    Option(help="Address or network of that proxy (default loopback). Repeatable."),
]
ProxySecret = Annotated[
    Path | None, Option(help="File with the secret that the proxy sends in X-Proxy-Secret.")
]
AllowedOrigins = Annotated[
    list[str] | None,
    Option(help="Site that may use /reconcile, such as OpenRefine's address. Repeatable."),
]
TracesAddress = Annotated[
    str, Option(metavar="URL", help="OpenTelemetry collector (OTLP over HTTP) for traces.")
]


@app.command()
def serve(
    runs: RunFolders,
    host: Annotated[str, Option(help="Address to bind; any but loopback needs --keys.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, Option(help="Port; 0 takes any free one.")] = 8000,
    database: ServedDatabase = "decisions.sqlite",
    keys: Annotated[Path | None, Option(help="File of `ontodex keys add`.")] = None,
    user_header: Annotated[str, Option(help="Header in which a proxy sends the user's name.")] = "",
    proxy: Proxies = None,
    proxy_secret: ProxySecret = None,
    allowed_host: Annotated[
        list[str] | None, Option(help="Host name under which clients reach it. Repeatable.")
    ] = None,
    allowed_origin: AllowedOrigins = None,
    max_body: Annotated[int, Option(help="Largest body of a request, in bytes.")] = 2_000_000,
    max_upload: Annotated[int, Option(help="Largest upload, in bytes.")] = 20_000_000,
    queue: Annotated[
        int, Option(help="Documents that may wait; further requests are refused.")
    ] = 256,
    batch: Annotated[int, Option(help="Documents ranked together.")] = 64,
    timeout: Annotated[float, Option(help="Seconds until an answer is given up.")] = 30.0,
    watch: Annotated[
        float, Option(help="Seconds between two looks for new versions of the runs; 0 = never.")
    ] = 5.0,
    traces: TracesAddress = "",
    device: Device = "cpu",
) -> None:
    """Serve runs over HTTP: REST, the REST API of Annif under /v1, and the curator's page.

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
        proxy_secret=proxy_secret,
        allowed_hosts=tuple(allowed_host or ()),
        allowed_origins=tuple(allowed_origin or ()),
        max_body=max_body,
        max_upload=max_upload,
        queue=queue,
        batch=batch,
        timeout=timeout,
        watch=watch,
        device=device,
        traces=traces,
    )
    serve_runs(runs, config, ready=lambda address: print_lines(f"serving on {address}"))


@app.command()
def learn(
    run: RunFolder,
    database: DatabaseOption = "decisions.sqlite",
    retrain: Annotated[
        bool, Option("--retrain", help="Train again, on the training corpus and the decisions.")
    ] = False,
    train: Annotated[
        Path | None,
        Option("--train", help="For --retrain: the training corpus, if not the recorded one."),
    ] = None,
    as_json: Json = False,
    device: Device = "cpu",
) -> None:
    """Learn from curators' decisions, and print the effect on held-out documents.

    Thresholds are adapted, and systems that can update take the documents that are done. The
    version before is kept: `ontodex versions RUN --restore` goes back to it.

    ontodex learn runs/parabel --database decisions.sqlite
    """
    result = ontodex.learn(run, database, retrain=retrain, train=train, device=device)
    print_answer(result.to_dict(), as_json, result.render_text)


@app.command()
def migrate(
    run: Annotated[Path, Argument(help="Run folder.")],
    ontology: Annotated[Path, Argument(metavar="NEW", help="The newer version of the ontology.")],
    out: Annotated[Path, Option("--out", help="Run folder to write.")],
    train: Annotated[
        Path | None,
        Option("--train", help="The training corpus, if not the recorded one: for new concepts."),
    ] = None,
    decisions: Annotated[
        bool, Option("--decisions", help="Move the decisions in --database too.")
    ] = False,
    database: DatabaseOption = "decisions.sqlite",
    as_json: Json = False,
    device: Device = "cpu",
) -> None:
    """Move a run to a newer version of its vocabulary, and print what a curator must look at.

    Labels go to their successors with their thresholds. New concepts are found by their names.

    ontodex migrate runs/parabel mesh2026.xml.gz --out runs/parabel-2026
    """
    from ontodex.render.migration import format_migration, make_migration_report

    old, now = ontodex.load(run), ontodex.read_ontology(ontology)
    done = ontodex.migrate(old, now, out, train=train, device=device)
    moved = ontodex.migrate_decisions(database, old, done) if decisions else None
    report = make_migration_report(
        done.diff,
        lost=done.lost,
        found_by_name=done.found_by_name,
        not_served=done.not_served,
        decisions=moved,
    )
    print_answer(report, as_json, lambda: format_migration(report, old.labels.ontology or now, now))


@app.command()
def versions(
    run: Annotated[Path, Argument(help="Run folder.")],
    restore: Annotated[
        str | None,
        Option(
            "--restore",
            metavar="VERSION|previous",
            help="Go back to this version; a running service takes it without a restart.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the versions of a run that `learn` and `update` kept, or go back to one.

    ontodex versions runs/parabel --restore previous
    """
    if restore is not None:
        ontodex.restore_version(run, None if restore == "previous" else restore)
    rows = [
        {"version": one.name, "time": one.time, "is_current": one.is_current}
        for one in ontodex.list_versions(run)
    ]
    lines = [
        f"{row['version']}  {row['time']}{'  current' if row['is_current'] else ''}" for row in rows
    ]
    print_answer(rows, as_json, lambda: "\n".join(lines))


@keys_app.command("add")
def keys_add(
    file: Annotated[Path, Argument(metavar="KEYS", help="File of keys; created if missing.")],
    name: Annotated[str, Argument(help="Name of the owner; it signs decisions.")],
) -> None:
    """Make a key and print it once; the file holds only its hash.

    ontodex keys add keys.tsv ada
    """
    from ontodex.serve.http import api_keys

    print_lines(api_keys.add_key(file, name))


@keys_app.command("list")
def keys_list(file: Annotated[Path, Argument(metavar="KEYS", help="File of keys.")]) -> None:
    """List the names that have a key, with its date.

    ontodex keys list keys.tsv
    """
    from ontodex.serve.http import api_keys

    for name, day in api_keys.list_keys(file).items():
        print_lines(f"{day}  {name}")


@keys_app.command("remove")
def keys_remove(
    file: Annotated[Path, Argument(metavar="KEYS", help="File of keys.")],
    name: Annotated[str, Argument(help="Name of the owner.")],
) -> None:
    """Remove a key; a running service refuses it at once.

    ontodex keys remove keys.tsv ada
    """
    from ontodex.serve.http import api_keys

    api_keys.remove_key(file, name)

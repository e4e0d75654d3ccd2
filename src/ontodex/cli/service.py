"""Commands of the service: serve, keys, and learn from decisions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, CallbackParam, Option

from ontodex.cli.app import Device, Json, RunFolder, app, print_answer
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
    if is_typed and re.search(r"://[^/@]*:[^/@]+@|[?&]password=", value):
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
    proxy: Annotated[
        list[str] | None, Option(help="Address of that proxy (default loopback). Repeatable.")
    ] = None,
    allowed_host: Annotated[
        list[str] | None, Option(help="Host name under which clients reach it. Repeatable.")
    ] = None,
    allowed_origin: Annotated[
        list[str] | None,
        Option(help="Site that may use /reconcile, such as OpenRefine's address. Repeatable."),
    ] = None,
    max_body: Annotated[int, Option(help="Largest body of a request, in bytes.")] = 2_000_000,
    max_upload: Annotated[int, Option(help="Largest upload, in bytes.")] = 20_000_000,
    queue: Annotated[
        int, Option(help="Documents that may wait; further requests are refused.")
    ] = 256,
    batch: Annotated[int, Option(help="Documents ranked together.")] = 64,
    timeout: Annotated[float, Option(help="Seconds until an answer is given up.")] = 30.0,
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
        allowed_hosts=tuple(allowed_host or ()),
        allowed_origins=tuple(allowed_origin or ()),
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
    run: RunFolder,
    database: Annotated[
        str,
        Option(
            help="SQLite file or URL that `ontodex serve` uses.",
            envvar=DATABASE_VARIABLE,
            callback=refuse_password,
        ),
    ] = "decisions.sqlite",
    as_json: Json = False,
    device: Device = "cpu",
) -> None:
    """Learn thresholds and documents from curators' decisions, and print the effect.

    ontodex learn runs/parabel --database decisions.sqlite
    """
    from ontodex.errors import require

    require("sqlalchemy", extra="serve", purpose="reading decisions")
    from ontodex.serve.database import Database
    from ontodex.serve.learn import learn as learn_decisions

    decisions = Database.open(database, create=False)
    try:
        result = learn_decisions(run, decisions, device=device)
    finally:
        decisions.close()
    print_answer(result.to_dict(), as_json, result.render_text)


@keys_app.command("add")
def keys_add(
    file: Annotated[Path, Argument(metavar="KEYS", help="File of keys; created if missing.")],
    name: Annotated[str, Argument(help="Name of the owner; it signs decisions.")],
) -> None:
    """Make a key and print it once; the file holds only its hash.

    ontodex keys add keys.tsv ada
    """
    from ontodex.serve import api_keys

    typer.echo(api_keys.add_key(file, name))


@keys_app.command("list")
def keys_list(file: Annotated[Path, Argument(metavar="KEYS", help="File of keys.")]) -> None:
    """List the names that have a key, with its date.

    ontodex keys list keys.tsv
    """
    from ontodex.serve import api_keys

    for name, day in api_keys.list_keys(file).items():
        typer.echo(f"{day}  {name}")


@keys_app.command("remove")
def keys_remove(
    file: Annotated[Path, Argument(metavar="KEYS", help="File of keys.")],
    name: Annotated[str, Argument(help="Name of the owner.")],
) -> None:
    """Remove a key; a running service refuses it at once.

    ontodex keys remove keys.tsv ada
    """
    from ontodex.serve import api_keys

    api_keys.remove_key(file, name)

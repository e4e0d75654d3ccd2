"""Commands of the service: serve, keys for it, and what it teaches a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from ontodex.cli.app import Device, Json, answer, app

keys_app = typer.Typer(help="Keys for the service; the file holds hashes.", no_args_is_help=True)
app.add_typer(keys_app, name="keys")


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
    answer(lesson.to_dict(), as_json, lesson.text)


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

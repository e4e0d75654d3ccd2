"""The options of every command that reads a corpus: the names of the columns of a table."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

from typer import Option

from ontodex.corpora.field_mapping import FieldMapping


def _options(
    text_field: Annotated[
        list[str] | None,
        Option(help="Column or JSON key with text. May be repeated; the order counts."),
    ] = None,
    label_field: Annotated[
        str | None, Option(help="Column with the labels: ids, names or notations.")
    ] = None,
    id_field: Annotated[str | None, Option(help="Column with the id of the document.")] = None,
    label_separator: Annotated[
        str | None, Option(help="Between the labels of a cell; else |, ; or a line end.")
    ] = None,
) -> FieldMapping:
    return FieldMapping.of(text_field, label_field, id_field, label_separator)


def takes_fields(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that name columns to a command, which gets them as `mapping`."""
    own = inspect.signature(command, eval_str=True)
    added = inspect.signature(_options, eval_str=True).parameters

    @wraps(command)
    def run(**values: Any) -> None:
        named = {name: values.pop(name) for name in added}
        command(**values, mapping=_options(**named))

    kept = [parameter for parameter in own.parameters.values() if parameter.name != "mapping"]
    parameters = [*kept, *added.values()]
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    del run.__wrapped__  # typer would read its hints instead
    return run

"""Name the columns or keys of a user's own table that hold text, labels and id."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ontodex.config import suggest_similar
from ontodex.errors import DataError

MAX_SHOWN = 30  # columns named in a message


@dataclass(frozen=True)
class FieldMapping:
    """The columns of a table, or keys of JSON objects, that hold the parts of a document.

    A part that is empty has its usual name: title, abstract, body and text; labels; id.
    """

    text_fields: tuple[str, ...] = ()  # exactly these columns are the text, in this order
    label_field: str = ""
    id_field: str = ""
    label_separator: str = ""  # between the labels of a cell; by default |, ; or a line end

    def __bool__(self) -> bool:
        return self != FieldMapping()

    @classmethod
    def of(
        cls,
        text_fields: str | Iterable[str] | None = None,
        label_field: str | None = None,
        id_field: str | None = None,
        label_separator: str | None = None,
    ) -> FieldMapping:
        """Make a mapping of arguments that may be missing; one text field may be a plain name."""
        names = [text_fields] if isinstance(text_fields, str) else text_fields or ()
        return cls(
            tuple(dict.fromkeys(names)), label_field or "", id_field or "", label_separator or ""
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are named."""
        return tuple(filter(None, (*self.text_fields, self.label_field, self.id_field)))

    @property
    def names_only_text(self) -> bool:
        return not (self.label_field or self.id_field or self.label_separator)

    def check(self, names: Sequence[str]) -> None:
        """Raise a DataError if a table with these columns lacks one that is named."""
        for column in self.columns:
            if column not in names:
                raise DataError(
                    f"there is no column {column!r}; the columns are {list_columns(names)}"
                    f"{suggest_similar(column, names, 1)}",
                    hint="give the names as they are in the first line of the table",
                )

    def restrict(self, names: Collection[str]) -> FieldMapping | None:
        """Return the mapping without labels and ids that a table does not have.

        Return None for a table without the text columns, which must have other columns.
        """
        if not set(self.text_fields) <= set(names):
            return None
        label, id_ = (name if name in names else "" for name in (self.label_field, self.id_field))
        return FieldMapping(self.text_fields, label, id_, self.label_separator)

    def to_dict(self) -> dict[str, Any]:
        """Return the parts that are named, for JSON."""
        return {name: value for name, value in asdict(self).items() if value}

    def describe(self) -> str:
        """Return the parts as a phrase for messages."""
        parts = [f"text from {list_columns(self.text_fields)}"] if self.text_fields else []
        parts += [f"labels from {self.label_field}"] if self.label_field else []
        parts += [f"ids from {self.id_field}"] if self.id_field else []
        return ", ".join(parts)


NO_MAPPING = FieldMapping()
FIELDS_HINT = "--text-field NAME (may be repeated), --label-field NAME and --id-field NAME"


def list_columns(names: Sequence[str]) -> str:
    """Return names for a message; of very many only the first."""
    rest = len(names) - MAX_SHOWN
    more = f" and {rest:,} more" if rest > 0 else ""
    return ", ".join(names[:MAX_SHOWN]) + more

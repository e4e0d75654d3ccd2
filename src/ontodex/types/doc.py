"""A document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["text", "sparse", "dense"]


@dataclass(frozen=True, slots=True)
class Doc:
    """A document: text fields, or `features` as {index: value} (sparse) or a tuple (dense).

    >>> doc = ontodex.Doc("1", {"title": "Trout", "body": "Fish in a stream."}, labels=("fish",))
    >>> print(doc.text)
    Trout
    Fish in a stream.
    """

    id: str
    fields: Mapping[str, str] = field(default_factory=dict)
    keywords: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    features: Mapping[int, float] | tuple[float, ...] | None = None

    @property
    def text(self) -> str:
        """All text fields in order, separated by line breaks."""
        return "\n".join(self.fields.values())

    @property
    def kind(self) -> Kind:
        if self.features is None:
            return "text"
        return "sparse" if isinstance(self.features, Mapping) else "dense"

"""A column of an ontology that stores only the concepts that have a value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class SparseColumn(Sequence[T], Generic[T]):
    """A sequence with one value for each concept, `empty` where there is none.

    An ontology may have many languages with few names each. So memory, and the time to go through
    `items`, grow with the number of names, and not with concepts times languages.
    """

    __slots__ = ("_empty", "_length", "_values")

    def __init__(self, values: Mapping[int, T], length: int, empty: T) -> None:
        self._values, self._length, self._empty = values, length, empty

    @classmethod
    def of(cls, values: Sequence[T], empty: T) -> SparseColumn[T]:
        """Store a plain sequence."""
        return cls({i: v for i, v in enumerate(values) if v != empty}, len(values), empty)

    def items(self) -> Iterator[tuple[int, T]]:
        """Yield (concept number, value) of the concepts that have a value."""
        return iter(self._values.items())

    @property
    def n_values(self) -> int:
        return len(self._values)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(self._length))]
        if not -self._length <= row < self._length:
            raise IndexError(f"no concept {row}; there are {self._length:,}")
        return self._values.get(row % self._length, self._empty)

    def __iter__(self) -> Iterator[T]:
        return (self._values.get(row, self._empty) for row in range(self._length))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SparseColumn):
            return self._length == other._length and self._values == other._values
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"SparseColumn({self.n_values:,} of {self._length:,})"

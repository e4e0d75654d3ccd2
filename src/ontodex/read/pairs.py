"""Corpora in two files: given one of them, their common beginning or their folder, find both."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ontodex.errors import DataError

PACKED = ("", ".gz", ".xz", ".bz2")


@dataclass(frozen=True)
class Pair:
    """Two file names that differ in a known way; `{}` is what they share."""

    first: str
    second: str

    def find(self, path: Path) -> tuple[Path, Path] | None:
        """The two files meant by `path`, when both are there."""
        if path.is_dir():
            shares = {self._shared(entry.name, self.first) for entry in path.iterdir()}
            both = [pair for share in shares if share and (pair := self.both(path, share))]
            if len(both) > 1:
                raise DataError(
                    f"several corpora in this folder: {', '.join(sorted(p.name for p, _ in both))}",
                    path=path,
                    hint="name one of the files",
                )
            return both[0] if both else None
        shared = self.shared(path.name)
        if shared is None and path.exists():
            return None
        return self.both(path.parent, path.name if shared is None else shared)

    def existing(self, path: Path) -> tuple[Path, Path]:
        """As `find`, with a DataError when one of them is missing."""
        pair = self.find(path)
        if pair is None:
            wanted = f"{self.first.format('NAME')} and {self.second.format('NAME')}"
            raise DataError("a corpus in two files is not here", path=path, hint=f"needs {wanted}")
        return pair

    def named(self, path: Path) -> tuple[Path, Path]:
        """The two files to write for `path`, packed as its name says."""
        shared = self.shared(path.name)
        ending = path.suffix if path.suffix in PACKED[1:] else ""
        shared = path.name.removesuffix(ending) if shared is None else shared
        names = (self.first.format(shared) + ending, self.second.format(shared) + ending)
        return path.with_name(names[0]), path.with_name(names[1])

    def shared(self, name: str) -> str | None:
        """What a file name shares with its counterpart; None when it is neither of the two."""
        return self._shared(name, self.first) or self._shared(name, self.second)

    def both(self, folder: Path, shared: str) -> tuple[Path, Path] | None:
        """The two files of a folder that share this, when both are there."""
        first, second = (beside(folder, name.format(shared)) for name in (self.first, self.second))
        return (first, second) if first and second else None

    def _shared(self, name: str, pattern: str) -> str | None:
        before, after = map(re.escape, pattern.split("{}"))
        match = re.fullmatch(f"{before}(.+?){after}(?:\\.gz|\\.xz|\\.bz2)?", name, re.DOTALL)
        return match[1] if match else None


def beside(folder: Path, name: str) -> Path | None:
    """The file of this name in a folder, plain or packed."""
    return next((path for end in PACKED if (path := folder / f"{name}{end}").is_file()), None)

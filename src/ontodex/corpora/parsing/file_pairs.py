"""Find the two files of a corpus by one of them, by their common name or by their folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ontodex.errors import DataError

PACKED = ("", ".gz", ".xz", ".bz2")


@dataclass(frozen=True)
class FilePair:
    """Patterns of two file names; `{}` is their common name."""

    first: str
    second: str

    def find(self, path: Path) -> tuple[Path, Path] | None:
        """Return the two files meant by `path`, or None unless both exist."""
        if path.is_dir():
            shares = {self._match_name(entry.name, self.first) for entry in path.iterdir()}
            both = [pair for share in shares if share and (pair := self.find_in(path, share))]
            if len(both) > 1:
                raise DataError(
                    f"folder with several corpora: {', '.join(sorted(p.name for p, _ in both))}",
                    path=path,
                    hint="name one of the files",
                )
            return both[0] if both else None
        shared = self.find_common_name(path.name)
        if shared is None and path.exists():
            return None
        return self.find_in(path.parent, path.name if shared is None else shared)

    def require(self, path: Path) -> tuple[Path, Path]:
        """Like `find`, but raise a DataError if a file is missing."""
        pair = self.find(path)
        if pair is None:
            wanted = f"{self.first.format('NAME')} and {self.second.format('NAME')}"
            raise DataError(
                "the two files of the corpus were not found", path=path, hint=f"needs {wanted}"
            )
        return pair

    def name_targets(self, path: Path) -> tuple[Path, Path]:
        """Return the two files to write for `path`, with its ending for compression."""
        shared = self.find_common_name(path.name)
        ending = path.suffix if path.suffix in PACKED[1:] else ""
        shared = path.name.removesuffix(ending) if shared is None else shared
        names = (self.first.format(shared) + ending, self.second.format(shared) + ending)
        return path.with_name(names[0]), path.with_name(names[1])

    def find_common_name(self, name: str) -> str | None:
        """Return the common name in a file name, or None if it fits neither pattern."""
        return self._match_name(name, self.first) or self._match_name(name, self.second)

    def find_in(self, folder: Path, shared: str) -> tuple[Path, Path] | None:
        """Return the two files of a folder with this common name, or None unless both exist."""
        first, second = (
            find_beside(folder, name.format(shared)) for name in (self.first, self.second)
        )
        return (first, second) if first and second else None

    def _match_name(self, name: str, pattern: str) -> str | None:
        before, after = map(re.escape, pattern.split("{}"))
        match = re.fullmatch(f"{before}(.+?){after}(?:\\.gz|\\.xz|\\.bz2)?", name, re.DOTALL)
        return match[1] if match else None


def find_beside(folder: Path, name: str) -> Path | None:
    """Return the file of this name in a folder, plain or packed, or None."""
    return next((path for end in PACKED if (path := folder / f"{name}{end}").is_file()), None)

"""Resume a killed `ontodex index`: the files of a folder of parts, and what of it is already done.

    OUT/job.json            the plan: run and settings, which are the same for all parts
    OUT/parts/NAME.parquet  the rows of one input
    OUT/ledger/NAME.json    the input of that part, written after the part; that of an older
                            version is removed before it
    OUT/rejects/NAME.jsonl  the records of the input that were not admitted, with reasons
    OUT/work/KEY/           000017.arrow, a finished block of an input that is not finished

Each file is written completely or not at all, and a part depends on its input and the plan alone.
So after a kill at any moment the same command does what is missing, and the bytes equal those of an
uninterrupted job. KEY is made from the input and the plan: a block of an older version is not used.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from ontodex import __version__
from ontodex.errors import RunError
from ontodex.io.files import write_text
from ontodex.io.storage import fetch_file, join, list_files, read_texts, remove, store_file
from ontodex.runs.index.inputs import Input

LEAVE = "choose another OUT, or remove that one and what is beside it"


@dataclass(frozen=True)
class JobPlan:
    """Everything but the inputs that determines the bytes of the parts."""

    run: str  # SHA-256 of manifest.json, which holds those of all files of the run
    limit: int | None
    threshold: float | None
    language: str | None
    block: int
    device: str
    columns: dict[str, Any]
    to: str  # format of the parts

    def require_same(self, begun: dict[str, Any], out: str, others: Sequence[str] = ()) -> None:
        """Raise a RunError with the differences from the plan with which `out` was begun.

        `others` are further differences.
        """
        words = list(others)
        for name, new in asdict(self).items():
            if (old := begun.get(name)) != new:
                words.append("another run" if name == "run" else f"{name} {old}, not {new}")
        if words:
            raise RunError(f"{out}: belongs to a job with {' and '.join(words)}", hint=LEAVE)

    def make_key(self, input: Input) -> str:
        """Return the name of the folder with the finished blocks of an unfinished input."""
        content = json.dumps([__version__, asdict(self), input])
        return sha256(content.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class PartRecord:
    """The ledger's entry about one part."""

    input: str  # its name, which is also that of the part
    location: str
    size: int
    version: str
    run: str
    ontodex: str
    documents: int
    rejected: int
    has_ids: bool  # else the documents of the input are numbered from 1
    deleted: list[str]  # ids of earlier records that this input deletes
    warnings: list[str]

    def is_of(self, input: Input) -> bool:
        """Return whether the part was made from the input as it is now."""
        return (self.input, self.size, self.version) == (input.name, input.size, input.version)


@dataclass(frozen=True)
class PartsFolder:
    """A folder of parts, on this machine or behind a URL."""

    location: str

    @property
    def job(self) -> str:
        return join(self.location, "job.json")

    @property
    def work(self) -> str:
        return join(self.location, "work")

    def part(self, name: str, to: str) -> str:
        return join(self.location, "parts", f"{name}.{to}")

    def rejects(self, name: str) -> str:
        return join(self.location, "rejects", f"{name}.jsonl")

    def blocks(self, key: str) -> str:
        return join(self.work, key)

    def list_parts(self) -> set[str]:
        """Return the file names of all parts."""
        return {file.name for file in list_files(join(self.location, "parts"))}

    def read_ledger(self) -> dict[str, PartRecord]:
        """Return the records of all finished parts, in the order of their names."""
        records = {}
        for file, text in sorted(read_texts(join(self.location, "ledger")).items()):
            try:
                record = PartRecord(**json.loads(text))
            except (ValueError, TypeError) as error:
                raise RunError(
                    f"{join(self.location, 'ledger', file)}: damaged ({error})",
                    hint="remove that file and start the same command again",
                ) from error
            records[record.input] = record
        return dict(sorted(records.items()))

    def write_record(self, record: PartRecord) -> None:
        """Write what the ledger says about a part. From then on it is finished."""
        write_json(self._record(record.input), asdict(record))

    def drop_record(self, input: Input) -> None:
        """Remove what the ledger says about the part of an earlier version of an input.

        The part is about to be replaced. After a kill before the new record is written, the part
        has none, so that nobody takes it for what the old record says.
        """
        found = read_json(self._record(input.name))
        present = {"size": input.size, "version": input.version, "ontodex": __version__}
        if found is not None and any(found.get(key) != value for key, value in present.items()):
            remove(self._record(input.name))

    def _record(self, name: str) -> str:
        return join(self.location, "ledger", f"{name}.json")

    def claim(self, plan: JobPlan) -> None:
        """Record the plan, or make sure that it is the one with which the folder was begun."""
        begun = read_json(self.job)
        if begun is not None:
            plan.require_same(begun, self.location)
            return
        if any(file.name != "lock" for file in list_files(self.location)):
            raise RunError(
                f"{self.location}: is there already, and not a folder of parts",
                hint="name a folder that does not exist yet",
            )
        write_json(self.job, asdict(plan))


def read_json(location: str) -> dict[str, Any] | None:
    """Return the object in a JSON file of a job, or None if there is no such file."""
    if not list_files(location):
        return None
    with fetch_file(location) as path:
        text = path.read_text(encoding="utf-8")
    try:
        found = json.loads(text)
        if not isinstance(found, dict):
            raise ValueError("not an object")
    except ValueError as error:
        raise RunError(f"{location}: damaged ({error})", hint=LEAVE) from error
    return found


def write_json(location: str, value: dict[str, Any]) -> None:
    with store_file(location) as path:
        write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")

"""Resume a killed `ontodex index`: the files of a job, and what of it is already done.

    OUT.job.json        the plan of the job (run, input, settings) and, in the end, its result
    OUT.parts/          input/ the admitted documents, input.json where each block begins,
                        rejects.jsonl, 000017.arrow a finished block; removed when OUT is complete
    OUT.rejects.jsonl   the records that were not admitted, with reasons

Each file is written completely or not at all, and each step does only what is missing. After a kill
at any moment the same command continues, and its bytes equal those of an uninterrupted job.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from ontodex.errors import RunError
from ontodex.io.files import open_atomic, write_text
from ontodex.io.temporary import remove_leftovers


@dataclass(frozen=True)
class IndexResult:
    """The numbers of documents that a job indexed and rejected."""

    documents: int
    rejected: int


@dataclass(frozen=True)
class JobPlan:
    """Everything that determines the bytes of the result."""

    ontodex: str
    run: str
    input: str
    limit: int | None
    threshold: float | None
    language: str | None
    block: int
    device: str


@dataclass(frozen=True)
class JobRecord:
    """The content of OUT.job.json: written when the input is admitted, and again in the end."""

    plan: JobPlan
    result: IndexResult | None


@dataclass(frozen=True)
class JobFiles:
    """The paths of the files of a job."""

    out: Path

    @property
    def job(self) -> Path:
        return self._beside(".job.json")

    @property
    def parts(self) -> Path:
        return self._beside(".parts")

    @property
    def rejects(self) -> Path:
        return self._beside(".rejects.jsonl")

    def part(self, number: int) -> Path:
        return self.parts / f"{number:06}.arrow"

    def _beside(self, ending: str) -> Path:
        return self.out.with_name(self.out.name + ending)

    def remove_partial_writes(self) -> None:
        """Remove what a killed process left of files that it was writing."""
        for path in (self.out, self.job, self.rejects):
            remove_leftovers(path)


def read_record(files: JobFiles, plan: JobPlan) -> JobRecord | None:
    """Return the record of the job that OUT belongs to; None where there is no OUT yet.

    OUT of another job, and a file that no job wrote, are refused.
    """
    if not files.job.exists():
        if files.out.exists():
            raise RunError(f"{files.out}: is there already", hint="choose another OUT")
        return None
    try:
        found = json.loads(files.job.read_text(encoding="utf-8"))
        begun, result = JobPlan(**found["plan"]), found["result"]
        record = JobRecord(begun, None if result is None else IndexResult(**result))
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"{files.job}: damaged ({error})", hint=f"remove it and {files.parts}"
        ) from error
    if begun != plan:
        raise RunError(
            f"{files.out}: belongs to a job with {_describe_differences(begun, plan)}",
            hint=f"choose another OUT, or remove {files.job} and what is beside it",
        )
    return record


def _describe_differences(begun: JobPlan, plan: JobPlan) -> str:
    words = []
    for name, old in asdict(begun).items():
        new = asdict(plan)[name]
        if old != new:
            is_digest = name in ("run", "input")
            words.append(f"another {name}" if is_digest else f"{name} {old}, not {new}")
    return " and ".join(words)


def remove_unknown_parts(parts: Path) -> None:
    """Remove the parts of a job without a record: nobody knows from which run they are."""
    for path in (*parts.glob("input.json"), *parts.glob("*.arrow")):
        path.unlink()


def write_record(files: JobFiles, record: JobRecord) -> None:
    write_text(files.job, json.dumps(asdict(record), indent=1, ensure_ascii=False) + "\n")


def finish(files: JobFiles, record: JobRecord) -> None:
    """Record that OUT is complete; after this, no step of the job is repeated."""
    if record.result is not None and record.result.rejected:
        with (
            open_atomic(files.rejects) as file,
            (files.parts / "rejects.jsonl").open("rb") as found,
        ):
            shutil.copyfileobj(found, file)
    write_record(files, record)

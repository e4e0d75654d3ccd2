"""Claim a run folder for one training: no other process, settings or data may use it.

The settings are on disk before the first document is read. A training that was killed is started
again with the same command; with other settings or other data it is refused, because finishing it
would delete what the first one learned.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from io import BytesIO
from pathlib import Path

from ontodex import config
from ontodex.errors import ConfigError, DataError, RunError
from ontodex.io.files import hold_lock, write_text
from ontodex.ontology.table import write_json
from ontodex.runs.folder import is_finished
from ontodex.runs.settings import RunSettings
from ontodex.training.distributed import is_rank_zero, on_rank_zero
from ontodex.types import Corpus, Ontology

LOCK = ".lock"  # in a run folder during training
ELSEWHERE = "choose another --out, or remove that folder first"
OTHER_DATA = {
    "train": "other training documents",
    "dev": "other dev documents",
    "ontology": "another ontology",
}


@contextmanager
def claim_folder(out: Path, settings: RunSettings) -> Iterator[None]:
    """Reserve the folder for this training while the block runs.

    Where settings or documents are refused and nothing was learned, the folder is released again.
    Of several processes only rank 0 claims: another one could mistake what rank 0 has just written
    for the work of somebody else.
    """
    with ExitStack() as held:
        on_rank_zero(lambda: _claim(out, config.dump(settings.tables()), held), f"claim {out}")
        try:
            yield
        except (ConfigError, DataError):
            if is_rank_zero():
                _release(out)
            raise


def _claim(out: Path, text: str, held: ExitStack) -> None:
    _refuse_occupied(out, text)  # before a lock file is written into somebody else's folder
    try:
        held.enter_context(hold_lock(out / LOCK, out))
        _refuse_occupied(out, text)  # another process may have claimed it meanwhile
        write_text(out / "config.toml", text)
    except OSError as error:
        raise RunError(f"{out}: cannot be written ({error.strerror})") from error


def _refuse_occupied(out: Path, text: str) -> None:
    if is_finished(out):
        with suppress(OSError):  # of a training that was killed after its manifest
            (out / LOCK).unlink(missing_ok=True)
        raise RunError(f"{out}: holds a finished run", hint=ELSEWHERE)
    written = out / "config.toml"
    if written.exists() and written.read_text(encoding="utf-8") != text:
        raise RunError(
            f"{out}: holds an unfinished run with other settings",
            hint="start it again with its own settings (config.toml), or choose another --out",
        )
    if out.exists() and not written.exists() and any(p.name != LOCK for p in out.iterdir()):
        raise RunError(f"{out}: is not empty and not a run folder", hint="choose another --out")


def claim_data(out: Path, *, train: Corpus, dev: Corpus, ontology: Ontology | None) -> None:
    """Record which data the run is trained on; refuse to continue a run with other data."""
    data = {"train": train.key, "dev": dev.key, "ontology": _digest_ontology(ontology)}
    written = out / "work" / "data.json"
    if not written.exists():
        write_text(written, json.dumps(data) + "\n")
    begun: Mapping[str, str] = json.loads(written.read_text(encoding="utf-8"))
    others = [words for name, words in OTHER_DATA.items() if begun[name] != data[name]]
    if others:
        raise RunError(
            f"{out}: holds an unfinished run with {' and '.join(others)}", hint=ELSEWHERE
        )


def _digest_ontology(ontology: Ontology | None) -> str:
    content = BytesIO()
    if ontology is not None:
        write_json(ontology, content)
    return sha256(content.getbuffer()).hexdigest()


def _release(out: Path) -> None:
    """Remove what the claim wrote, if nothing was learned; the lock removes an empty folder."""
    if is_finished(out):
        return
    if {path.name for path in (out / "work").rglob("*")} <= {"clock.json", "data.json"}:
        shutil.rmtree(out / "work", ignore_errors=True)
        for name in ("config.toml", "labels.tsv", "ontology.json"):
            (out / name).unlink(missing_ok=True)


def remove_work(out: Path) -> None:
    """Remove the checkpoints that only an unfinished training needs; keep its log."""
    log = out / "work" / "log.jsonl"
    if log.exists():
        log.replace(out / "log.jsonl")
    shutil.rmtree(out / "work", ignore_errors=True)

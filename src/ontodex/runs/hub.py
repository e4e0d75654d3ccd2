"""Publish run folders and fetch them: on the Hugging Face Hub, or in a folder that people share.

push   run folder ─ verified ─ without examples and logs ─ model card ─ repository or folder
pull   repository or folder ─ files of a run only ─ verified ─ run folder
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from ontodex.errors import ConfigError, RunError
from ontodex.io.files import replace_folder, write_text
from ontodex.io.hub import download, explain_errors, load_library
from ontodex.io.temporary import temporary_folder
from ontodex.runs.folder import SUFFIXES, check_training_facts, verify_folder
from ontodex.runs.model_card import CARD, write_model_card

_REPOSITORY = re.compile(r"[\w][\w.-]*/[\w][\w.-]*")
# The report quotes documents, and the log may name their files.
PRIVATE = ("report.html", "log.jsonl", "label_metrics.tsv")


def push_run(run: str | Path, target: str, *, public: bool = False) -> str:
    """Publish a run with its model card; return the address of the repository or the folder.

    `target` is a repository (`user/name`), or a path with a leading / or . for a folder. A new
    repository is private unless `public` is true.
    """
    run = Path(run)
    about = verify_folder(run)
    check_training_facts(run, about)
    if (folder := _as_folder(target)) is not None:
        if folder.exists():
            raise RunError(f"{folder}: exists already", hint="choose another folder")
        with replace_folder(folder) as temporary:
            _write_published(run, about, target, temporary)
        return str(folder)
    hub = load_library()
    with temporary_folder(run) as staged, explain_errors(target):
        _write_published(run, about, target, staged)
        api = hub.HfApi()
        address = api.create_repo(target, private=not public, exist_ok=True)
        message = f"ontodex: {about['model']}, {about['labels']} labels"
        api.upload_folder(
            repo_id=target, folder_path=staged, commit_message=message, delete_patterns="*"
        )
        return str(address)


def pull_run(source: str, out: str | Path, *, revision: str | None = None) -> Path:
    """Fetch a published run into the new folder `out`, verify it, and return the folder."""
    out = Path(out)
    if out.exists():
        raise RunError(f"{out}: exists already", hint="choose another folder")
    patterns = [f"*{suffix}" for suffix in sorted(SUFFIXES)]
    folder = _as_folder(source) or download(source, patterns, revision)
    if not folder.is_dir():
        raise RunError(f"{folder}: there is no such folder")
    with replace_folder(out) as temporary:
        _copy_files(folder, temporary)
        verify_folder(temporary)
    return out


def _as_folder(place: str) -> Path | None:
    """Return the folder that a target or source names; None for a repository."""
    if place.startswith(("/", ".")):
        return Path(place)
    if not _REPOSITORY.fullmatch(place):
        raise ConfigError(
            f"{place!r} is neither a repository nor a folder",
            hint="a repository is user/name; a folder begins with / or .",
        )
    return None


def _write_published(run: Path, about: dict[str, Any], target: str, folder: Path) -> None:
    _copy_files(run, folder)
    write_text(folder / CARD, write_model_card(run, about, target))


def _copy_files(source: Path, target: Path) -> None:
    """Copy what belongs to a run; the cache of the hub holds links, so their files are copied."""
    for path in sorted(source.rglob("*")):
        name = path.relative_to(source)
        is_kept = path.suffix in SUFFIXES and path.name not in PRIVATE
        is_hidden = any(part.startswith(".") for part in name.parts)
        if path.is_file() and is_kept and not is_hidden:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / name)

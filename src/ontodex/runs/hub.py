"""Publish run folders and fetch them: on the Hugging Face Hub, or in a folder that people share.

push   run folder ─ verified ─ without examples, logs and paths ─ model card ─ repository or folder
pull   repository or folder ─ files of a run only ─ verified ─ without paths ─ run folder
"""

from __future__ import annotations

import json
import re
import shutil
from glob import escape
from pathlib import Path
from typing import Any

from ontodex.errors import ConfigError, RunError
from ontodex.io.counts import format_count
from ontodex.io.files import replace_folder, write_text
from ontodex.io.hub import download, explain_errors, load_library
from ontodex.io.temporary import temporary_folder
from ontodex.runs.folder import (
    MANIFEST,
    SUFFIXES,
    check_training_facts,
    list_files,
    refuse_special_files,
    verify_folder,
)
from ontodex.runs.model_card import CARD, write_model_card
from ontodex.runs.run import Run, locate_run

_REPOSITORY = re.compile(r"[\w][\w.-]*/[\w][\w.-]*")
# The report quotes documents, and the log may name their files.
PRIVATE = ("report.html", "log.jsonl", "label_metrics.tsv")


def push(run: Run | str | Path, target: str | Path, *, public: bool = False) -> str:
    """Publish a run with its model card; return the address of the repository or the folder.

    `target` is a folder, as a `Path` or as text with a leading / or ., or a repository
    (`user/name`). A new repository is private unless `public` is true.

    >>> ontodex.push("runs/floor", "./shared")
    'shared'
    """
    run = locate_run(run)
    about = verify_folder(run)
    check_training_facts(run, about)
    if (folder := _as_folder(target)) is not None:
        if folder.exists():
            raise RunError(f"{folder}: exists already", hint="choose another folder")
        with replace_folder(folder) as temporary:
            _write_published(run, about, str(target), temporary)
        return str(folder)
    repository = str(target)
    hub = load_library()
    with temporary_folder(run) as staged:
        _write_published(run, about, repository, staged)
        message = f"ontodex: {about['model']}, {format_count(about['labels'], 'label')}"
        with explain_errors(repository):
            api = hub.HfApi()
            address = api.create_repo(repository, private=not public, exist_ok=True)
            api.upload_folder(
                repo_id=repository, folder_path=staged, commit_message=message, delete_patterns="*"
            )
        return str(address)


def pull(source: str | Path, out: str | Path, *, revision: str | None = None) -> Path:
    """Fetch a published run into the new folder `out`, verify it, and return the folder.

    `source` is a folder or a repository, as the `target` of `push`.

    >>> ontodex.load(ontodex.pull("./shared", "runs/fetched"))
    Run('runs/fetched', popularity, 4 labels)
    """
    out = Path(out)
    if out.exists():
        raise RunError(f"{out}: exists already", hint="choose another folder")
    folder = _as_folder(source)
    if folder is None:
        folder = _download_run(str(source), revision)
    elif not folder.is_dir():
        raise RunError(f"{folder}: there is no such folder")
    else:
        refuse_special_files(folder)  # a link could bring a file of this machine into the run
    with replace_folder(out) as temporary:
        _copy_files(folder, temporary)
        _forget_paths(temporary, verify_folder(temporary))
    return out


def _download_run(repository: str, revision: str | None) -> Path:
    """Fetch the files that the manifest of a repository names, and no others of any size."""
    first = download(repository, (MANIFEST,), revision)
    if not (first / MANIFEST).is_file():
        raise RunError(f"{repository}: has no {MANIFEST}, so it is not a published run")
    # The folder of the library's cache is named after the commit, so both calls fetch the same.
    return download(repository, [escape(name) for name in list_files(first)], first.name)


def _as_folder(place: str | Path) -> Path | None:
    """Return the folder that a target or source names; None for a repository."""
    if isinstance(place, Path) or place.startswith(("/", ".")):
        return Path(place)
    if not _REPOSITORY.fullmatch(place):
        raise ConfigError(
            f"{place!r} is neither a repository nor a folder",
            hint="a repository is user/name; a folder begins with / or .",
        )
    return None


def _write_published(run: Path, about: dict[str, Any], target: str, folder: Path) -> None:
    _copy_files(run, folder)
    _forget_paths(folder, about)
    write_text(folder / CARD, write_model_card(run, about, target))


def _forget_paths(folder: Path, about: dict[str, Any]) -> None:
    """Remove the paths of the corpora from the manifest of a run.

    They tell others about a machine, and `learn --retrain` would read whatever file a stranger's
    manifest names. The manifest is not among the files with digests, so the run stays valid.
    """
    known = {name: about[name] for name in ("train", "dev") if about.get(name) is not None}
    plain = {
        name: {key: value for key, value in documents.items() if key != "path"}
        for name, documents in known.items()
    }
    write_text(folder / MANIFEST, json.dumps({**about, **plain}, indent=1) + "\n")


def _copy_files(source: Path, target: Path) -> None:
    """Copy what the manifest names; the cache of the hub holds links, so their files are copied."""
    for name in list_files(source):
        path = source / name
        is_kept = path.suffix in SUFFIXES and path.name not in PRIVATE
        if path.is_file() and is_kept:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / name)

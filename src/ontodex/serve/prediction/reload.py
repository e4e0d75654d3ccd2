"""Take a new version of a run without a restart.

    the folder changed ─ load the new version in a new process ─ exchange ─ retire the old process

Requests that have begun finish on the version they began with: each version has a key of its own in
the batcher, and the old process is closed when no request can need it any more. If the new version
cannot be loaded, the old one goes on answering.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ontodex.errors import OntodexError, RunError
from ontodex.io.files import get_stamp, hash_file
from ontodex.runs.versions import NAME_LENGTH, restore_version
from ontodex.serve.prediction.model_process import ModelProcess
from ontodex.serve.prediction.ranker import Ranker
from ontodex.serve.prediction.run_metadata import RunMetadata, make_index_key
from ontodex.serve.prediction.run_view import RunView
from ontodex.serve.service import Service, open_rankers

logger = logging.getLogger(__name__)


async def reload_runs(service: Service) -> list[str]:
    """Serve what the run folders hold now; return the names of the runs that changed."""
    async with service.reloading:
        changed = await asyncio.to_thread(_find_changed, service)
        if not changed:
            return []
        runs, rankers, process = await asyncio.to_thread(_load_versions, service, changed)
        retired = service.model_process
        service.batcher.add_rankers(rankers)
        service.runs, service.model_process = runs, process
        for name in changed:
            logger.info("%s: version %s is served now", name, runs[name].version)
        task = asyncio.create_task(_retire(service, retired))
        service.retirements[task] = retired
        return changed


async def restore_run(service: Service, name: str, version: str | None) -> None:
    """Put an earlier version of a run back into its folder, and serve it."""
    folder = service.find_run(name).metadata.folder
    with hide_path(folder):
        await asyncio.to_thread(restore_version, folder, version)
        await reload_runs(service)


@contextmanager
def hide_path(folder: Path) -> Iterator[None]:
    """Leave the path of a run folder out of errors, which clients see."""
    try:
        yield
    except RunError as error:
        message = str(error).replace(str(folder.resolve()), folder.name)
        raise RunError(message.replace(str(folder), folder.name), hint=error.hint) from error
    except OSError as error:
        raise RunError(f"{folder.name}: cannot be written ({error.strerror})") from error


async def watch_folders(service: Service) -> None:
    """Reload runs whose folders change, every `--watch` seconds, until the service stops."""
    seen = _stat_manifests(service)
    reported = ""
    while not service.is_stopping:
        await asyncio.sleep(service.config.watch)
        found = _stat_manifests(service)
        if found == seen:
            continue
        try:
            await reload_runs(service)
            seen, reported = found, ""
        except OntodexError as error:  # tried again: the folder may be in the middle of a copy
            if str(error) != reported:
                logger.warning("the old version is served: %s", error)
            reported = str(error)


def _stat_manifests(service: Service) -> dict[str, tuple[int, int] | None]:
    return {
        name: get_stamp(run.metadata.folder / "manifest.json") for name, run in service.runs.items()
    }


def _find_changed(service: Service) -> list[str]:
    return [
        name
        for name, run in service.runs.items()
        if _hash_manifest(run.metadata.folder) != run.state_key
    ]


def _hash_manifest(folder: Path) -> str:
    try:
        return hash_file(folder / "manifest.json")
    except OSError as error:
        raise RunError(f"{folder.name}: has no manifest any more ({error.strerror})") from error


def _load_versions(
    service: Service, changed: list[str]
) -> tuple[dict[str, RunView], dict[str, Ranker], ModelProcess | None]:
    """Load the changed runs, and a process with the models of all runs."""
    indexes = {
        key: run.metadata.index
        for run in service.runs.values()
        if (key := make_index_key(run.metadata.about))
    }
    runs = dict(service.runs)
    for name in changed:
        folder = runs[name].metadata.folder
        manifest = _hash_manifest(folder)
        key = f"{name}@{manifest[:NAME_LENGTH]}"
        runs[name] = RunView(name, RunMetadata.open(folder, indexes), ranker_key=key)
        if runs[name].state_key != manifest:
            raise RunError(f"{folder.name}: changed while it was loaded", hint="try again")
        runs[name].metadata.index.get_search()  # else the first search would wait for it
    rankers, process = open_rankers(
        runs, device=service.config.device, is_local=service.model_process is None
    )
    return runs, rankers, process


async def _retire(service: Service, process: ModelProcess | None) -> None:
    """Close a process when every request that might need it has had its time."""
    await asyncio.sleep(service.config.timeout)
    await service.batcher.remove_rankers({run.ranker_key for run in service.runs.values()})
    if process is not None:
        await asyncio.to_thread(process.close)
    if (task := asyncio.current_task()) is not None:
        service.retirements.pop(task, None)
    gc.unfreeze()  # what `serve` froze is not collected otherwise
    gc.collect()
    gc.freeze()

"""The Hugging Face Hub, through its library (extra `hub`). Files are fetched, never run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from ontodex.errors import RunError, require

HUB = "hub:"  # before the name of a repository, where a folder may be named too
ORIGIN = "encoder-licence.txt"  # of the weights of a pretrained encoder, in a run folder


def load_library() -> Any:
    return require("huggingface_hub", extra="hub", purpose="the Hugging Face Hub")


def find_folder(place: str, patterns: Sequence[str]) -> Path:
    """Return a folder by its path. A repository, `hub:user/name` or `hub:user/name@revision`, is
    fetched: the files that match a pattern, and no others."""
    if not place.startswith(HUB):
        return Path(place)
    repository, _, revision = place.removeprefix(HUB).partition("@")
    return download(repository, patterns, revision or None)


def download(repository: str, patterns: Sequence[str], revision: str | None = None) -> Path:
    """Fetch the files of a repository that match a pattern; return the folder of the library's
    cache that has them."""
    hub = load_library()
    with explain_errors(repository):
        return Path(hub.snapshot_download(repository, revision=revision, allow_patterns=patterns))


@contextmanager
def explain_errors(repository: str) -> Iterator[None]:
    """Turn errors of the library and of the network into one sentence.

    Only calls of the library belong into the block, because it also hides errors of code.
    """
    errors = import_module("huggingface_hub.errors")  # the library does not load it by itself
    hint = "log in with `hf auth login`; without a network, HF_HUB_OFFLINE=1 reads what was fetched"
    try:
        yield
    except errors.OfflineModeIsEnabled as error:
        raise RunError(
            f"{repository}: the hub cannot be reached, because HF_HUB_OFFLINE is set",
            hint="unset it, or use a folder",
        ) from error
    except errors.LocalEntryNotFoundError as error:
        raise RunError(f"{repository}: not fetched before, and not reachable", hint=hint) from error
    except errors.RepositoryNotFoundError as error:
        raise RunError(
            f"{repository}: no such repository, or no right to read it", hint=hint
        ) from error
    # The bases are OSError and the error of the network library, which also tells of lost lines.
    except (*errors.HfHubHTTPError.__bases__, ValueError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise RunError(f"{repository}: {reason[:300]}", hint=hint) from error
    except (AttributeError, LookupError, RecursionError, TypeError) as error:
        raise RunError(
            f"{repository}: the answer is not that of a hub ({type(error).__name__})",
            hint="is HF_ENDPOINT the address of a hub, and no proxy answers in its place?",
        ) from error

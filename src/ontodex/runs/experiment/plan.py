"""The plan of an experiment: the corpora, systems and seeds that a TOML file names.

Everything in the file is checked before anything is trained.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ontodex import config
from ontodex.config import Table, build, merge_tables, suggest
from ontodex.corpora import datasets
from ontodex.corpora.noise import NOISES, Noise
from ontodex.errors import ConfigError
from ontodex.models import find_model
from ontodex.runs.experiment.results import Row, parse_quoted_row
from ontodex.runs.settings import resolve

PARTS = ("train", "dev", "test", "ontology")
_NAME = re.compile(r"[\w+.-]+")


@dataclass(frozen=True)
class CorpusPlan:
    """The files of a corpus: paths below the root, or the name of a ready set."""

    ready: str = ""
    train: str = ""
    dev: str = ""  # else a tenth of train
    test: str = ""
    ontology: str = ""
    # Noise rates of the training labels: each is one more run of every system, and one curve.
    missing: tuple[float, ...] = ()
    invalid: tuple[float, ...] = ()
    flip: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for noise in NOISES:
            if not all(0 < rate <= 1 for rate in getattr(self, noise)):
                raise ValueError(f"{noise} takes rates in (0, 1]; rate 0 is always run")
        if self.ready and any(getattr(self, part) for part in PARTS):
            raise ValueError("takes either ready or paths, not both")
        if not self.ready and not (self.train and self.test):
            raise ValueError("needs train and test, or ready")
        known = [ready.name for ready in datasets.list_datasets()]
        if self.ready and self.ready not in known:
            raise ValueError(f"there is no data set {self.ready!r}{suggest(self.ready, known)}")

    def paths(self, root: Path) -> dict[str, Path]:
        """Return the files it names, by part; none of a ready set."""
        return {part: root / getattr(self, part) for part in PARTS if getattr(self, part)}


@dataclass(frozen=True)
class CorpusVariant:
    """A corpus of the plan, without noise or with one noise rate in its training labels."""

    name: str  # in the file
    plan: CorpusPlan
    noise: Noise | None = None
    rate: float = 0.0

    @property
    def folder(self) -> str:
        return self.name if self.noise is None else f"{self.name}-{self.noise}-{self.rate:g}"


@dataclass(frozen=True)
class SystemPlan:
    """A row of the table: a model with settings, or the consensus of other rows."""

    name: str
    model: str = ""
    consensus: tuple[str, ...] = ()  # names of systems above this one (AttentionXML, Eq. 9)
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
    """The content of an experiment file, checked."""

    title: str
    note: str  # shown above the tables
    corpora: Mapping[str, CorpusPlan]
    systems: Mapping[str, SystemPlan]
    published: Mapping[str, Sequence[Row]]  # by corpus

    def variants(self) -> Iterator[CorpusVariant]:
        """Yield every corpus, without noise and with each noise rate."""
        for name, corpus in self.corpora.items():
            yield CorpusVariant(name, corpus)
            for noise in NOISES:
                for rate in getattr(corpus, noise):
                    yield CorpusVariant(name, corpus, noise, rate)

    def systems_on(self, corpus: str) -> list[SystemPlan]:
        return [s for s in self.systems.values() if not s.on or corpus in s.on]

    def jobs(self, system: SystemPlan, runs: Path) -> list[tuple[Path, Table]]:
        """Return (run folder, config tables) of each run of a system, in the folder of a corpus."""
        if not system.consensus:
            tables = _make_tables(system, {"name": system.model})
            if not system.seeds:
                return [(runs / system.name, tables)]
            return [(runs / f"{system.name}-{s}", _add_seed(tables, s)) for s in system.seeds]
        members = [[f for f, _ in self.jobs(self.systems[m], runs)] for m in system.consensus]
        count = max(map(len, members))
        if {len(folders) for folders in members} - {1, count}:
            raise ConfigError(f"[systems {system.name}] its members have different seeds")
        # The i-th run joins the i-th run of each member; a member with one run is in all of them.
        joined = [[str(m[i if len(m) > 1 else 0]) for m in members] for i in range(count)]
        names = [system.name] if count == 1 else [f"{system.name}-{i + 1}" for i in range(count)]
        return [
            (runs / name, _make_tables(system, {"name": "consensus", "members": folders}))
            for name, folders in zip(names, joined, strict=True)
        ]


def _make_tables(system: SystemPlan, model: Table) -> Table:
    return merge_tables(system.settings, {"model": model})


def _add_seed(tables: Table, seed: int) -> Table:
    """Return the tables with the seed where the model has that setting."""
    model = tables["model"]
    defaults = find_model(model["name"]).Config()
    if hasattr(defaults, "seed"):
        return merge_tables(tables, {"model": {"seed": seed}})
    if hasattr(defaults, "train"):
        return merge_tables(tables, {"model": {"train": {"seed": seed}}})
    raise ConfigError(f"seeds: the system {model['name']!r} takes none", hint="leave seeds out")


def read_plan(path: Path) -> Plan:
    """Read the plan in a TOML file; a wrong name, setting or reference is refused."""
    tables = config.read(path)
    if "model" in tables:
        raise ConfigError(
            f"{path}: holds the settings of one system, not an experiment",
            hint=f"ontodex train --config {path} --train CORPUS --out RUN",
        )
    for key in tables:
        if key not in (known := ["title", "note", "corpora", "systems", "published"]):
            raise ConfigError(f"{path}: there is no {key!r} in an experiment{suggest(key, known)}")
    corpora = {
        _check_name(name, "corpora"): build(
            CorpusPlan, _check_table(table, name), f"corpora.{name}"
        )
        for name, table in _check_table(tables.get("corpora", {}), "corpora").items()
    }
    systems: dict[str, SystemPlan] = {}
    for table in tables.get("systems", []):
        system = _read_system(_check_table(table, "systems"), systems, corpora)
        systems[system.name] = system
    if not corpora or not systems:
        raise ConfigError(f"{path}: needs at least one [corpora.NAME] and one [[systems]]")
    published = {
        _check_known(corpus, corpora, "published"): [
            parse_quoted_row(*item) for item in _check_table(rows, f"published.{corpus}").items()
        ]
        for corpus, rows in _check_table(tables.get("published", {}), "published").items()
    }
    title, note = str(tables.get("title", path.stem)), str(tables.get("note", ""))
    return Plan(title, note, corpora, systems, published)


def _read_system(
    table: Table, above: Mapping[str, SystemPlan], corpora: Mapping[str, CorpusPlan]
) -> SystemPlan:
    name = _check_name(table.get("name"), "systems")
    settings = _check_table(table.get("settings", {}), f"systems {name}: settings")
    rest = {key: value for key, value in table.items() if key not in ("settings", "like")}
    if "like" in table:
        like = above[_check_known(str(table["like"]), above, f"systems {name}: like")]
        rest, settings = {"model": like.model, **rest}, merge_tables(like.settings, settings)
    system = dataclasses.replace(build(SystemPlan, rest, f"systems {name}"), settings=settings)
    if name in above:
        raise ConfigError(f"[[systems]] two are named {name!r}")
    for corpus in system.on:
        _check_known(corpus, corpora, f"systems {name}: on")
    for member in system.consensus:
        _check_known(member, above, f"systems {name}: consensus")
    plan = Plan("", "", corpora, {**above, name: system}, {})
    for _, tables in plan.jobs(system, Path()):
        resolve(tables)
    for corpus in system.on or corpora:
        if absent := set(system.consensus) - {s.name for s in plan.systems_on(corpus)}:
            raise ConfigError(f"[systems {name}] {min(absent)!r} is not run on {corpus!r}")
    return system


def _check_table(value: object, where: str) -> Table:
    if not isinstance(value, dict):
        raise ConfigError(f"[{where}] is a table, not {value!r}")
    return value


def _check_name(name: object, where: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name.startswith("."):
        raise ConfigError(
            f"[{where}] a name is letters, digits and + . _ - (it names a folder), not {name!r}"
        )
    return name


def _check_known(name: str, choices: Mapping[str, object], where: str) -> str:
    if name not in choices:
        raise ConfigError(f"[{where}] there is no {name!r}{suggest(name, list(choices))}")
    return name

"""The data of an experiment: check that the files are there, and open them when needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ontodex.corpora import datasets
from ontodex.corpora.detect import detect_format
from ontodex.corpora.noise import Noise, corrupt_corpus
from ontodex.corpora.open import open_corpus
from ontodex.corpora.split import set_aside
from ontodex.errors import DataError
from ontodex.ontology.open import read_ontology
from ontodex.runs.experiment.plan import PARTS, CorpusVariant, Plan
from ontodex.types import Corpus, Ontology


@dataclass(frozen=True, eq=False)
class CorpusParts:
    """The documents and the ontology of a corpus plan, read when they are first needed."""

    paths: Mapping[str, Path]
    noise: Noise | None = None
    rate: float = 0.0

    @classmethod
    def of(cls, variant: CorpusVariant, *, root: Path, out: Path) -> CorpusParts:
        """Find the files of a corpus. A ready set is taken from below the root if it is there;
        otherwise it is written below `out`, from the user's own files below the root if it needs
        any."""
        plan, noise, rate = variant.plan, variant.noise, variant.rate
        if not plan.ready:
            return cls(plan.paths(root), noise, rate)
        there = root / plan.ready
        if datasets.is_started(there):
            files = datasets.get(plan.ready, there)
        else:
            own = there if datasets.list_source_files(plan.ready) else None
            files = datasets.get(plan.ready, out / "data" / plan.ready, source=own)
        made = {path.name.split(".")[0]: path for path in files}
        return cls({part: made[part] for part in PARTS if part in made}, noise, rate)

    @cached_property
    def train_and_dev(self) -> tuple[Corpus, Corpus]:
        """Open train and dev. Only train gets noise: dev selects and must stay as it is."""
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
    """Refuse a plan with a missing file: it might be needed only after hours of training."""
    absent = []
    for corpus in plan.corpora.values():
        for part, path in corpus.paths(root).items():
            absent += [] if _exists(path, part) else [str(path)]
        if corpus.ready and not any(
            datasets.is_started(place / corpus.ready) for place in (root, out / "data")
        ):
            own, names = root / corpus.ready, datasets.list_source_files(corpus.ready)
            absent += [str(own / name) for name in names if datasets.find_source(own, name) is None]
    if absent:
        raise DataError(
            f"there is no {', no '.join(dict.fromkeys(absent))}; nothing was started",
            hint="--root FOLDER, or $ONTODEX_DATA: the folder where the corpora's paths start",
        )


def _exists(path: Path, part: str) -> bool:
    """Return whether a file, a folder or, for a corpus, several files with this prefix exist."""
    if part == "ontology":
        return path.exists()
    try:
        detect_format(path)
    except DataError:
        if path.exists():
            raise  # it exists, and the error says why it is not a corpus
        return False
    return True

"""One golden run of each system; `portable_process` makes them alike on all x86-64 processors."""

from __future__ import annotations

import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ontodex
from ontodex.corpora.sample import generate_documents, get_ontology_path, split_records
from ontodex.types import Corpus, Doc, Ranking
from tiny_encoder import write_tiny_encoder

SMALL = tomllib.loads((Path(__file__).parents[1] / "small_settings.toml").read_text())
METRICS = ("P@1", "P@5", "nDCG@5", "MiF", "MaF")
SHOWN = 3  # labels a document in the file

# Libraries choose instructions by the processor, and each choice rounds in its own way. These
# variables choose what every x86-64 processor with AVX2 has; they must stand before the imports.
PORTABLE = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_CBWR": "COMPATIBLE",
    "OPENBLAS_CORETYPE": "Haswell",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
    "FAISS_OPT_LEVEL": "generic",
}


@contextmanager
def portable_process(folder: Path) -> Iterator[Executor]:
    """Start a process in which `observe` gives the same answer on all x86-64 processors."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**PORTABLE, "ONTODEX_CACHE": str(folder / "cache")}.items():
            patch.setenv(name, value)
        patch.setattr(tempfile, "tempdir", str(folder))
        with ProcessPoolExecutor(1, get_context("spawn"), initializer=start) as process:
            process.submit(int).result()  # the process starts with these variables
            yield process


def start() -> None:
    """Use arithmetic and random numbers that do not depend on the processor's caches or maker."""
    torch.set_num_threads(1)
    torch.backends.mkldnn.enabled = False  # its order of summation depends on the caches
    torch.nn.functional.dropout = _dropout
    torch.Tensor.sqrt = _sqrt  # type: ignore[method-assign]
    torch.Tensor.sqrt_ = lambda x: x.copy_(_sqrt(x))  # type: ignore[method-assign]


def _dropout(
    input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> torch.Tensor:
    # PyTorch's own draws its mask with MKL on Intel's processors, and without it on others.
    if not training or p == 0:
        return input
    return input * (torch.rand(input.shape) >= p) / (1 - p)


def _sqrt(x: torch.Tensor) -> torch.Tensor:
    # PyTorch's own is MKL's, which starts from the processor's approximation of 1/sqrt on AMD's.
    return 1 / x.rsqrt()


def observe(name: str) -> dict[str, Any]:
    """Train a system on the first documents of the sample; return its ranking and metrics."""
    torch.manual_seed(0)
    test = _corpora()[2]
    made: dict[str, Mapping[str, Any]] = {
        "consensus": {"members": _members()} if name == "consensus" else {},
        "semantic": {"encoder": _encoder()},
        "attentive-bert": {"encoder": _encoder()},
    }
    run = _train(name, {**SMALL.get(name, {}), **made.get(name, {})})
    ranking, metrics = run.rank(test, 10), ontodex.evaluate(run, test)
    return {
        "digest": _digest(ranking),
        "metrics": {key: metrics[key] for key in METRICS},
        "columns": ranking.columns[:, :SHOWN].tolist(),
        "probabilities": np.round(ranking.probabilities[:, :SHOWN].astype(float), 4).tolist(),
    }


def _train(name: str, settings: Mapping[str, Any]) -> ontodex.Run:
    train, dev, _ = _corpora()
    return ontodex.train(
        name,
        train=train,
        dev=dev,
        ontology=get_ontology_path(),
        out=Path(tempfile.mkdtemp()) / name,
        device="cpu",
        config={"model": dict(settings)},
    )


@cache
def _corpora() -> tuple[Corpus, ...]:
    """Train, dev and test of the first 300 documents of the sample."""
    parts = split_records(list(generate_documents(300, seed=1)))
    return tuple(Corpus.of([_as_doc(record) for record in part]) for part in parts)


def _as_doc(record: Mapping[str, Any]) -> Doc:
    fields = {name: record[name] for name in ("title", "abstract", "body") if record.get(name)}
    return Doc(record["id"], fields, tuple(record["keywords"]), tuple(record["labels"]))


@cache
def _members() -> list[str]:
    """The runs that the consensus joins."""
    return [str(_train(name, {}).folder) for name in ("knn", "lexical")]


@cache
def _encoder() -> str:
    """A pretrained encoder, for systems that read with one."""
    texts = [text for corpus in _corpora() for text in corpus.texts()]
    return str(write_tiny_encoder(Path(tempfile.mkdtemp()), texts))


def _digest(ranking: Ranking) -> str:
    """A digest of the ten best labels and their probabilities, to the sixth decimal."""
    best = ranking.cut(10)
    numbers = np.round(best.probabilities.astype(np.float64), 6) + 0.0
    return sha256(best.columns.astype("<i4").tobytes() + numbers.tobytes()).hexdigest()[:32]

"""Time and peak memory of text to numbers on EURLEX57K, beside scikit-learn's TfidfVectorizer.

    python bench/features.py ../shared/data/eurlex57k [--work FOLDER]

Prints a Markdown table. Every step runs in a process of its own, after the corpora were read into
--work (a temporary folder if it is not given); "CPU" is the time of all threads of that process.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from ontodex.corpora.open import read_docs
from ontodex.features.batches import plan
from ontodex.features.matrix import MatrixConfig, MatrixFeatures
from ontodex.features.phrases import PhraseConfig, Phrases
from ontodex.features.prepare import PrepareConfig, prepare
from ontodex.features.token_config import TokenConfig
from ontodex.features.tokens import tokenise_corpus
from ontodex.features.vectors import read_aligned_vectors
from ontodex.features.vocabulary import Vocabulary
from ontodex.types import Corpus, Doc

PARTS = ("train", "dev", "test")
NEURAL = TokenConfig(punctuation=True)


def corpora(work: Path) -> dict[str, Corpus]:
    return {name: Corpus.open(work / name) for name in PARTS}


def tokens(work: Path, data: Path) -> str:
    found = [tokenise_corpus(corpus, TokenConfig()) for corpus in corpora(work).values()]
    return f"{sum(len(part.ids) for part in found):,} tokens"


def tfidf(work: Path, data: Path) -> str:
    return _matrices(work, MatrixConfig())


def pairs(work: Path, data: Path) -> str:
    return _matrices(work, MatrixConfig(ngrams=2, min_df=3, max_features=500_000))


def lemmas(work: Path, data: Path) -> str:
    return _matrices(work, MatrixConfig(stop_words="en", lemmas="en"))


def _matrices(work: Path, config: MatrixConfig) -> str:
    train, *others = corpora(work).values()
    features = MatrixFeatures(config)
    matrices = [csr_array(m) for m in (features.fit(train), *map(features.transform, others))]
    n_values = sum(matrix.nnz for matrix in matrices)
    return f"{features.n_features:,} features, {n_values:,} values"


def scikit_learn(work: Path, data: Path) -> str:
    from sklearn.feature_extraction.text import TfidfVectorizer

    train, *others = corpora(work).values()
    vectorizer = TfidfVectorizer(
        min_df=2, sublinear_tf=True, token_pattern=r"[^\W_]+", dtype=np.float32
    )
    matrices = [vectorizer.fit_transform(train.texts())]
    matrices += [vectorizer.transform(corpus.texts()) for corpus in others]
    n_values = sum(matrix.nnz for matrix in matrices)
    return f"{len(vectorizer.vocabulary_):,} features, {n_values:,} values"


def phrases(work: Path, data: Path) -> str:
    found = corpora(work)
    extractor = Phrases.fit(found["train"], PhraseConfig())
    short = (" ".join(text.split()[:200]) for text in found["dev"].texts())
    start = time.process_time()
    extractor.extract_corpus(Corpus.of(Doc(str(i), {"text": text}) for i, text in enumerate(short)))
    return (
        f"{len(found['dev']) / (time.process_time() - start):,.0f} documents of 200 words a CPU s"
    )


def prepare_folder(work: Path, data: Path) -> str:
    out = work / "carried"
    config = PrepareConfig(punctuation=True, min_count=3, max_length=500, vectors=_vectors(data))
    prepare(corpora(work), out, config)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    return f"{size / 1e6:.1f} MB: 500 tokens a law, words seen 3 times, vectors"


def epoch(work: Path, data: Path) -> str:
    train = tokenise_corpus(Corpus.open(work / "carried" / "train"), NEURAL)
    words = Vocabulary.fit(train, min_count=3, max_length=500)
    encoded = words.encode(train, max_length=500)
    batches = plan(encoded.lengths, 128, seed=0, epoch=0)
    padded = sum(len(rows) * int(encoded.lengths[rows].max()) for rows in batches)
    return (
        f"{len(batches)} batches, {1 - len(encoded.ids) / padded:.1%} padding, {len(words):,} words"
    )


def vectors(work: Path, data: Path) -> str:
    train = tokenise_corpus(Corpus.open(work / "carried" / "train"), NEURAL)
    words = Vocabulary.fit(train, min_count=3, max_length=500)
    _, found = read_aligned_vectors(Path(_vectors(data)), words)
    return f"{found.sum():,} of {len(words):,} words"


def _vectors(data: Path) -> str:
    return str(data.parent / "vectors" / "wink-100d.subset.txt.gz")


STEPS: dict[str, tuple[str, Callable[[Path, Path], str]]] = {
    "scikit-learn": ("scikit-learn TfidfVectorizer: fit on train, transform all", scikit_learn),
    "tfidf": ("ontodex, the same (tokens and TF-IDF)", tfidf),
    "again": ("ontodex again, tokens from the cache", tfidf),
    "tokens": ("tokens alone, from the cache", tokens),
    "pairs": ("words and pairs, min_df 3, the best 500,000", pairs),
    "lemmas": ("stop words and lemmas (own tokens)", lemmas),
    "phrases": ("keyword phrases: counting in train, then the first 200 words of dev", phrases),
    "carried": ("prepare, with punctuation (own tokens)", prepare_folder),
    "epoch": ("one epoch of batches from the carried folder", epoch),
    "vectors": ("aligning GloVe 100-d vectors", vectors),
}


def measure(step: str, work: Path, data: Path) -> None:
    """Run one step in this process and print what it cost."""
    start, cpu = time.perf_counter(), time.process_time()
    result = STEPS[step][1](work, data)
    cost = {
        "wall": time.perf_counter() - start,
        "cpu": time.process_time() - cpu,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "result": result,
    }
    print(json.dumps(cost))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with train, dev and test.jsonl.xz")
    parser.add_argument("--work", type=Path, help="folder for corpora and caches")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        measure(options.step, options.work, options.data)
        return
    with tempfile.TemporaryDirectory() as temporary:
        table(options.data, options.work or Path(temporary))


def table(data: Path, work: Path) -> None:
    for name in PARTS:
        Corpus.write(read_docs(data / f"{name}.jsonl.xz"), work / name)
    print("| step | wall s | CPU s | peak GB | CPU, scikit-learn = 1 | result |")
    print("|---|---|---|---|---|---|")
    base = 0.0
    for step, (name, _) in STEPS.items():
        command = [sys.executable, __file__, str(data), "--work", str(work), "--step", step]
        cost = json.loads(subprocess.check_output(command, text=True).splitlines()[-1])
        base = base or cost["cpu"]
        ratio = f"{cost['cpu'] / base:.2f}" if step in ("scikit-learn", "tfidf", "again") else ""
        print(
            f"| {name} | {cost['wall']:.1f} | {cost['cpu']:.1f} | {cost['peak'] / 1e9:.2f} "
            f"| {ratio} | {cost['result']} |"
        )


if __name__ == "__main__":
    main()

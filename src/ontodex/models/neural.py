"""What the text networks of paper 002 share: words in, trained by the one loop, ranked in batches.

A system names its `Config` and its `Network`; the network takes (config, words, log-odds of the
labels, word vectors) and maps (tokens, lengths) to logits.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor, nn

from ontodex.config import build, check_least
from ontodex.decide.calibrate import Calibration
from ontodex.errors import RunError
from ontodex.evaluate.ranking import ndcg_at
from ontodex.features import batches, vectors
from ontodex.features.tokens import (
    TokenConfig,
    Tokens,
    check_fields,
    doc_spans,
    tokenise_corpus,
)
from ontodex.features.vocabulary import Encoded, Vocabulary
from ontodex.files import write_text
from ontodex.train import loop, store
from ontodex.train.loop import LoopConfig
from ontodex.types import Corpus, Doc, LabelSpace, Ranking

# On CPUs without bf16 units its matrix products end the process; the CPU path stays in fp32.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")

SHARD_BYTES = 15 * 2**20  # so that a run can travel in small files
DEV_RANKS = 5
DEV_DEPTH = 50  # answers of a dev document that calibration looks at


@dataclass(frozen=True)
class NeuralConfig(TokenConfig):
    """What every text network is told."""

    stop_words: str = "en"  # dropped, so that the first tokens reach further into the text
    max_length: int = 500  # tokens read of a document
    min_count: int = 3  # a word must occur so often in training to have a vector of its own
    max_words: int = 200_000  # with a vector of their own, the most frequent
    width: int = 256  # of word vectors; pretrained ones may be narrower, the rest is learned
    train: LoopConfig = field(default_factory=LoopConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "max_length", "min_count", "max_words", "width")


class NeuralSystem:
    """fit, rank, save, load for a network over words."""

    Config: ClassVar[type[NeuralConfig]] = NeuralConfig
    Network: ClassVar[type[nn.Module]]

    def __init__(self, config: NeuralConfig, *, device: str = "cpu") -> None:
        self.config, self.device = config, torch.device(device)
        self.work: Path | None = None  # where checkpoints go, when training may be resumed
        self.vocabulary: Vocabulary | None = None
        self.network: nn.Module | None = None
        self.n_labels = 0
        self.epochs = config.train.epochs  # of the schedule that are run; dev may find fewer best
        self.calibration = Calibration.none()

    # -------------------------------------------------------------------------------------- fit

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        if train.kind != "text":
            raise RunError(f"this system reads text; the corpus has {train.kind} features")
        check_fields(train, self.config)
        tokens = tokenise_corpus(train, self.config)
        self.vocabulary = Vocabulary.fit(
            tokens,
            min_count=self.config.min_count,
            max_size=self.config.max_words,
            max_length=self.config.max_length,
        )
        self.n_labels = labels.n_seen
        found = vectors.prepared(train, self.vocabulary, seed=self.config.train.seed)
        aligned = None if found is None else torch.from_numpy(found)
        torch.manual_seed(self.config.train.seed)
        truth = labels.gold(train)
        self.prepare(tokens, csr_array(truth[:, : self.n_labels]), labels)
        self.network = self.build(log_odds(labels), aligned).to(self.device)
        data = Ragged(self.vocabulary.encode(tokens, self.config.max_length), self.device)
        gold = Ragged.of_gold(truth, self.n_labels, self.device)
        self.learn(data.lengths, lambda rows: self.batch_loss(rows, data, gold), dev, labels)

    def prepare(self, tokens: Tokens, gold: csr_array, labels: LabelSpace) -> None:
        """Make what the network is built on besides words, from the training documents."""

    def batch_loss(self, rows: NDArray[np.int64], data: Ragged, gold: Ragged) -> Tensor:
        """The mean loss of these training documents."""
        with self.precision():
            logits = self.fitted()(*data.padded(rows))
        target = gold.multi_hot(rows, self.n_labels)
        # Summed over labels: a mean over thousands of them would leave gradients so small that
        # Adam's epsilon decides, which costs the rare labels most.
        return F.binary_cross_entropy_with_logits(logits, target, reduction="sum") / len(rows)

    def learn(
        self,
        lengths: NDArray[np.int64],
        loss: Callable[[NDArray[np.int64]], Tensor],
        dev: Corpus,
        labels: LabelSpace,
    ) -> None:
        """Train the network by the one loop, keep its best epoch on dev, and calibrate it there.
        `lengths` are those of the training documents, `loss(rows)` is the mean over some."""
        network, settings = self.fitted(), self.config.train
        dev_data, dev_gold = self.encode(dev), labels.gold(dev)

        def plan(epoch: int) -> list[NDArray[np.int64]]:
            return batches.plan(lengths, settings.batch, seed=settings.seed, epoch=epoch)

        state = loop.fit(
            network,
            batches=plan,
            loss=loss,
            config=settings,
            score=(lambda: self.dev_score(dev_data, dev_gold)) if dev_gold.nnz else None,
            folder=self.work,
            figures=self.figures,
            stop=self.epochs,
        )
        if dev_gold.nnz:
            self.epochs = state.best_epoch + 1
        # Rounded now, so that what is saved in half precision is exactly what ranks from here on.
        network.half().float().eval()
        if len(dev):
            self.calibration = Calibration.fit(self.rank_encoded(dev_data, DEV_DEPTH), dev_gold)

    def dev_score(self, data: Ragged, gold: csr_array) -> float:
        """What the best epoch is chosen by; higher is better."""
        ranking = self.rank_encoded(data, DEV_RANKS)
        # Documents without gold have no nDCG; one of them must not make the mean NaN.
        return float(np.nanmean(ndcg_at(DEV_RANKS, gold, ranking)))

    def figures(self) -> dict[str, float]:
        """What the system itself puts into an epoch's line of the log."""
        return {}

    def build(self, odds: Tensor, aligned: Tensor | None) -> nn.Module:
        assert self.vocabulary is not None
        return self.Network(self.config, len(self.vocabulary), odds, aligned)

    def precision(self) -> AbstractContextManager[Any]:
        return torch.autocast(
            self.device.type, dtype=torch.bfloat16, enabled=self.device.type == "cuda"
        )

    # ------------------------------------------------------------------------------------- rank

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        self.fitted()
        return self.calibration.apply(self.rank_encoded(self.encode(corpus), k))

    def encode(self, corpus: Corpus) -> Ragged:
        if corpus.kind != "text":
            raise RunError(f"this run reads text; the corpus has {corpus.kind} features")
        assert self.vocabulary is not None
        tokens = tokenise_corpus(corpus, self.config)
        return Ragged(self.vocabulary.encode(tokens, self.config.max_length), self.device)

    def rank_encoded(self, data: Ragged, k: int) -> Ranking:
        kept = min(k, self.n_labels)
        columns = np.empty((len(data), kept), np.int64)
        values = np.empty((len(data), kept), np.float32)
        with torch.inference_mode():
            for rows in batches.by_length(data.lengths, self.rank_batch()):
                best, which = self.best(data.padded(rows), kept)
                columns[rows], values[rows] = which.cpu().numpy(), best.cpu().numpy()
        return Ranking.sort(columns, values, k)

    def best(self, batch: tuple[Tensor, ...], k: int) -> tuple[Tensor, Tensor]:
        """Probabilities and columns (n, k) of the best labels of a batch."""
        with self.precision():
            logits = self.fitted()(*batch)
        best, which = logits.float().sigmoid().topk(k, dim=1)
        return best, which

    def rank_batch(self) -> int:
        return 256 if self.device.type == "cuda" else 8

    def encode_doc(self, doc: Doc) -> tuple[list[tuple[int, int]], Tensor, Tensor]:
        """(character spans of the tokens read, token ids (1, t), lengths (1,)) of one document."""
        assert self.vocabulary is not None
        found = doc_spans(doc, self.config)[: self.config.max_length]
        data = self.encode(Corpus.of([doc]))
        tokens, lengths = data.padded(np.array([0]))
        return [(start, end) for start, end, _ in found], tokens, lengths

    def fitted(self) -> nn.Module:
        if self.network is None:
            raise RunError("this system was asked before it was fitted")
        return self.network

    # --------------------------------------------------------------------------------- the files

    def save(self, folder: Path) -> None:
        self.save_network(folder)
        self.save_words(folder)
        about = {
            "n_labels": self.n_labels,
            "settings": dataclasses.asdict(self.config),
            "calibration": self.calibration.to_json(),
        }
        write_text(folder / "network.json", json.dumps(about, indent=1) + "\n")

    @classmethod
    def load(cls, folder: Path, labels: LabelSpace, *, device: str = "cpu") -> Self:
        about = json.loads((folder / "network.json").read_text(encoding="utf-8"))
        system = cls(build(cls.Config, about["settings"], "model"), device=device)
        system.load_words(folder)
        system.n_labels = int(about["n_labels"])
        system.calibration = Calibration.from_json(about["calibration"])
        system.load_network(folder)
        return system

    def save_network(self, folder: Path) -> None:
        network = self.fitted()
        weights = {name: w.half().cpu().numpy() for name, w in network.state_dict().items()}
        store.save_tensors(folder, "network", weights, shard_bytes=SHARD_BYTES)

    def load_network(self, folder: Path) -> None:
        odds = torch.zeros(self.n_labels)
        with torch.device("meta"):  # weights that are read next need no memory and no chance first
            network = self.build(odds, None)
        weights = store.load_tensors(folder, "network")
        expected = network.state_dict()
        for name, value in expected.items():
            seen = weights.get(name)
            if seen is None or seen.shape != tuple(value.shape):
                raise RunError(f"{folder}: tensor {name!r} does not fit the settings of this run")
            if not np.isfinite(seen).all():
                raise RunError(f"{folder}: tensor {name!r} holds values that are not finite")
        state = {name: torch.from_numpy(weights[name].astype(np.float32)) for name in expected}
        network.load_state_dict(state, assign=True)
        self.network = network.to(self.device).eval()

    def save_words(self, folder: Path) -> None:
        assert self.vocabulary is not None
        self.vocabulary.save(folder / "words.txt")

    def load_words(self, folder: Path) -> None:
        self.vocabulary = Vocabulary.load(folder / "words.txt")


def log_odds(labels: LabelSpace) -> Tensor:
    """The logit each seen label would have if documents told nothing."""
    share = (labels.frequency[: labels.n_seen] + 0.5) / (labels.n_docs + 1)
    return torch.from_numpy(np.log(share / (1 - share))).float()


class Ragged:
    """Rows of different lengths, flat on one device; a batch is gathered there."""

    def __init__(self, encoded: Encoded, device: torch.device) -> None:
        self.lengths = np.diff(encoded.offsets)
        # One more at the end, which no row has: every place that is asked for exists.
        ids = np.append(encoded.ids.astype(np.int32), np.int32(0))
        self._ids = torch.from_numpy(ids).to(device)
        self._starts = torch.from_numpy(encoded.offsets[:-1]).to(device)
        self._lengths = torch.from_numpy(self.lengths).to(device)

    @classmethod
    def of_gold(cls, gold: Any, n_labels: int, device: torch.device) -> Ragged:
        """The columns below `n_labels` of each row of a gold matrix."""
        gold = gold[:, :n_labels]
        return cls(Encoded(gold.indices, gold.indptr.astype(np.int64)), device)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def device(self) -> torch.device:
        return self._ids.device

    def padded(self, rows: NDArray[np.int64]) -> tuple[Tensor, ...]:
        """(ids (n, t) with 0 after the end, lengths (n,)); t is known without asking the device."""
        places, inside, lengths = self.places(rows)
        return torch.where(inside, self._ids[places].long(), 0), lengths

    def places(self, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor, Tensor]:
        """(places (n, t) in the flat arrays, whether they are of the row (n, t), lengths (n,))."""
        width = int(self.lengths[rows].max(initial=1))
        at = torch.from_numpy(rows).to(self._ids.device, non_blocking=True)
        lengths = self._lengths[at]
        t = torch.arange(width, device=self._ids.device)
        places = (self._starts[at][:, None] + t).clamp(max=len(self._ids) - 1)
        return places, t < lengths[:, None], lengths

    def multi_hot(self, rows: NDArray[np.int64], n_columns: int) -> Tensor:
        """(n, n_columns): 1 at each row's ids."""
        places, inside, _ = self.places(rows)
        target = torch.zeros(len(rows), n_columns + 1, device=self._ids.device)
        target.scatter_(1, torch.where(inside, self._ids[places].long(), n_columns), 1.0)
        return target[:, :n_columns]

"""Networks over the tokens of a text: their settings, training, ranking and files.

    documents ─ reader ─ token ids ─ network ─ one logit a label ─ calibrated probabilities
                          (n,t)                    (n,l)

`TextNetworkSystem` is the system of a network that maps a padded batch to one logit a label. A
subclass defines up to eight things and overrides nothing else:

    Config            settings, a `TextNetworkConfig`
    Network           class of the network: Network(config, n_tokens, log_odds, vectors)
    create_reader()   documents to token ids        (default: words in their order)
    build_network()   a network of the right shape  (default: of class `Network`)
    start_network()   the network before training   (default: that of `build_network`)
    scale_rates()     factors of the learning rate  (default: none)
    compute_loss()    mean loss of some documents   (default: binary cross-entropy)
    plan_training()   settings of the training loop (default: those of the settings)

A network embeds ids, encodes them into one state a token and reads the states out by label. The
encoder is a BiLSTM (layers/recurrent.py) or a pretrained one (layers/bert.py), each with a reader
of its own; nothing else here knows which. A system that trains or searches in another way, such as
LightAttention, uses the functions of this module and of network_training.py without the class.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.config import Table, build, check_least, check_widths
from ontodex.decide.calibrate import Calibration
from ontodex.errors import UntrainedError
from ontodex.features import batches
from ontodex.features.token_config import TokenConfig
from ontodex.io.files import write_text
from ontodex.io.json_schema import load_json
from ontodex.models import weights
from ontodex.models.baselines.neighbours import compute_ndcg
from ontodex.models.layers.bf16_units import limit_onednn
from ontodex.models.layers.ragged import Ragged
from ontodex.models.network_training import (
    DEV_DEPTH,
    DEV_RANKS,
    Rows,
    autocast,
    compute_log_odds,
    train_network,
)
from ontodex.models.readers import Encoded, Reader, WordReader, find_word_vectors
from ontodex.types import Corpus, LabelSpace, Ranking
from ontodex.types.loop_config import LoopConfig, NetworkLoopConfig

if TYPE_CHECKING:
    from ontodex.training.label_shards import LabelShards

limit_onednn()


@dataclass(frozen=True)
class WordConfig(TokenConfig):
    """Settings of the words that a network reads."""

    stop_words: str = "en"  # left out, so that `max_length` words reach further into the text
    max_length: int = 500  # words read of a document
    min_count: int = 3  # occurrences in training that a word needs for a vector of its own
    max_words: int = 200_000  # words with a vector of their own, the most frequent

    shard_labels: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "max_length", "min_count", "max_words")


@dataclass(frozen=True)
class TextNetworkConfig(WordConfig):
    """Settings of every network over words."""

    width: int = 256  # of word vectors; pretrained ones may be narrower, the rest is learned
    train: NetworkLoopConfig = field(default_factory=NetworkLoopConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "width")
        check_widths(self, "width")


@dataclass(frozen=True)
class ShardedOutputConfig:
    """The setting of networks whose output layer may be divided among processes; `Network` names
    the parameters with one row a label as `label_parameters`."""

    shard_labels: bool = False  # processes of torchrun share out the labels, not the documents


class TextNetworkSystem:
    """A system of one network over the tokens of a text; subclasses as the module says."""

    Config: ClassVar[type[Any]] = TextNetworkConfig
    Network: ClassVar[type[nn.Module]]

    def __init__(self, config: Any, *, device: str = "cpu") -> None:
        self.config, self.device = config, torch.device(device)
        self.work: Path | None = None  # folder of checkpoints, where training may be resumed
        self.reader: Any = self.create_reader()
        self.network: Any = None
        self.n_labels = 0
        self.shards: LabelShards | None = None  # in training, where processes share the labels
        self.epochs = config.train.epochs  # epochs to train; dev may find fewer best
        self.calibration = Calibration.identity()

    def create_reader(self) -> Reader:
        """Return the reader of documents, before it has learned."""
        return WordReader(self.config)

    def build_network(self, log_odds: Tensor, vectors: Tensor | None) -> nn.Module:
        """Return an untrained network. `log_odds` (l,) are the initial biases of labels,
        `vectors` the pretrained vectors of the reader's words."""
        return self.Network(self.config, len(self.reader), log_odds, vectors)

    def start_network(self, labels: LabelSpace, vectors: Tensor | None) -> nn.Module:
        """Return the network with which training starts."""
        return self.build_network(compute_log_odds(labels), vectors)

    def scale_rates(self) -> Mapping[str, float]:
        """Return factors of the learning rate by the beginning of a parameter's name."""
        return {}

    def compute_loss(self, rows: Rows, data: Encoded, gold: Ragged) -> Tensor:
        """Return the binary cross-entropy of these training documents, the sum over labels.

        Divided by thousands of labels, gradients would be so small that Adam's epsilon dominates
        them, most of all those of rare labels.
        """
        with autocast(self.device):
            logits = self.network(*data.pad(rows))  # (n, l)
        target = gold.to_multi_hot(rows, logits.shape[1])  # (n, l)
        return F.binary_cross_entropy_with_logits(logits, target, reduction="sum") / len(rows)

    def plan_training(self, n_docs: int) -> LoopConfig:
        """Return the settings of the training loop for so many training documents."""
        return self.config.train

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        self.epochs = self.plan_training(len(train)).epochs
        self.fit_network(train, dev, labels)
        if len(dev):
            ranking = self._rank(self.encode(dev), DEV_DEPTH)
            self.calibration = Calibration.fit(ranking, labels.gold(dev))

    def fit_network(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        """Train a new network for at most `epochs`, which become those of the best dev score."""
        settings = self.plan_training(len(train))
        data = self.reader.fit(train, self.device)
        self.n_labels = labels.n_seen
        vectors = find_word_vectors(train, self.reader.vocabulary, seed=settings.seed)
        torch.manual_seed(settings.seed)
        network = self.start_network(labels, vectors)
        own = self._take_own_labels(network)
        self.network = network.to(self.device)
        own_gold = labels.gold(train)[:, own]
        gold = Ragged.of_gold(own_gold, own_gold.shape[1], self.device)
        dev_data, dev_gold = self.encode(dev), labels.gold(dev)
        self.epochs = train_network(
            self.network,
            data.lengths,
            lambda rows: self.compute_loss(rows, data, gold),
            settings.to_loop(),
            score=lambda: compute_ndcg(dev_gold, self._rank(dev_data, DEV_RANKS)),
            has_dev=dev_gold.nnz > 0,
            folder=self.work,
            epochs=self.epochs,
            rates=self.scale_rates(),
            shards=self.shards,
        )
        if self.shards is not None:
            self.shards.join(self.network)
            self.shards = None

    def _take_own_labels(self, network: Any) -> slice:
        """Return the columns that this process learns; keep only their rows of the network."""
        from ontodex.training.distributed import world  # ranking needs no training code

        if not self.config.shard_labels or world()[1] == 1:
            return slice(0, self.n_labels)
        from ontodex.training.label_shards import LabelShards

        self.shards = LabelShards(network.label_parameters, self.n_labels)
        self.shards.cut(network)
        return self.shards.columns

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        self.check_fitted()
        return self.calibration.apply(self._rank(self.encode(corpus), k))

    def _rank(self, data: Encoded, k: int) -> Ranking:
        """Return the k best labels of encoded documents, not calibrated."""

        def predict(batch: tuple[Tensor, ...], n_best: int) -> BestLabels:
            with autocast(self.device):
                logits = self.network(*batch)  # (n, l)
            best = logits.float().sigmoid().topk(min(n_best, logits.shape[1]), dim=1)
            if self.shards is None:
                return BestLabels(*best)
            return BestLabels(*self.shards.merge_best(best.values, best.indices, n_best))

        return rank_documents(predict, data, k, self.n_labels)

    def encode(self, corpus: Corpus) -> Encoded:
        """Return documents as token ids on the device."""
        return self.reader.encode(corpus, self.device)

    def check_fitted(self) -> None:
        """Raise an error where there is no trained network yet."""
        if self.network is None:
            raise UntrainedError(type(self).__name__)

    def save(self, folder: Path) -> None:
        self.check_fitted()
        weights.save_network(folder, "network", self.network)
        self.reader.save(folder)
        save_description(folder, self.config, self.n_labels, self.calibration)

    @classmethod
    def load(cls, folder: Path, labels: LabelSpace, *, device: str = "cpu") -> Self:
        about = load_description(folder, cls.Config)
        system = cls(about.config, device=device)
        system.n_labels, system.calibration = about.n_labels, about.calibration
        system.reader.load(folder)
        with torch.device("meta"):  # saves the memory and time of weights that are read next
            network = system.build_network(torch.zeros(system.n_labels), None)
        weights.load_network(folder, "network", network)
        system.network = network.to(system.device).eval()
        return system


class BestLabels(NamedTuple):
    """The best labels of a batch of documents."""

    probabilities: Tensor  # (n, k)
    columns: Tensor  # (n, k); -1 where a document has fewer


def rank_documents(
    predict: Callable[[tuple[Tensor, ...], int], BestLabels], data: Encoded, k: int, n_labels: int
) -> Ranking:
    """Return the k best labels of each document; `predict(batch, n)` returns the n best of each
    document of a batch."""
    n_best = min(k, n_labels)
    columns = np.empty((len(data), n_best), np.int64)
    values = np.empty((len(data), n_best), np.float32)
    with torch.inference_mode():
        for rows in batches.batch_by_length(data.lengths, ranking_batch_size(data.device)):
            best = predict(data.pad(rows), n_best)
            columns[rows] = best.columns.cpu().numpy()
            values[rows] = best.probabilities.cpu().numpy()
    return Ranking.sort(columns, values, k)


def ranking_batch_size(device: torch.device) -> int:
    """Return how many documents are ranked at once."""
    return 256 if device.type == "cuda" else 8


@dataclass(frozen=True)
class _NetworkJson:
    """The fields of network.json."""

    n_labels: int
    settings: Table
    calibration: Calibration

    def __post_init__(self) -> None:
        check_least(self, 0, "n_labels")


class Description(NamedTuple):
    """The contents of network.json in a run folder."""

    config: Any
    n_labels: int
    calibration: Calibration


def save_description(folder: Path, config: Any, n_labels: int, calibration: Calibration) -> None:
    """Write settings, number of labels and calibration beside the weights."""
    about = {
        "n_labels": n_labels,
        "settings": dataclasses.asdict(config),
        "calibration": calibration.to_json(),
    }
    write_text(folder / "network.json", json.dumps(about, indent=1) + "\n")


def load_description(folder: Path, config_class: type[Any]) -> Description:
    """Read what `save_description` wrote."""
    about = load_json(folder / "network.json", _NetworkJson)
    config = build(config_class, about.settings, "model")
    return Description(config, about.n_labels, about.calibration)

"""The network of one level (Deep Level-wise XMLC, section 2.1, Figure 2), and of all levels.

    words     (n,t) ─ vectors (n,t,e) ─ convolutions 3,4,5 (n,t,3m) ─ BiLSTM (n,t,2d) ─┐
    keywords  (n,t) ─ vectors (n,t,e) ─ convolutions 3,4,5 (n,t,3m) ───────────────────┤ max in p_g
    labels predicted at the level above, and at the level below: the same ─────────────┘  chunks
       ─ batch norm, dropout ─ a bottleneck for each category g (n,b) ─ logits of its labels (n,l)

`LevelNetworks` is shared with our variant `attentive-levels`. Our reading of the text where it
leaves things open: docs/papers/levelwise.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, cast

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ontodex.errors import RunError
from ontodex.models.layers.words import WordEmbedding
from ontodex.models.levelwise.config import LevelsConfig, LevelwiseConfig
from ontodex.models.levelwise.levels import Level
from ontodex.models.levelwise.pooling import CategoryOutput, CategoryPools, StreamFeatures
from ontodex.models.levelwise.word_encoder import (
    Convolutions,
    EncodedWords,
    WordEncoder,
    convolve_as_matmul,
)

Stream = tuple[Tensor, ...]  # ids (n, t) padded with 0, lengths (n,)
Starts = Sequence[Tensor]  # for each level, the initial logits of its labels
# Vectors of keywords ("keywords") and of the labels predicted at a level (index of the level).
Sets = Mapping[str | int, StreamFeatures]
NEIGHBOURS = frozenset({"above", "below"})  # the streams that only pass 2 has
KERNEL_UNITS = (64, 128, 256, 512)  # LSTM sizes that models/kernels/lstm.py supports


class LevelNetworks(nn.Module):
    """The networks of all levels, with one table each of word, keyword and label vectors.

    A subclass adds the word encoders (`add_encoders`), the network of a level (`make_level`, which
    has the streams it reads beside words as `sets`), `encode_words`, `encode_words_together` and
    `explain_logit`.
    """

    value_dim: int  # numbers that a label reads of a document, for the memory of a batch

    def __init__(
        self, config: LevelsConfig, levels: Sequence[Level], tables: Tables, start: Starts
    ) -> None:
        super().__init__()
        width, dropout = config.width, config.word_dropout
        self.words = WordEmbedding(tables.n_words, width, dropout, tables.words)
        self.keywords: WordEmbedding | None = None
        self.labels: WordEmbedding | None = None
        if tables.n_keywords:
            self.keywords = WordEmbedding(tables.n_keywords, width, dropout, tables.keywords)
        if tables.n_labels:
            self.labels = WordEmbedding(tables.n_labels + 1, width, dropout, tables.labels)
        self.hidden = config.hidden
        self.add_encoders(config, len(levels), tables.n_words)
        self.levels = nn.ModuleList()
        for index, level in enumerate(levels):
            sets = ["keywords"] * bool(tables.n_keywords)
            if tables.n_labels:
                sets += ["above"] * (index > 0) + ["below"] * (index + 1 < len(levels))
            self.levels.append(self.make_level(config, level, sets, start[index]))

    def add_encoders(self, config: LevelsConfig, n_levels: int, n_words: int) -> None:
        """Add the word encoders."""
        raise NotImplementedError

    def make_level(
        self, config: LevelsConfig, level: Level, sets: Sequence[str], start: Tensor
    ) -> nn.Module:
        """Return the network of one level."""
        raise NotImplementedError

    def encode_words(self, index: int, words: Stream) -> Any:
        """Return the words encoded for one level."""
        raise NotImplementedError

    def encode_words_together(self, words: Stream) -> Sequence[Any]:
        """Return the words encoded for every level at once, or nothing where that is slower."""
        raise NotImplementedError

    def explain_logit(
        self, index: int, label: int, words: Stream, sets: Mapping[str | int, Stream]
    ) -> Tensor:
        """Return the contribution (n, t) of each word to the logit of a label of a level."""
        raise NotImplementedError

    def after_step(self) -> None:
        """Change the weights after a step of the optimizer."""

    def forward(self, index: int, words: Any, sets: Sets) -> Tensor:
        """Return the logits (n, l) of the level at this index."""
        own: dict[str, str | int] = {"keywords": "keywords", "above": index - 1, "below": index + 1}
        level = self.level(index)
        logits: Tensor = level(words, {name: sets[own[name]] for name in level.sets})
        return logits

    def embed_sets(self, sets: Mapping[str | int, Stream]) -> dict[str | int, StreamFeatures]:
        """Return the vectors of keywords and labels, once for all levels that read them."""
        return {
            name: (self.embed("keywords" if name == "keywords" else "labels", ids), lengths)
            for name, (ids, lengths) in sets.items()
        }

    def embed(self, stream: str, ids: Tensor) -> Tensor:
        table = {"words": self.words, "keywords": self.keywords, "labels": self.labels}[stream]
        assert table is not None
        vectors: Tensor = table(ids)
        return vectors

    def level(self, index: int) -> Any:
        return self.levels[index]


class PooledLevel(nn.Module):
    """The network of one level (Figure 2): streams in, one logit for each label of the level out.

    `sets` names the streams beside the words: keywords, and the labels above and below.
    """

    def __init__(
        self, config: LevelwiseConfig, level: Level, sets: Sequence[str], start: Tensor
    ) -> None:
        super().__init__()
        self.sets = tuple(sets)
        self.set_convolve = nn.ModuleDict(
            {name: Convolutions(config.width, config.maps, config.windows) for name in sets}
        )
        set_width = config.maps * len(config.windows)
        streams = {name: (set_width, max_stream_length(config, name)) for name in sets}
        streams["words"] = (2 * config.hidden, config.max_length)
        self.pools = CategoryPools(level.categories, streams, config.bottleneck, config.dropout)
        self.answer = CategoryOutput(level.categories, len(level), config.bottleneck)
        self.bias = nn.Parameter(start.clone())

    def forward(self, words: EncodedWords, sets: Mapping[str, StreamFeatures]) -> Tensor:
        pooled = self.convolve_sets(sets)  # (n, t, 3m) of keywords, labels above, labels below
        pooled["words"] = (words.h, words.lengths)  # (n, t, 2d)
        return self.score_pooled(pooled)  # (n, l)

    def convolve_sets(self, sets: Mapping[str, StreamFeatures]) -> dict[str, StreamFeatures]:
        """Return the convolution features (n, t, 3m) and lengths of keywords and labels."""
        return {
            name: (convolve(sets[name][0]), sets[name][1])
            for name, convolve in self.set_convolve.items()
        }

    def score_pooled(self, streams: Mapping[str, StreamFeatures]) -> Tensor:
        """Return f of Eq. 1 (n, l): pooling, bottlenecks, output layer."""
        return self.bias + self.answer(self.pools(streams))


def max_stream_length(config: LevelsConfig, stream: str) -> int:
    """Return the maximum length of a stream of keywords or labels."""
    length: int = config.phrases_per_doc if stream == "keywords" else config.neighbours
    return length


class PooledLevels(LevelNetworks):
    """The networks of the paper: a word encoder for each level, all streams pooled by category."""

    def __init__(
        self, config: LevelwiseConfig, levels: Sequence[Level], tables: Tables, start: Starts
    ) -> None:
        super().__init__(config, levels, tables, start)
        self.value_dim, self.max_norm = config.bottleneck, config.max_norm

    def add_encoders(self, config: LevelwiseConfig, n_levels: int, n_words: int) -> None:
        self.readers = nn.ModuleList(WordEncoder(config) for _ in range(n_levels))

    def make_level(
        self, config: LevelwiseConfig, level: Level, sets: Sequence[str], start: Tensor
    ) -> PooledLevel:
        return PooledLevel(config, level, sets, start)

    def encode_words(self, index: int, words: Stream, x: Tensor | None = None) -> EncodedWords:
        """Return the words encoded for one level; `x` replaces the word vectors."""
        ids, lengths = words
        x = self.embed("words", ids) if x is None else x
        return EncodedWords(self.readers[index](x, lengths), lengths)

    def encode_words_together(self, words: Stream) -> list[EncodedWords]:
        """Return the words encoded for every level: on a GPU one kernel runs all LSTMs."""
        ids, lengths = words
        if not (ids.is_cuda and self.hidden in KERNEL_UNITS and find_spec("triton")):
            return []
        from ontodex.models.kernels.lstm import encode_together  # imports Triton

        encoders = cast(list[WordEncoder], list(self.readers))
        with torch.autocast("cuda", dtype=torch.float16):  # the precision of the LSTM kernel
            x = self.embed("words", ids.T)  # (t, n, e)
            x = convolve_as_matmul([encoder.convolve for encoder in encoders], x)
            states = encode_together(
                [e.encode for e in encoders], x.unflatten(2, (len(encoders), -1)), lengths
            )
        return [EncodedWords(h, lengths) for h in states]

    def explain_logit(
        self, index: int, label: int, words: Stream, sets: Mapping[str | int, Stream]
    ) -> Tensor:
        """Return (n, t): the gradient of a label's logit times the vector of each word."""
        # The LSTM of cuDNN has no gradients outside training.
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            x = self.embed("words", words[0]).detach().requires_grad_()
            encoded = self.encode_words(index, words, x)
            logits = self(index, encoded, self.embed_sets(sets))[:, label]
            (gradient,) = torch.autograd.grad(logits.sum(), x)
        return (gradient * x).sum(-1).detach()

    def after_step(self) -> None:
        """Scale output rows with a norm above the limit down to it (section 3.3)."""
        if self.max_norm:
            for level in self.levels:
                cast(PooledLevel, level).answer.limit_row_norms(self.max_norm)

    def continue_from(self, earlier: Mapping[str, NDArray[Any]]) -> None:
        """Take over the weights of pass 1. Neighbour labels add 0 at first, so that the networks
        predict the same as in pass 1."""
        with torch.no_grad():
            for name, own in self.named_parameters():
                if name.startswith("labels.") or NEIGHBOURS & set(name.split(".")):
                    continue  # only pass 2 has them
                if name not in earlier:
                    raise RunError(
                        f"pass 2 cannot continue: the weights of pass 1 have no {name!r}",
                        hint="remove the work folder to train pass 1 again",
                    )
                if earlier[name].shape == own.shape:
                    own.copy_(torch.tensor(earlier[name]))
            for index in range(len(self.levels)):
                self._ignore_neighbours(index, earlier)

    def _ignore_neighbours(self, index: int, earlier: Mapping[str, NDArray[Any]]) -> None:
        """Set the weights of the neighbour streams of a level to 0, the others to pass 1."""
        level, prefix = self.level(index), f"levels.{index}.pools.bottlenecks"
        for i, known in enumerate(level.pools.mark_columns_without(NEIGHBOURS)):
            weight = level.pools.get_parameter(f"bottlenecks.{i}.weight")
            weight.zero_()
            weight[:, known] = torch.tensor(earlier[f"{prefix}.{i}.weight"]).to(weight)


@dataclass(frozen=True)
class Tables:
    """Sizes of the vector tables (0 = no such stream), and their initial vectors."""

    n_words: int
    n_keywords: int = 0
    n_labels: int = 0  # label columns; row 0 of their table is padding, so column j has row j + 1
    words: Tensor | None = None
    keywords: Tensor | None = None
    labels: Tensor | None = None

    def without_labels(self) -> Tables:
        """Return the tables of pass 1."""
        return replace(self, n_labels=0, labels=None)

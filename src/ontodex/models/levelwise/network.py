"""The network of one level (Deep Level-wise XMLC, section 2.1, Figure 2), and of all levels.

    words     (n,t) ─ vectors (n,t,e) ─ convolutions 3,4,5 (n,t,3m) ─ BiLSTM (n,t,2d) ─┐
    keywords  (n,t) ─ vectors (n,t,e) ─ convolutions 3,4,5 (n,t,3s) ───────────────────┤ max in p_g
    labels predicted at the level above, and at the level below: the same ─────────────┘  chunks
       ─ batch norm, dropout ─ a bottleneck for each category g (n,b) ─ logits of its labels (n,l)

The default adds variants that are not the paper's: label attention over the words instead of
pooling (`LabelAttention`), a bag of words, one word encoder for all levels, and keywords and
neighbour labels as sums of their vectors (`SetBag`).

Our reading of the text where it leaves things open: docs/papers/levelwise.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, cast

import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from ontodex.errors import RunError
from ontodex.models.layers.bag import WordBag
from ontodex.models.layers.label_attention import LabelAttention
from ontodex.models.layers.words import WordEmbedding, token_mask
from ontodex.models.levelwise.config import LevelwiseConfig
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


class LevelNetwork(nn.Module):
    """The network of one level (Figure 2): streams in, one logit for each label of the level out.

    `sets` names the streams beside the words: keywords, and the labels above and below.
    """

    def __init__(
        self, config: LevelwiseConfig, level: Level, sets: Sequence[str], start: Tensor
    ) -> None:
        super().__init__()
        self.sets = tuple(sets)
        pooled = self.sets if config.keyword_encoder == "pooling" else ()
        self.set_convolve = nn.ModuleDict(
            {
                name: Convolutions(config.width, config.keyword_maps, config.keyword_windows)
                for name in pooled
            }
        )
        self.set_bags = nn.ModuleDict(
            {
                name: SetBag(config.width, len(level), config.dropout)
                for name in self.sets
                if name not in pooled
            }
        )
        set_width = config.keyword_maps * len(config.keyword_windows)
        streams = {name: (set_width, max_stream_length(config, name)) for name in pooled}
        self.attend: LabelAttention | None = None
        if config.word_aggregation == "attention":
            self.attend = LabelAttention(2 * config.hidden, config.value_dim, len(level))
        else:
            streams["words"] = (2 * config.hidden, config.max_length)
        self.drop = nn.Dropout(config.dropout)
        self.bag: nn.Linear | None = None
        if config.bag:
            self.bag = nn.Linear(config.bag, len(level), bias=False)
            nn.init.normal_(self.bag.weight, std=0.02)
        # Without a pooled stream there are no categories.
        categories = level.categories if streams else ()
        self.pools = CategoryPools(categories, streams, config.bottleneck, config.dropout)
        self.answer = CategoryOutput(categories, len(level), config.bottleneck)
        self.bias = nn.Parameter(start.clone())

    def forward(self, words: EncodedWords, sets: Mapping[str, StreamFeatures]) -> Tensor:
        pooled = self.convolve_sets(sets)  # (n, t, 3s) of keywords, labels above, labels below
        if self.attend is None:
            pooled["words"] = (words.h, words.lengths)  # (n, t, 2d)
        logits = self.score_pooled(pooled)  # (n, l)  pooling, bottlenecks, output layer
        for name, score_set in self.set_bags.items():  # ours
            logits = logits + score_set(*sets[name])  # (n, l)
        if self.attend is not None:  # ours
            logits = logits + self.attend(self.drop(words.h), token_mask(words.h, words.lengths))
        if self.bag is not None:  # ours
            logits = logits + self.bag(words.bag)  # (n, l)
        return logits

    def convolve_sets(self, sets: Mapping[str, StreamFeatures]) -> dict[str, StreamFeatures]:
        """Return the convolution features (n, t, 3s) and lengths of keywords and labels."""
        return {
            name: (convolve(sets[name][0]), sets[name][1])
            for name, convolve in self.set_convolve.items()
        }

    def score_pooled(self, streams: Mapping[str, StreamFeatures]) -> Tensor:
        """Return f of Eq. 1 (n, l) for the streams that are pooled."""
        return self.bias + self.answer(self.pools(streams)) if streams else self.bias


class SetBag(nn.Module):
    """Logits from the sum of the vectors of keywords or labels. Ours, not the paper's.

    With pooling and batch norm a network recognises its training documents by rare keywords.
    """

    def __init__(self, width: int, n_labels: int, dropout: float) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(width))
        self.drop = nn.Dropout(dropout)
        self.output = nn.Linear(width, n_labels, bias=False)
        nn.init.normal_(self.output.weight, std=0.02)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        bag = x.sum(dim=1) / lengths.clamp(min=1).sqrt()[:, None]  # (n, e); padding is 0
        logits: Tensor = self.output(self.drop(F.relu(bag + self.bias)))
        return logits  # (n, l)


def max_stream_length(config: LevelwiseConfig, stream: str) -> int:
    """Return the maximum length of a stream of keywords or labels."""
    return config.phrases_per_doc if stream == "keywords" else config.neighbours


class LevelNetworks(nn.Module):
    """The networks of all levels, with one table each of word, keyword and label vectors."""

    def __init__(
        self, config: LevelwiseConfig, levels: Sequence[Level], tables: Tables, start: Starts
    ) -> None:
        super().__init__()
        self.words = WordEmbedding(tables.n_words, config.width, config.word_dropout, tables.words)
        self.keywords: WordEmbedding | None = None
        self.labels: WordEmbedding | None = None
        if tables.n_keywords:
            self.keywords = WordEmbedding(
                tables.n_keywords, config.width, config.word_dropout, tables.keywords
            )
        if tables.n_labels:
            self.labels = WordEmbedding(
                tables.n_labels + 1, config.width, config.word_dropout, tables.labels
            )
        self.bag = WordBag(tables.n_words, config.bag, config.dropout) if config.bag else None
        self.hidden, self.value_dim = config.hidden, config.value_dim
        n_encoders = 1 if config.encoder == "shared" else len(levels)
        self.readers = nn.ModuleList(WordEncoder(config) for _ in range(n_encoders))
        self.levels = nn.ModuleList()
        for index, level in enumerate(levels):
            sets = ["keywords"] * bool(tables.n_keywords)
            if tables.n_labels:
                sets += ["above"] * (index > 0) + ["below"] * (index + 1 < len(levels))
            self.levels.append(LevelNetwork(config, level, sets, start[index]))

    @property
    def has_shared_encoder(self) -> bool:
        return len(self.readers) == 1

    def forward(self, index: int, words: EncodedWords, sets: Sets) -> Tensor:
        """Return the logits (n, l) of the level at this index."""
        own: dict[str, str | int] = {"keywords": "keywords", "above": index - 1, "below": index + 1}
        level = self.level(index)
        logits: Tensor = level(words, {name: sets[own[name]] for name in level.sets})
        return logits

    def encode_words(
        self, index: int, words: Stream, vectors: Tensor | None = None
    ) -> EncodedWords:
        """Return the words encoded for one level; `vectors` replaces the word vectors."""
        ids, lengths = words
        x = self.embed("words", ids) if vectors is None else vectors
        encode = self.readers[0 if self.has_shared_encoder else index]
        bag = None if self.bag is None else self.bag(ids)
        return EncodedWords(encode(x, lengths), lengths, bag)

    def encode_words_together(self, words: Stream) -> list[EncodedWords]:
        """Return the words encoded for every level at once, or an empty list where that is slower.

        It is faster where all levels share an encoder, and on a GPU, where one kernel runs the
        LSTMs of all levels.
        """
        if self.has_shared_encoder:
            return [self.encode_words(0, words)] * len(self.levels)
        ids, lengths = words
        if not (ids.is_cuda and self.hidden in KERNEL_UNITS and find_spec("triton")):
            return []
        from ontodex.models.kernels.lstm import encode_together  # imports Triton

        encoders = cast(list[WordEncoder], list(self.readers))
        convolutions = [e.convolve for e in encoders if isinstance(e.convolve, Convolutions)]
        with torch.autocast("cuda", dtype=torch.float16):  # the precision of the LSTM kernel
            x = self.embed("words", ids.T)  # (t, n, e)
            if convolutions:
                x = convolve_as_matmul(convolutions, x)
            states = encode_together(
                [e.encode for e in encoders], x.unflatten(2, (len(encoders), -1)), lengths
            )
        bag = None if self.bag is None else self.bag(ids)
        return [EncodedWords(h, lengths, bag) for h in states]

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

    def explain_logit(
        self, index: int, label: int, words: Stream, sets: Mapping[str | int, Stream]
    ) -> Tensor:
        """Return the contribution (n, t) of each word to the logit of a label of a level.

        Contributions are exact with label attention, else gradient times input. The bag of words
        adds its own.
        """
        level = self.level(index)
        if level.attend is not None:
            with torch.no_grad():
                encoded = self.encode_words(index, words)
                mask = token_mask(encoded.h, encoded.lengths)
                added = level.attend.explain_logit(encoded.h, mask, label)
        else:
            # The LSTM of cuDNN has no gradients outside training.
            with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
                x = self.embed("words", words[0]).detach().requires_grad_()
                encoded = self.encode_words(index, words, x)
                logits = self(index, encoded, self.embed_sets(sets))[:, label]
                (gradient,) = torch.autograd.grad(logits.sum(), x)
            added = (gradient * x).sum(-1)
        if self.bag is not None and level.bag is not None:
            added = added + self.bag.explain_logit(words[0], level.bag.weight[label])
        return added.detach()

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
        for name in NEIGHBOURS & level.set_bags.keys():
            level.set_bags[name].get_parameter("output.weight").zero_()
        for i, known in enumerate(level.pools.mark_columns_without(NEIGHBOURS)):
            weight = level.pools.get_parameter(f"bottlenecks.{i}.weight")
            weight.zero_()
            weight[:, known] = torch.tensor(earlier[f"{prefix}.{i}.weight"]).to(weight)

    def level(self, index: int) -> LevelNetwork:
        network = self.levels[index]
        assert isinstance(network, LevelNetwork)
        return network

    def limit_row_norms(self, norm: float) -> None:
        """Scale output rows with a norm above `norm` down to it (section 3.3)."""
        for index in range(len(self.levels)):
            self.level(index).answer.limit_row_norms(norm)


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

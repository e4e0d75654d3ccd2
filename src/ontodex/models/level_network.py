"""The network of one level (paper 000, section 2.1, Figure 2), and all levels on one word table.

    words     (n,t) ─ vectors (n,t,e) ─ convolutions 3,4,5 (n,t,3m) ─ BiLSTM (n,t,2d) ─┐
    keywords  (n,t) ─ vectors (n,t,e) ─ convolutions 3,4,5 (n,t,3s) ───────────────────┤ max in p_g
    labels predicted at the level above, and at the level below: the same ─────────────┘  chunks
       ─ batch norm, dropout ─ a bottleneck for each category g (n,b) ─ logits of its labels (n,l)

Ours, not the paper's, and the default: labels that read the words by attention, a bag of words
beside them, one reader of words for all levels, and keywords and labels as bags.

How the text was read where it leaves things open: docs/papers/levelwise.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple, cast

import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from ontodex.config import check_least, check_shares
from ontodex.errors import RunError
from ontodex.features.phrases import PhraseConfig
from ontodex.models.label_attention import contributions, label_logits, logits_of, tokens_in
from ontodex.models.level_plan import Categories, Level, Pooling
from ontodex.models.level_pooling import CategoryOutput, CategoryPools, Read
from ontodex.models.neural import NeuralConfig
from ontodex.models.parts import BiLSTM, WordBag, Words, token_mask
from ontodex.models.pointer import PointerConfig
from ontodex.ontology.levels import Expand
from ontodex.ontology.levels import Rule as LevelRule
from ontodex.train.loop import LoopConfig

Stream = tuple[Tensor, ...]  # ids (n, t) padded with 0, lengths (n,)
Inputs = Literal["words", "words+keywords", "words+keywords+levels"]
Starts = Sequence[Tensor]  # for each level, the logits its labels start with
Sets = Mapping[str | int, Read]  # "keywords", and by the place of a level the labels there
NEIGHBOURS = frozenset({"above", "below"})  # the streams that only pass 2 has
KERNEL_UNITS = (64, 128, 256, 512)  # of LSTMs that models/lstm_kernel.py takes


@dataclass(frozen=True)
class LevelwiseConfig(PhraseConfig, NeuralConfig):
    """The paper's values: experiments/paper/levelwise.toml."""

    ontology: Literal["given", "cluster"] = "given"  # cluster: levels from a tree of the labels
    max_level: int = 7  # deeper concepts fold into this level; 1 = one flat network
    level_of: LevelRule = "min"  # a concept with several positions: the shallowest or the deepest
    # Of more than 16 tops: dealt out to 16 categories of like size, or the 15 largest and the rest;
    # where something is pooled.
    categories: Categories = "dealt"
    expand: Expand = "none"  # ancestors added to gold for training (paper: lowest)
    documents: Literal["level", "all"] = "all"  # level (paper): those with labels at a level
    inputs: Inputs = "words+keywords+levels"  # levels: those above and below, in pass 2
    keywords: Literal["auto", "author", "phrases"] = "auto"  # auto: author's where most docs have
    keyword_count: int = 3  # a keyword must occur so often in training to have its own vector
    phrase_words: int = 2  # longer phrases hardly ever occur twice
    phrases_per_doc: int = 20
    neighbours: int = 10  # predicted labels read of the level above, and of that below
    # Log-odds of new documents are moved by a number a level, found on dev; paper: they are not.
    move_odds: bool = True
    second: Literal["anew", "continued"] = "anew"  # pass 2; continued: from the networks of pass 1
    second_epochs: int = 4  # of pass 2 where it is continued
    second_lr: float = 0.25  # and its learning rate, as a share of train.lr
    average_passes: bool = True  # answers are the mean of both passes' log-odds; paper: pass 2's
    folds: int = 2  # parts that predictions for the training documents are made over
    width: int = 256  # of all vectors; where prepared ones are shorter, the rest is learned
    windows: tuple[int, ...] = ()  # of convolutions over words (paper: 3, 4, 5); none: no such
    set_windows: tuple[int, ...] = (3, 4, 5)  # and over keywords and labels, where they are pooled
    maps: int = 128  # feature maps of each convolution over words
    set_maps: int = 32  # and over keywords and labels
    hidden: int = 512  # LSTM units in each direction
    encoder: Literal["level", "shared"] = "shared"  # convolutions, LSTM: a level's own (paper), one
    reader: Literal["pooling", "attention"] = "attention"  # of the word stream (paper: pooling)
    sets: Literal["pooling", "bag"] = "bag"  # how keywords and labels are read (paper: pooling)
    value: int = 512  # width in which labels attend, for the reader `attention`
    bag: int = 1024  # width of a bag of words beside the reader; 0 = none (paper)
    # Where something is pooled, chunks of a category: by its size, one, or `chunks`.
    pooling: Pooling = "dynamic"
    chunks: int = 32  # P, the most chunks a category can get
    bottleneck: int = 512  # units of each category, where it is pooled
    row_norm: float = 3.0  # greatest norm of an output row, where it is pooled; 0 = any
    word_dropout: float = 0.3  # of word vectors
    dropout: float = 0.5  # of what is pooled
    first_lambda: float = 0.5  # OFO without prior: the threshold before a label was met
    # Decisions for which the one threshold of all labels counts (of a level's, in the tables by
    # level); paper: 0.
    ofo_prior: float = 50.0
    ofo_passes: int = 3  # times over the training documents
    # The levels' labels into one set: pointer generator, the most probable, OFO's union.
    merge: Literal["pointer", "sampling", "threshold"] = "pointer"
    pointer: PointerConfig = field(default_factory=PointerConfig)
    train: LoopConfig = field(default_factory=lambda: LoopConfig(epochs=8, batch=128, warmup=200))

    def __post_init__(self) -> None:
        NeuralConfig.__post_init__(self)
        PhraseConfig.__post_init__(self)
        check_least(
            self, 1,
            "max_level", "neighbours", "maps", "set_maps", "hidden", "value", "chunks",
            "bottleneck", "keyword_count", "second_epochs", "ofo_passes",
        )  # fmt: skip
        check_least(self, 2, "folds")
        if min(*self.windows, *self.set_windows, 1) < 1 or not self.set_windows:
            raise ValueError("windows and set_windows must be at least 1")
        check_least(self, 0, "bag", "row_norm", "ofo_prior")
        if not self.second_lr > 0:
            raise ValueError(f"second_lr must be above 0, not {self.second_lr}")
        if not 0 <= self.first_lambda <= 1:
            raise ValueError(f"first_lambda must be in [0, 1], not {self.first_lambda}")
        check_shares(self, "word_dropout", "dropout")

    @property
    def reads_keywords(self) -> bool:
        return self.inputs != "words"

    @property
    def reads_levels(self) -> bool:
        return self.inputs == "words+keywords+levels"


class Convolutions(nn.Module):
    """Windows of several widths around each place, ReLU. Zeros stand before and after a text, so
    every place has all features and padding adds none."""

    def __init__(self, width: int, maps: int, windows: Sequence[int]) -> None:
        super().__init__()
        self.each = nn.ModuleList(nn.Conv1d(width, maps, window) for window in windows)
        self.windows = tuple(windows)
        self.width = maps * len(windows)

    def forward(self, x: Tensor) -> Tensor:
        if x.is_cuda:
            return by_product([self], x.transpose(0, 1)).transpose(0, 1)
        x = x.transpose(1, 2)  # (n, e, t)
        maps = [
            convolve(F.pad(x, ((window - 1) // 2, window // 2)))
            for convolve, window in zip(self.each, self.windows, strict=True)
        ]
        return F.relu(torch.cat(maps, dim=1)).transpose(1, 2)  # (n, t, maps of all)  # fmt: skip

    def flat_weights(self, most: int) -> tuple[Tensor, Tensor]:
        """((maps of all, most * e), (maps of all,)): over a window of `most` places."""
        layers = [layer for layer in self.each if isinstance(layer, nn.Conv1d)]
        around = [((most - 1) // 2 - (w - 1) // 2, most // 2 - w // 2) for w in self.windows]
        wide = [F.pad(layer.weight, edge) for layer, edge in zip(layers, around, strict=True)]
        bias = torch.cat([layer.bias for layer in layers if layer.bias is not None])
        return torch.cat(wide).transpose(1, 2).flatten(1), bias


def by_product(readers: Sequence[Convolutions], x: Tensor) -> Tensor:
    """(t, n, maps of all readers), as a GPU likes it: one matrix product over the widest window for
    x (t, n, e), places first. cuDNN would plan every convolution anew for every shape of a
    batch."""
    if torch.is_autocast_enabled(x.device.type):
        x = x.to(torch.get_autocast_dtype(x.device.type))
    t, most = len(x), max(max(one.windows) for one in readers)
    padded = F.pad(x, (0, 0, 0, 0, (most - 1) // 2, most // 2))
    seen = torch.cat([padded[i : i + t] for i in range(most)], dim=2)  # (t, n, most * e)
    weights, biases = zip(*(one.flat_weights(most) for one in readers), strict=True)
    return F.relu(F.linear(seen, torch.cat(weights), torch.cat(biases)))


class WordReader(nn.Module):
    """Words in their context: convolutions, and a BiLSTM over their features."""

    def __init__(self, config: LevelwiseConfig) -> None:
        super().__init__()
        width = config.width
        self.convolve: nn.Module = nn.Identity()
        if config.windows:
            self.convolve = Convolutions(width, config.maps, config.windows)
            width = self.convolve.width
        self.encode = BiLSTM(width, config.hidden)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        h: Tensor = self.encode(self.convolve(x), lengths)
        return h  # (n, t, 2d)


class Told(NamedTuple):
    """What the words of a batch say, before a level asks."""

    h: Tensor  # (n, t, 2d)
    lengths: Tensor  # (n,)
    bag: Tensor | None  # (n, width of the bag)

    def take(self, at: Tensor | None) -> Told:
        """The same of some documents of the batch (None: all)."""
        if at is None:
            return self
        bag = None if self.bag is None else self.bag[at]
        return Told(self.h.index_select(0, at), self.lengths[at], bag)


class LevelNetwork(nn.Module):
    """What the words say and three streams of vectors in, one logit for each label of the level
    out."""

    def __init__(
        self, config: LevelwiseConfig, level: Level, sets: Sequence[str], start: Tensor
    ) -> None:
        super().__init__()
        self.sets = tuple(sets)
        pooled = self.sets if config.sets == "pooling" else ()
        self.set_convolve = nn.ModuleDict(
            {
                name: Convolutions(config.width, config.set_maps, config.set_windows)
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
        set_width = config.set_maps * len(config.set_windows)
        streams = {name: (set_width, most_places(config, name)) for name in pooled}
        self.attend: LabelAttention | None = None
        if config.reader == "attention":
            self.attend = LabelAttention(2 * config.hidden, config.value, len(level))
        else:
            streams["words"] = (2 * config.hidden, config.max_length)
        self.drop = nn.Dropout(config.dropout)
        self.bag: nn.Linear | None = None
        if config.bag:
            self.bag = nn.Linear(config.bag, len(level), bias=False)
            nn.init.normal_(self.bag.weight, std=0.02)
        # Labels that attend to words alone, with no other stream, need no categories.
        categories = level.categories if streams else ()
        self.pools = CategoryPools(categories, streams, config.bottleneck, config.dropout)
        self.answer = CategoryOutput(categories, len(level), config.bottleneck)
        self.bias = nn.Parameter(start.clone())

    def forward(self, told: Told, sets: Mapping[str, Read]) -> Tensor:
        streams = {
            name: (convolve(sets[name][0]), sets[name][1])  # (n, t, 3s)
            for name, convolve in self.set_convolve.items()
        }
        if self.attend is None:
            streams["words"] = (told.h, told.lengths)
        logits = self.read_out(streams)  # (n, l)
        for name, read in self.set_bags.items():
            logits = logits + read(*sets[name])
        if self.attend is not None:
            logits = logits + self.attend(self.drop(told.h), token_mask(told.h, told.lengths))
        if self.bag is not None:
            logits = logits + self.bag(told.bag)
        return logits  # (n, l)

    def read_out(self, streams: Mapping[str, Read]) -> Tensor:
        """(n, l): f of Eq. 1, of the streams that are pooled."""
        return self.bias + self.answer(self.pools(streams)) if streams else self.bias


class SetBag(nn.Module):
    """Ours, not the paper's: a set told by the sum of its vectors, and what that says of each
    label. Pooled and normed, a network knows its training documents by their rare keywords."""

    def __init__(self, width: int, n_labels: int, dropout: float) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(width))
        self.drop = nn.Dropout(dropout)
        self.output = nn.Linear(width, n_labels, bias=False)
        nn.init.normal_(self.output.weight, std=0.02)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        told = x.sum(dim=1) / lengths.clamp(min=1).sqrt()[:, None]  # padding is 0
        logits: Tensor = self.output(self.drop(F.relu(told + self.bias)))
        return logits  # (n, l)


class LabelAttention(nn.Module):
    """Ours, not the paper's: each label reads the words with a query of its own."""

    def __init__(self, width: int, value: int, n_labels: int) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.empty(n_labels, width))
        nn.init.xavier_uniform_(self.queries)
        self.project = nn.Linear(width, value)
        self.output = nn.Parameter(torch.randn(n_labels, value) * 0.05)

    def forward(self, h: Tensor, mask: Tensor) -> Tensor:
        values = tokens_in(self.project, h)  # (n, t, v)
        return label_logits(h, values, self.queries, self.output, mask)  # (n, l)

    def contributions(self, h: Tensor, mask: Tensor, place: int) -> Tensor:
        """(n, t): what each token adds to the logit of a label."""
        query, output = self.queries[place], self.output[place]
        return contributions(h, self.project(h), query, mask, lambda m: logits_of(m, output))


def most_places(config: LevelwiseConfig, stream: str) -> int:
    """The longest a stream of sets can be."""
    return config.phrases_per_doc if stream == "keywords" else config.neighbours


class LevelNetworks(nn.Module):
    """One network a level; all read one table of words, one of keywords and one of labels."""

    def __init__(
        self, config: LevelwiseConfig, levels: Sequence[Level], tables: Tables, start: Starts
    ) -> None:
        super().__init__()
        self.words = Words(tables.n_words, config.width, config.word_dropout, tables.words)
        self.keywords: Words | None = None
        self.labels: Words | None = None
        if tables.n_keywords:
            self.keywords = Words(
                tables.n_keywords, config.width, config.word_dropout, tables.keywords
            )
        if tables.n_labels:
            self.labels = Words(
                tables.n_labels + 1, config.width, config.word_dropout, tables.labels
            )
        self.bag = WordBag(tables.n_words, config.bag, config.dropout) if config.bag else None
        self.hidden, self.value = config.hidden, config.value
        readers = 1 if config.encoder == "shared" else len(levels)
        self.readers = nn.ModuleList(WordReader(config) for _ in range(readers))
        self.levels = nn.ModuleList()
        for place, level in enumerate(levels):
            sets = ["keywords"] * bool(tables.n_keywords)
            if tables.n_labels:
                sets += ["above"] * (place > 0) + ["below"] * (place + 1 < len(levels))
            self.levels.append(LevelNetwork(config, level, sets, start[place]))

    @property
    def reads_once(self) -> bool:
        """Whether what the words say is the same for all levels."""
        return len(self.readers) == 1

    def read(self, place: int, words: Stream, vectors: Tensor | None = None) -> Told:
        """What the words say to a level; their vectors may be given."""
        ids, lengths = words
        x = self.embed("words", ids) if vectors is None else vectors
        reader = self.readers[0 if self.reads_once else place]
        bag = None if self.bag is None else self.bag(ids)
        return Told(reader(x, lengths), lengths, bag)

    def read_at_once(self, words: Stream) -> list[Told]:
        """What the words say to each level, where all levels can be served in one go: they share a
        reader, which a GPU leaves to cuDNN, or a GPU runs their LSTMs side by side. Else an empty
        list."""
        if self.reads_once:
            return [self.read(0, words)] * len(self.levels)
        ids, lengths = words
        if not (ids.is_cuda and self.hidden in KERNEL_UNITS and find_spec("triton")):
            return []
        from ontodex.models.lstm_kernel import read_together  # imports Triton

        readers = cast(list[WordReader], list(self.readers))
        convolutions = [r.convolve for r in readers if isinstance(r.convolve, Convolutions)]
        with torch.autocast("cuda", dtype=torch.float16):  # as the LSTMs
            x = self.embed("words", ids.T)  # (t, n, e)
            if convolutions:
                x = by_product(convolutions, x)
            read = read_together(
                [r.encode for r in readers], x.unflatten(2, (len(readers), -1)), lengths
            )
        bag = None if self.bag is None else self.bag(ids)
        return [Told(h, lengths, bag) for h in read]

    def forward(self, place: int, told: Told, sets: Sets) -> Tensor:
        """(n, l): the logits of one level."""
        own: dict[str, str | int] = {"keywords": "keywords", "above": place - 1, "below": place + 1}
        level = self.level(place)
        logits: Tensor = level(told, {name: sets[own[name]] for name in level.sets})
        return logits

    def read_sets(self, sets: Mapping[str | int, Stream]) -> dict[str | int, Read]:
        """Keywords and labels as vectors, once for all levels that read them."""
        return {
            name: (self.embed("keywords" if name == "keywords" else "labels", ids), lengths)
            for name, (ids, lengths) in sets.items()
        }

    def embed(self, stream: str, ids: Tensor) -> Tensor:
        table = {"words": self.words, "keywords": self.keywords, "labels": self.labels}[stream]
        assert table is not None
        vectors: Tensor = table(ids)
        return vectors

    def contributions(
        self, place: int, label: int, words: Stream, sets: Mapping[str | int, Stream]
    ) -> Tensor:
        """(n, t): what each word adds to the logit of a label of a level: exactly where labels
        attend to words, else by gradient times input; and what the bag of words adds."""
        level = self.level(place)
        if level.attend is not None:
            with torch.no_grad():
                told = self.read(place, words)
                mask = token_mask(told.h, told.lengths)
                added = level.attend.contributions(told.h, mask, label)
        else:
            # cuDNN's LSTM has no gradients outside training.
            with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
                x = self.embed("words", words[0]).detach().requires_grad_()
                told = self.read(place, words, x)
                logits = self(place, told, self.read_sets(sets))[:, label]
                (gradient,) = torch.autograd.grad(logits.sum(), x)
            added = (gradient * x).sum(-1)
        if self.bag is not None and level.bag is not None:
            added = added + self.bag.contributions(words[0], level.bag.weight[label])
        return added.detach()

    def continue_from(self, earlier: Mapping[str, NDArray[Any]]) -> None:
        """Say what the networks of pass 1 with these weights said: neighbours add 0 yet."""
        with torch.no_grad():
            for name, own in self.named_parameters():
                if name.startswith("labels.") or NEIGHBOURS & set(name.split(".")):
                    continue  # only pass 2 has them
                if name not in earlier:
                    raise RunError(f"the networks of pass 1 have no {name!r} to go on from")
                if earlier[name].shape == own.shape:
                    own.copy_(torch.tensor(earlier[name]))
            for place in range(len(self.levels)):
                level, prefix = self.level(place), f"levels.{place}.pools.bottlenecks"
                for name in NEIGHBOURS & level.set_bags.keys():
                    level.set_bags[name].get_parameter("output.weight").zero_()
                for i, known in enumerate(level.pools.columns_but(NEIGHBOURS)):
                    weight = level.pools.get_parameter(f"bottlenecks.{i}.weight")
                    weight.zero_()
                    weight[:, known] = torch.tensor(earlier[f"{prefix}.{i}.weight"]).to(weight)

    def level(self, place: int) -> LevelNetwork:
        network = self.levels[place]
        assert isinstance(network, LevelNetwork)
        return network

    def hold_rows(self, norm: float) -> None:
        for place in range(len(self.levels)):
            self.level(place).answer.hold(norm)


@dataclass(frozen=True)
class Tables:
    """Sizes of the vector tables (0 = no such stream) and the vectors they start from."""

    n_words: int
    n_keywords: int = 0
    n_labels: int = 0  # label columns; row 0 of their table is padding, so column j has row j + 1
    words: Tensor | None = None
    keywords: Tensor | None = None
    labels: Tensor | None = None

    def without_labels(self) -> Tables:
        """The tables of pass 1."""
        return replace(self, n_labels=0, labels=None)

"""Settings of Deep Level-wise XMLC: the values of the paper (sections 2.1 and 3.3).

What the paper fixes, and what it leaves open and we settled once, is a constant of the class. Our
variant `attentive-levels` has other constants and shares the code that reads them. Reasons and
measurements: docs/papers/levelwise.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from ontodex.config import check_least, check_most, check_shares, check_widths
from ontodex.features.phrases import choose_phrase_language
from ontodex.models.text_network import TextNetworkConfig
from ontodex.ontology.levels import Expand
from ontodex.ontology.levels import Rule as LevelRule
from ontodex.types.loop_config import ConstantRateConfig, LoopConfig

Categories = Literal["balanced", "largest"]
Inputs = Literal["words", "words+keywords", "words+keywords+levels"]
Pooling = Literal["dynamic", "max", "fixed"]
MergeRule = Literal["auto", "pointer", "sampling", "threshold"]
LevelsConfig = Any  # settings of `levelwise` or of `attentive-levels`

MOST_STEPS = 10**6


@dataclass(frozen=True)
class PointerConfig:
    """Settings of the hierarchical pointer generator (section 2.2)."""

    unit: Literal["level", "label"] = "level"  # one input sequence per level, or one of all labels
    ancestor_gate: Literal["path", "printed", "off"] = "path"  # form of Eq. 6
    embedding: int = 256  # size of label vectors and of encoder states, so that e_a . h_a exists
    hidden: int = 256  # units of the decoder LSTM
    steps: int = 2_000  # least steps of its training

    FORMER: ClassVar[tuple[str, ...]] = ("train",)
    # The pointer generator reads predictions that reach this share of their OFO threshold.
    candidate_threshold_ratio: ClassVar[float] = 1.0
    candidate_odds: ClassVar[str] = "plain"  # runs that shifted logits by thresholds are refused
    order: ClassVar[str] = "any"  # in which labels are emitted: any, or that of the targets
    dropout: ClassVar[float] = 0.3  # of label vectors, encoder states and the vocabulary layer
    coverage_weight: ClassVar[float] = 0.1  # weight of the coverage loss
    length_reward: ClassVar[bool] = False  # reward for each emitted label, tuned on dev
    beam: ClassVar[int] = 4  # width of the beam search
    max_labels: ClassVar[int] = 30  # longest label sequence, in training and in decoding
    epochs: ClassVar[int] = 4  # least epochs of its training
    train: ClassVar[LoopConfig] = LoopConfig(batch_size=256, epochs=4, ema_rate=0.01, patience=0)

    def __post_init__(self) -> None:
        check_least(self, 1, "embedding", "hidden")
        check_widths(self, "embedding", "hidden")
        check_least(self, 0, "steps")
        check_most(self, MOST_STEPS, "steps")
        if self.embedding % 2:
            raise ValueError(f"embedding must be even, not {self.embedding}")


@dataclass(frozen=True)
class PaperLoopConfig(ConstantRateConfig):
    """Settings of the paper's training: Adam in batches of 256, stopped early on dev."""

    batch_size: int = 256  # documents per step, over all processes


@dataclass(frozen=True)
class LevelwiseConfig(TextNetworkConfig):
    """Settings of `levelwise`."""

    ontology: Literal["given", "cluster"] = "given"  # cluster: levels from a tree of the labels
    max_level: int = 0  # deeper concepts belong to this level; 1 = one flat network; 0 = by size
    inputs: Inputs = "words+keywords+levels"  # levels: predictions above and below, in pass 2
    folds: int = 2  # folds of the out-of-fold predictions for the training documents
    width: int = 300  # size of all vectors; shorter prepared vectors are extended
    windows: tuple[int, ...] = (3, 4, 5)  # of convolutions
    maps: int = 128  # feature maps of each convolution
    hidden: int = 256  # LSTM units in each direction
    # Chunks of a category: by its size, one, or always `chunks`.
    pooling: Pooling = "dynamic"
    chunks: int = 2  # P, the most chunks of a category
    bottleneck: int = 512  # bottleneck units of each category
    dropout: float = 0.5  # of pooled features
    # From the predictions of all levels to one label set: pointer generator, the most probable
    # labels (sampling), all labels above their OFO thresholds, or the best of these on dev.
    merge: MergeRule = "auto"
    pointer: PointerConfig = field(default_factory=PointerConfig)
    train: PaperLoopConfig = field(default_factory=PaperLoopConfig)

    FORMER: ClassVar[tuple[str, ...]] = (
        "keywords", "keyword_min_count", "phrase_language", "phrase_words", "phrases_per_doc",
        "value_dim", "value", "keyword_maps", "keyword_windows", "pass2_epochs", "pass2_lr_factor",
        "ofo_passes", "first_lambda", "word_dropout",
    )  # fmt: skip
    level_of: ClassVar[LevelRule] = "min"  # of several positions of a concept the shallowest
    # Categories of an ontology with more than 16 top concepts: the 15 largest and the rest.
    categories: ClassVar[Categories] = "largest"
    expand: ClassVar[Expand] = "lowest"  # ancestors added to gold for training
    documents: ClassVar[str] = "level"  # training documents of a level: those with a label there
    phrase_words: ClassVar[int] = 4  # longest phrase
    phrases_per_doc: ClassVar[int] = 20
    knows_all_keywords: ClassVar[bool] = True  # unknown keywords are left out of the stream
    warns_of_random_vectors: ClassVar[bool] = True  # the paper starts from trained ones
    neighbours: ClassVar[int] = 10  # predicted labels that are read from each neighbour level
    logit_shift: ClassVar[bool] = False  # shift the logits of new documents level by level
    pass2_init: ClassVar[str] = "continued"  # the text does not say where pass 2 starts; dev chose
    pass2_epochs: ClassVar[int] = 4
    pass2_lr_factor: ClassVar[float] = 0.25  # learning rate of pass 2, relative to train.lr
    average_passes: ClassVar[bool] = False  # predict by pass 2 alone
    encoder: ClassVar[str] = "level"  # one word encoder per level
    word_aggregation: ClassVar[str] = "pooling"
    keyword_encoder: ClassVar[str] = "pooling"
    bag: ClassVar[int] = 0
    max_norm: ClassVar[float] = 3.0  # greatest norm of an output row (section 3.3)
    word_dropout: ClassVar[float] = 0.0
    first_lambda: ClassVar[float] = 0.5  # threshold of a label before its first document
    ofo_prior: ClassVar[float] = 0.0  # OFO starts from nothing
    ofo_passes: ClassVar[int] = 3  # passes of OFO over the training documents

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "maps", "hidden", "chunks", "bottleneck", "neighbours")
        check_least(self, 0, "max_level")
        check_least(self, 2, "folds")
        check_most(self, 10_000, "chunks")
        check_widths(self, "maps", "hidden", "bottleneck")
        if not self.windows or min(self.windows) < 1:
            raise ValueError(f"windows must be at least 1, not {list(self.windows)}")
        check_shares(self, "dropout")

    @property
    def phrase_language(self) -> str:
        """The language of the stop words that end a phrase."""
        return choose_phrase_language(self)

    @property
    def reads_keywords(self) -> bool:
        return self.inputs != "words"

    @property
    def reads_levels(self) -> bool:
        return self.inputs == "words+keywords+levels"

"""Settings of Deep Level-wise XMLC, in the words of the paper.

The defaults are the values that work best on our dev documents. The paper's own values are in
experiments/paper/levelwise.toml; a comment names the paper's value where it differs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ontodex.config import check_least, check_most, check_shares, check_widths
from ontodex.features.phrases import PhraseConfig
from ontodex.models.text_network import TextNetworkConfig
from ontodex.ontology.levels import Expand
from ontodex.ontology.levels import Rule as LevelRule
from ontodex.types.loop_config import LoopConfig

Categories = Literal["balanced", "largest"]
Inputs = Literal["words", "words+keywords", "words+keywords+levels"]
Pooling = Literal["dynamic", "max", "fixed"]


@dataclass(frozen=True)
class PointerConfig:
    """Settings of the hierarchical pointer generator (section 2.2)."""

    # The pointer generator reads predictions that reach this share of their OFO threshold.
    # A doubtful label may fit the other labels. Paper: 1.
    candidate_threshold_ratio: float = 0.4
    # PriorTerms of a prediction that the encoder reads: `plain` (paper), or relative to the OFO
    # threshold of the label.
    candidate_odds: Literal["plain", "threshold"] = "plain"
    unit: Literal["level", "label"] = "level"  # one input sequence per level, or one of all labels
    ancestor_gate: Literal["path", "printed", "off"] = "path"  # form of Eq. 6
    # `forward`: labels are emitted in the order of the targets. `any` (paper): in any order.
    order: Literal["forward", "any"] = "forward"
    embedding: int = 256  # size of label vectors and of encoder states, so that e_a . h_a exists
    hidden: int = 256  # units of the decoder LSTM
    dropout: float = 0.3  # of label vectors, encoder states and the input of the vocabulary layer
    coverage_weight: float = 0.1  # weight of the coverage loss
    length_reward: bool = True  # reward for each emitted label, tuned on dev; paper: no reward
    beam: int = 4  # width of the beam search
    max_labels: int = 30  # longest label sequence of a document, in training and in decoding
    train: LoopConfig = field(
        default_factory=lambda: LoopConfig(batch_size=256, epochs=4, ema_rate=0.01, patience=0)
    )

    def __post_init__(self) -> None:
        check_least(self, 1, "embedding", "hidden", "beam", "max_labels")
        check_most(self, 1_000, "beam", "max_labels")
        check_widths(self, "embedding", "hidden")
        if self.embedding % 2:
            raise ValueError(f"embedding must be even, not {self.embedding}")
        check_shares(self, "dropout")
        check_least(self, 0, "coverage_weight")
        if not 0 < self.candidate_threshold_ratio <= 1:
            raise ValueError(
                "candidate_threshold_ratio must be above 0 and at most 1, not "
                f"{self.candidate_threshold_ratio}"
            )


@dataclass(frozen=True)
class LevelwiseConfig(PhraseConfig, TextNetworkConfig):
    """Settings of the whole system. The paper's values: experiments/paper/levelwise.toml."""

    ontology: Literal["given", "cluster"] = "given"  # cluster: levels from a tree of the labels
    max_level: int = 7  # deeper concepts belong to this level; 1 = one flat network
    level_of: LevelRule = "min"  # a concept with several positions: the shallowest or the deepest
    # Categories of an ontology with more than 16 top concepts: 16 of similar size, or the 15
    # largest and the rest (paper). Used where streams are pooled.
    categories: Categories = "balanced"
    expand: Expand = "none"  # ancestors added to gold for training (paper: lowest)
    # Training documents of a level: all, or those with a label at the level (paper).
    documents: Literal["level", "all"] = "all"
    inputs: Inputs = "words+keywords+levels"  # levels: predictions above and below, in pass 2
    # Author keywords, or phrases extracted from the text; auto: author keywords where most
    # documents have some.
    keywords: Literal["auto", "author", "phrases"] = "auto"
    keyword_min_count: int = 3  # training occurrences of a keyword that gets its own vector
    phrase_words: int = 2  # longer phrases rarely occur twice
    phrases_per_doc: int = 20
    neighbours: int = 10  # predicted labels that are read from each neighbour level
    # Add a number per level, found on dev, to the logits of new documents. Paper: no shift.
    logit_shift: bool = True
    # Weights that pass 2 starts from: random, or those of pass 1.
    pass2_init: Literal["scratch", "continued"] = "scratch"
    pass2_epochs: int = 4  # epochs of a continued pass 2
    pass2_lr_factor: float = 0.25  # learning rate of a continued pass 2, relative to train.lr
    average_passes: bool = True  # predict the mean of both passes' logits; paper: pass 2 alone
    folds: int = 2  # folds of the out-of-fold predictions for the training documents
    width: int = 256  # size of all vectors; shorter prepared vectors are extended
    windows: tuple[int, ...] = ()  # of convolutions over words (paper: 3, 4, 5); empty: none
    keyword_windows: tuple[int, ...] = (3, 4, 5)  # of convolutions over keywords and labels
    maps: int = 128  # feature maps of each convolution over words
    keyword_maps: int = 32  # feature maps of each convolution over keywords and labels
    hidden: int = 512  # LSTM units in each direction
    encoder: Literal["level", "shared"] = "shared"  # one word encoder per level (paper), or one
    # From word states to logits: pooling by category (paper), or label attention.
    word_aggregation: Literal["pooling", "attention"] = "attention"
    # From keywords and neighbour labels to logits: convolutions and pooling (paper), or the sum
    # of their vectors.
    keyword_encoder: Literal["pooling", "bag"] = "bag"
    value_dim: int = 512  # size of the values that labels attend to
    bag: int = 1024  # size of a bag of words beside the encoder; 0 = none (paper)
    # Chunks of a category where streams are pooled: by its size, one, or always `chunks`.
    pooling: Pooling = "dynamic"
    chunks: int = 32  # P, the most chunks of a category
    bottleneck: int = 512  # bottleneck units of each category where streams are pooled
    max_norm: float = 3.0  # greatest norm of an output row where streams are pooled; 0 = no limit
    word_dropout: float = 0.3  # of word vectors
    dropout: float = 0.5  # of pooled features
    first_lambda: float = 0.5  # OFO without prior: threshold of a label before its first document
    # Weight, in documents, of the one threshold of all labels (of a level, in the tables by
    # level) in the threshold of each label. Paper: 0.
    ofo_prior: float = 50.0
    ofo_passes: int = 3  # passes of OFO over the training documents
    # From the predictions of all levels to one label set: pointer generator, the most probable
    # labels (sampling), or all labels above their OFO thresholds.
    merge: Literal["pointer", "sampling", "threshold"] = "pointer"
    pointer: PointerConfig = field(default_factory=PointerConfig)
    train: LoopConfig = field(
        default_factory=lambda: LoopConfig(epochs=8, batch_size=128, warmup_steps=200)
    )

    def __post_init__(self) -> None:
        TextNetworkConfig.__post_init__(self)
        PhraseConfig.__post_init__(self)
        check_least(
            self, 1,
            "max_level", "neighbours", "maps", "keyword_maps", "hidden", "value_dim", "chunks",
            "bottleneck", "keyword_min_count", "pass2_epochs", "ofo_passes",
        )  # fmt: skip
        check_least(self, 2, "folds")
        check_most(self, 10_000, "neighbours", "chunks")
        check_widths(self, "maps", "keyword_maps", "hidden", "value_dim", "bottleneck", "bag")
        if min(*self.windows, *self.keyword_windows, 1) < 1 or not self.keyword_windows:
            raise ValueError("windows and keyword_windows must be at least 1")
        check_least(self, 0, "bag", "max_norm", "ofo_prior")
        if not self.pass2_lr_factor > 0:
            raise ValueError(f"pass2_lr_factor must be above 0, not {self.pass2_lr_factor}")
        if not 0 <= self.first_lambda <= 1:
            raise ValueError(f"first_lambda must be in [0, 1], not {self.first_lambda}")
        check_shares(self, "word_dropout", "dropout")

    @property
    def reads_keywords(self) -> bool:
        return self.inputs != "words"

    @property
    def reads_levels(self) -> bool:
        return self.inputs == "words+keywords+levels"

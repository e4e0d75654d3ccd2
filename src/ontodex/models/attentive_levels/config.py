"""Settings of `attentive-levels`; the defaults are the best on dev of EURLEX57K and MEDLINE."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from ontodex.config import check_least, check_shares, check_widths
from ontodex.features.phrases import choose_phrase_language
from ontodex.models.levelwise.config import Categories, MergeRule, PointerConfig, Pooling
from ontodex.models.text_network import TextNetworkConfig
from ontodex.ontology.levels import Expand
from ontodex.ontology.levels import Rule as LevelRule
from ontodex.types.loop_config import NetworkLoopConfig


@dataclass(frozen=True)
class OrderedPointerConfig(PointerConfig):
    """Settings of a pointer generator that emits labels in the order of the targets."""

    FORMER: ClassVar[tuple[str, ...]] = (*PointerConfig.FORMER, "steps")
    unit: ClassVar[Literal["level", "label"]] = "level"  # type: ignore[misc]
    ancestor_gate: ClassVar[Literal["path", "printed", "off"]] = "path"  # type: ignore[misc]
    steps: ClassVar[int] = 0  # type: ignore[misc]
    # A doubtful label may fit the other labels.
    candidate_threshold_ratio: ClassVar[float] = 0.4
    order: ClassVar[str] = "forward"
    length_reward: ClassVar[bool] = True


@dataclass(frozen=True)
class AttentiveLevelsConfig(TextNetworkConfig):
    """Settings of `attentive-levels`."""

    ontology: Literal["given", "cluster"] = "given"  # cluster: levels from a tree of the labels
    max_level: int = 7  # deeper concepts belong to this level; 1 = one flat network; 0 = by size
    folds: int = 2  # folds of the out-of-fold predictions for the training documents
    hidden: int = 512  # LSTM units in each direction
    encoder: Literal["level", "shared"] = "shared"  # one word encoder per level, or one for all
    value_dim: int = 512  # size of the values that labels attend to
    bag: int = 1024  # size of the bag of words beside the encoder
    word_dropout: float = 0.3  # of word vectors
    dropout: float = 0.5  # of the LSTM's states and of the bags
    # From the predictions of all levels to one label set: pointer generator, the most probable
    # labels (sampling), all labels above their OFO thresholds, or the best of these on dev.
    merge: MergeRule = "pointer"
    pointer: OrderedPointerConfig = field(default_factory=OrderedPointerConfig)
    train: NetworkLoopConfig = field(
        default_factory=lambda: NetworkLoopConfig(epochs=8, batch_size=128, warmup_steps=200)
    )

    FORMER: ClassVar[tuple[str, ...]] = (
        "keywords", "keyword_min_count", "phrase_language", "chunks", "pooling", "bottleneck",
        "max_norm", "maps", "keyword_maps", "keyword_windows", "categories", "pass2_epochs",
        "pass2_lr_factor", "ofo_passes", "first_lambda",
    )  # fmt: skip
    level_of: ClassVar[LevelRule] = "min"
    categories: ClassVar[Categories] = "balanced"  # similar in size; they share nothing here
    pooling: ClassVar[Pooling] = "max"  # nothing is pooled
    chunks: ClassVar[int] = 1
    expand: ClassVar[Expand] = "none"
    documents: ClassVar[str] = "all"  # otherwise a level predicts a label in every document
    inputs: ClassVar[str] = "words+keywords+levels"
    reads_keywords: ClassVar[bool] = True
    reads_levels: ClassVar[bool] = True
    phrase_words: ClassVar[int] = 2  # longer phrases rarely occur twice
    phrases_per_doc: ClassVar[int] = 20
    knows_all_keywords: ClassVar[bool] = False  # unknown keywords are one token
    warns_of_random_vectors: ClassVar[bool] = False
    neighbours: ClassVar[int] = 10  # predicted labels that are read from each neighbour level
    # Add a number per level, found on dev, to the logits of new documents: networks of the folds,
    # from which thresholds are learned, are less confident.
    logit_shift: ClassVar[bool] = True
    pass2_init: ClassVar[str] = "scratch"
    average_passes: ClassVar[bool] = True  # predict the mean of both passes' logits
    windows: ClassVar[tuple[int, ...]] = ()
    word_aggregation: ClassVar[str] = "attention"
    keyword_encoder: ClassVar[str] = "bag"
    first_lambda: ClassVar[float] = 0.5
    # Weight, in documents, of the one threshold of all labels in the threshold of each label.
    ofo_prior: ClassVar[float] = 50.0
    ofo_passes: ClassVar[int] = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "hidden", "value_dim", "bag")
        check_least(self, 0, "max_level")
        check_least(self, 2, "folds")
        check_widths(self, "hidden", "value_dim", "bag")
        check_shares(self, "word_dropout", "dropout")

    @property
    def phrase_language(self) -> str:
        """The language of the stop words that end a phrase."""
        return choose_phrase_language(self)

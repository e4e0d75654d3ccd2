"""Settings of LightAttention: what its paper fixes, and else the values of AttentionXML, which it
builds on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from ontodex.config import check_least
from ontodex.models.attentionxml.config import AttentionXMLConfig


@dataclass(frozen=True)
class LightAttentionConfig(AttentionXMLConfig):
    """Settings of `lightattention`."""

    layers: tuple[int, ...] = (256, 256, 256)  # widths of the discriminator's; a generator has one
    beam: int = 10  # nodes of a level whose children are candidates (b)
    cluster: int = 16  # most labels below one node (M); each has half as many or more
    height: int = 2  # of the tree (H); 0 = the least whose top level can be scored whole
    # Of each step, from the generators as they are now, or once for each document, as AttentionXML
    # draws them.
    negatives: Literal["dynamic", "static"] = "dynamic"

    FORMER: ClassVar[tuple[str, ...]] = (
        "word_dropout", "candidates", "train_beam_ratio", "children",
    )  # fmt: skip
    shard_labels: ClassVar[bool] = False  # type: ignore[misc]
    generator: ClassVar[str] = "attention"
    path_scoring: ClassVar[str] = "product"
    training: ClassVar[str] = "top-down"
    tree: ClassVar[str] = "cluster"
    table: ClassVar[str] = "fp32"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "beam")
        check_least(self, 0, "height")
        check_least(self, 2, "cluster")

    @property
    def children(self) -> int:
        """The children of an inner node (K): the greatest power of two up to half a cluster."""
        return max(2, 2 ** ((self.cluster // 2).bit_length() - 1))

"""The encoder of BERT: one state for each word piece.

    pieces ─ word + position + type vectors ─ layers of self-attention and two linear maps ─ states
    (n,t)              (n,t,d)                                                            (n,t,d)

J. Devlin, M.-W. Chang, K. Lee, K. Toutanova, "BERT: Pre-training of Deep Bidirectional Transformers
for Language Understanding", NAACL 2019. MiniLM, e5 and bge have this form. Modules are named as the
files of pretrained weights name them, so that `load_state_dict` needs no table of names.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.config import check_least, check_range, check_widths


@dataclass(frozen=True)
class BertConfig:
    """The shape of the network, with the names of a Hugging Face config.json."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1

    def __post_init__(self) -> None:
        sizes = ("vocab_size", "hidden_size", "intermediate_size", "max_position_embeddings")
        check_least(self, 1, *sizes, "num_hidden_layers", "num_attention_heads", "type_vocab_size")
        check_widths(self, "hidden_size", "intermediate_size", "max_position_embeddings")
        check_range(self, 1, 200, "num_hidden_layers", "num_attention_heads", "type_vocab_size")
        check_range(self, 0, 0.9, "hidden_dropout_prob", "attention_probs_dropout_prob")
        check_range(self, 1e-15, 1e-2, "layer_norm_eps")
        check_range(self, 1, 2_000_000, "vocab_size")
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is not divisible by "
                f"num_attention_heads {self.num_attention_heads}"
            )


class Embeddings(nn.Module):
    """The sum of the vectors of a piece, of its position and of the one type of text."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, width)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, width)
        self.LayerNorm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.drop = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, pieces: Tensor) -> Tensor:
        x = self.word_embeddings(pieces) + self.token_type_embeddings.weight[0]
        x = x + self.position_embeddings.weight[: pieces.shape[1]]
        return self.drop(self.LayerNorm(x))


class SelfAttention(nn.Module):
    """Queries, keys and values of all heads."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.n_heads = config.num_attention_heads
        self.dropout = config.attention_probs_dropout_prob
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (self.split_heads(part(x)) for part in (self.query, self.key, self.value))
        dropout = self.dropout if self.training else 0.0
        z = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
        return z.transpose(1, 2).flatten(2)  # (n, t, d)

    def split_heads(self, x: Tensor) -> Tensor:
        """Return (n, heads, t, d / heads)."""
        return x.unflatten(2, (self.n_heads, -1)).transpose(1, 2)


class AddAndNorm(nn.Module):
    """A linear map whose result is added to the input of the block and normalised."""

    def __init__(self, n_inputs: int, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(n_inputs, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.drop = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, x: Tensor, before: Tensor) -> Tensor:
        return self.LayerNorm(self.drop(self.dense(x)) + before)


class Attention(nn.Module):
    """Self-attention with its linear map."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.self = SelfAttention(config)
        self.output = AddAndNorm(config.hidden_size, config)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.output(self.self(x, mask), x)


class Intermediate(nn.Module):
    """The wide map in the middle of a layer."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.intermediate_size)

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(self.dense(x))


class Layer(nn.Module):
    """Self-attention, then two linear maps with GELU between them."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.intermediate = Intermediate(config)
        self.output = AddAndNorm(config.intermediate_size, config)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.attention(x, mask)
        return self.output(self.intermediate(x), x)


class Layers(nn.Module):
    """All layers, one after another."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.layer = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        for layer in self.layer:
            x = layer(x, mask)
        return x


class Bert(nn.Module):
    """Encodes pieces (n, t) into states (n, t, d); positions after `lengths` are never read."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.width = config.hidden_size
        self.embeddings = Embeddings(config)
        self.encoder = Layers(config)

    def forward(self, pieces: Tensor, lengths: Tensor) -> Tensor:
        inside = torch.arange(pieces.shape[1], device=pieces.device) < lengths[:, None]  # (n, t)
        return self.encoder(self.embeddings(pieces), inside[:, None, None, :])  # (n, t, d)

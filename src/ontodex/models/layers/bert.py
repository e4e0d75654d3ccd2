"""The encoder of BERT: one state for each word piece.

    pieces ─ word + position + type vectors ─ layers of self-attention and two linear maps ─ states
     (t,)              (t,d)                                                               (t,d)

Texts come packed (packed.py): all pieces of a batch in one row, and no padding.

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
from ontodex.models.layers.packed import Packed, pad_rows


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

    def __post_init__(self) -> None:
        sizes = ("vocab_size", "hidden_size", "intermediate_size", "max_position_embeddings")
        check_least(self, 1, *sizes, "num_hidden_layers", "num_attention_heads", "type_vocab_size")
        check_widths(self, "hidden_size", "intermediate_size", "max_position_embeddings")
        check_range(self, 1, 200, "num_hidden_layers", "num_attention_heads", "type_vocab_size")
        check_range(self, 0, 0.9, "hidden_dropout_prob")
        check_range(self, 1e-15, 1e-2, "layer_norm_eps")
        check_range(self, 1, 2_000_000, "vocab_size")
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is not divisible by "
                f"num_attention_heads {self.num_attention_heads}"
            )


class LayerNorm(nn.LayerNorm):
    """Normalises in the precision of its input: autocast would widen all states to fp32."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            weight, bias = self.weight.to(x.dtype), self.bias.to(x.dtype)
            return F.layer_norm(x, self.normalized_shape, weight, bias, self.eps)


class Embeddings(nn.Module):
    """The sum of the vectors of a piece, of its position and of the one type of text."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, width)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, width)
        self.LayerNorm = LayerNorm(width, eps=config.layer_norm_eps)
        self.drop = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, texts: Packed) -> Tensor:
        x = self.word_embeddings(texts.ids) + self.token_type_embeddings.weight[0]
        x = x + self.position_embeddings(texts.places)
        if torch.is_autocast_enabled(x.device.type):
            x = x.to(torch.get_autocast_dtype(x.device.type))
        return self.drop(self.LayerNorm(x))


class SelfAttention(nn.Module):
    """Queries, keys and values of all heads. There is no dropout of attention weights: the kernels
    for packed texts have none."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.n_heads = config.num_attention_heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x: Tensor, texts: Packed) -> Tensor:
        q, k, v = (
            part(x).unflatten(1, (self.n_heads, -1)) for part in (self.query, self.key, self.value)
        )  # (t, heads, d / heads)
        return attend_within_texts(q, k, v, texts).flatten(1)  # (t, d)


def attend_within_texts(q: Tensor, k: Tensor, v: Tensor, texts: Packed) -> Tensor:
    """Return (t, heads, d): scaled dot-product attention of each piece over its own text."""
    if q.is_cuda and q.dtype in (torch.float16, torch.bfloat16):
        return _attend_packed(q, k, v, texts)
    starts, lengths = texts.offsets[:-1], texts.lengths
    q, k, v = (pad_rows(x, starts, lengths, texts.longest).transpose(1, 2) for x in (q, k, v))
    is_inside = torch.arange(texts.longest, device=q.device) < lengths[:, None]  # (m, t)
    z = F.scaled_dot_product_attention(q, k, v, attn_mask=is_inside[:, None, None])
    return z.transpose(1, 2)[is_inside]


def _attend_packed(q: Tensor, k: Tensor, v: Tensor, texts: Packed) -> Tensor:
    from torch.nn.attention.varlen import varlen_attn  # here: it takes time, and needs a GPU

    offsets, longest = texts.offsets, texts.longest
    z = varlen_attn(q, k, v, offsets, offsets, longest, longest)
    assert isinstance(z, Tensor)  # a pair only where the sums of weights are asked for
    return z


class AddAndNorm(nn.Module):
    """A linear map whose result is added to the input of the block and normalised."""

    def __init__(self, n_inputs: int, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(n_inputs, config.hidden_size)
        self.LayerNorm = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.drop = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, x: Tensor, before: Tensor) -> Tensor:
        return self.LayerNorm(self.drop(self.dense(x)) + before)


class Attention(nn.Module):
    """Self-attention with its linear map."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.self = SelfAttention(config)
        self.output = AddAndNorm(config.hidden_size, config)

    def forward(self, x: Tensor, texts: Packed) -> Tensor:
        return self.output(self.self(x, texts), x)


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

    def forward(self, x: Tensor, texts: Packed) -> Tensor:
        x = self.attention(x, texts)
        return self.output(self.intermediate(x), x)


class Layers(nn.Module):
    """All layers, one after another."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.layer = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))

    def forward(self, x: Tensor, texts: Packed) -> Tensor:
        for layer in self.layer:
            x = layer(x, texts)
        return x


class Bert(nn.Module):
    """Encodes the pieces of packed texts into one state each, (t, d)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.width = config.hidden_size
        self.embeddings = Embeddings(config)
        self.encoder = Layers(config)

    def forward(self, texts: Packed) -> Tensor:
        return self.encoder(self.embeddings(texts), texts)  # (t, d)

"""The costly layers of our networks on a GPU, each beside the plain form, in one run.

    python bench/gpu_layers.py [attention encoder levels shapes pooling]

Label attention: forward, backward and BCE of one batch, up to the logits; "paper" attends to the
LSTM's states and applies the fully connected layer to what each label read. Errors: distance of the
logits, and of the gradient of the queries, from those of float64 on the same inputs, relative.
Encoder: forward and backward of a BiLSTM. Levels: the same of one BiLSTM a level of `levelwise`.
Shapes: the same of our kernel for them, by what one of its programs does at once. Pooling: chunk
maxima of a level, by PyTorch's segment_reduce and by our kernel.
Prints a Markdown table each; milliseconds are medians of 20 batches, memory is the peak above the
inputs. Needs a CUDA device.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.models.layers.label_attention import (
    compile_flat_logits,
    compute_attention,
    compute_flat_logits,
)
from ontodex.models.layers.recurrent import BiLSTM

Form = Callable[[Sequence[BiLSTM], Sequence[Tensor], Tensor], list[Tensor]]
GIB = 2**30
# The fully connected layer's, the same everywhere: it keeps values off the corner of ReLU, where
# rounding flips a gradient in any form.
BIAS = 0.5
SIZES = [  # documents, tokens, labels, keys, values
    (256, 500, 3_956, 512, 256),
    (64, 500, 30_938, 512, 256),
    (128, 300, 13_330, 1_024, 256),
    (128, 500, 4_108, 1_024, 512),
]
LEVELS = [  # levels, documents, tokens, width, units
    (4, 256, 500, 384, 256),
    (7, 128, 150, 384, 256),
    (1, 256, 300, 384, 256),
    (1, 128, 300, 384, 256),
    (1, 128, 300, 256, 512),
]
POOLS = [  # documents, tokens, features, numbers of chunks
    (256, 300, 512, [1, 2, 3, 4]),
    (128, 150, 512, [1, 2, 3, 4, 5, 7, 8]),
]
SHAPES = {  # units: for each kernel, rows, depth, warps, stages of a program
    256: {
        "FORWARD": [(16, 32, 8, 3), (32, 32, 8, 3), (32, 16, 8, 4)],
        "BACKWARD": [(16, 64, 8, 4), (32, 64, 8, 4), (32, 32, 8, 4)],
    },
    512: {
        "FORWARD": [(16, 16, 8, 3), (16, 16, 8, 4), (32, 16, 16, 3)],
        "BACKWARD": [(16, 64, 8, 3), (16, 32, 8, 4), (32, 32, 16, 4)],
    },
}
RECURRENCES = {256: (4, 300, 256), 512: (1, 300, 128)}  # BiLSTMs, steps, sequences, by units


@dataclass
class Problem:
    """One batch and one set of label parameters."""

    h: Tensor
    mask: Tensor
    gold: Tensor
    queries: Tensor
    project: Tensor
    output: Tensor

    @classmethod
    def of(cls, n: int, t: int, labels: int, d: int, v: int) -> Problem:
        torch.manual_seed(0)
        return cls(
            h=torch.randn(n, t, d, device="cuda") * 0.3,
            mask=torch.arange(t, device="cuda")
            < torch.randint(t // 2, t + 1, (n, 1), device="cuda"),
            gold=(torch.rand(n, labels, device="cuda") < 0.002).float(),
            queries=torch.randn(labels, d, device="cuda") * 0.2,
            project=torch.randn(v, d, device="cuda") * d**-0.5,
            output=torch.randn(labels, v, device="cuda") * 0.05,
        )

    def to(self, dtype: torch.dtype) -> Problem:
        leaves = (self.h, self.queries, self.project, self.output)
        h, queries, project, output = (x.detach().to(dtype).requires_grad_() for x in leaves)
        return Problem(h, self.mask, self.gold, queries, project, output)


def paper(p: Problem) -> Tensor:
    """Attend to the states, then the fully connected layer, label by label."""
    m = torch.bmm(compute_attention(p.h, p.queries, p.mask), p.h)  # (n, l, d)
    return (F.relu(F.linear(m, p.project) + BIAS) * p.output).sum(-1)


def eager(p: Problem) -> Tensor:
    return compute_flat_logits(p.h, F.linear(p.h, p.project) + BIAS, p.queries, p.output, p.mask)


def ours(p: Problem) -> Tensor:
    return compile_flat_logits()(p.h, F.linear(p.h, p.project) + BIAS, p.queries, p.output, p.mask)


FORMS: list[tuple[str, Callable[[Problem], Tensor], torch.dtype]] = [
    ("paper, fp32", paper, torch.float32),
    ("paper, bf16", paper, torch.bfloat16),
    ("re-associated, bf16", eager, torch.bfloat16),
    ("the same, compiled, bf16", ours, torch.bfloat16),
    ("the same, compiled, fp16", ours, torch.float16),
]


def backward(form: Callable[[Problem], Tensor], p: Problem) -> tuple[Tensor, Tensor]:
    """(logits, gradient of the queries)."""
    for leaf in (p.h, p.queries, p.project, p.output):
        leaf.grad = None
    # Summed over labels and scaled as in training, so that half precision has numbers to hold.
    logits = form(p).to(torch.promote_types(p.h.dtype, torch.float32))
    gold = p.gold.to(logits.dtype)
    F.binary_cross_entropy_with_logits(logits, gold, reduction="sum").backward()
    assert p.queries.grad is not None
    return logits.detach(), p.queries.grad


def measure(work: Callable[[], object], repeat: int = 20) -> tuple[float, float]:
    """(median milliseconds, peak GiB above what was held before)."""
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    held = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(repeat + 1)]
    events[0].record()
    for event in events[1:]:
        work()
        event.record()
    torch.cuda.synchronize()
    times = sorted(a.elapsed_time(b) for a, b in pairwise(events))
    return times[repeat // 2], (torch.cuda.max_memory_allocated() - held) / GIB


def label_attention_table() -> None:
    say("| documents, tokens, labels, keys, values | form | ms | x | GiB | logits | gradient |")
    say("|---|---|---|---|---|---|---|")
    for size in SIZES:
        problem = Problem.of(*size)
        small = Problem.of(16, *size[1:])  # float64 of the whole batch would not fit
        first = 0.0
        for name, form, dtype in FORMS:
            rounded = small.to(dtype)
            exact = backward(paper, rounded.to(torch.float64))
            errors = " | ".join(
                f"{float((found.double() - true).norm() / true.norm()):.1e}"
                for found, true in zip(backward(form, rounded), exact, strict=True)
            )
            torch.compiler.reset()
            batch = problem.to(dtype)
            ms, gib = measure(partial(backward, form, batch))
            first = first or ms
            sizes = ", ".join(f"{x:,}" for x in size)
            say(f"| {sizes} | {name} | {ms:.1f} | {first / ms:.1f} | {gib:.1f} | {errors} |")
            del batch
            torch.cuda.empty_cache()


class OneCall(nn.Module):
    """The usual code: one bidirectional LSTM over packed sequences."""

    def __init__(self, width: int, units: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, units, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        rows = nn.utils.rnn.pack_padded_sequence(
            x, lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        return self.lstm(rows)[0].data


def encode_and_back(encoder: nn.Module, x: Tensor, lengths: Tensor, dtype: torch.dtype) -> None:
    with torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
        h = encoder(x, lengths)
    h.float().mean().backward()


def encoder_table() -> None:
    say("| documents, tokens, width, units | form | ms | x | GiB |")
    say("|---|---|---|---|---|")
    for n, t, width, units in [(128, 500, 128, 256), (128, 500, 256, 512)]:
        x = torch.randn(n, t, width, device="cuda", requires_grad=True)
        lengths = torch.randint(t // 2, t + 1, (n,), device="cuda")
        plain, ours = OneCall(width, units).cuda(), BiLSTM(width, units).cuda()
        first = 0.0
        for name, encoder, dtype in [
            ("one bidirectional call, packed, fp32", plain, torch.float32),
            ("one bidirectional call, packed, bf16", plain, torch.bfloat16),
            ("two one-way calls, fp16", ours, torch.bfloat16),
        ]:
            ms, gib = measure(partial(encode_and_back, encoder, x, lengths, dtype))
            first = first or ms
            sizes = f"{n}, {t}, {width}, {units}"
            say(f"| {sizes} | {name} | {ms:.1f} | {first / ms:.1f} | {gib:.1f} |")


def one_by_one(encoders: Sequence[BiLSTM], x: Sequence[Tensor], lengths: Tensor) -> list[Tensor]:
    return [encoder(one, lengths) for encoder, one in zip(encoders, x, strict=True)]


class InStreams:
    """Each level in a stream of the GPU that is its own."""

    def __init__(self, levels: int) -> None:
        self.streams = [torch.cuda.Stream() for _ in range(levels)]

    def __call__(
        self, encoders: Sequence[BiLSTM], x: Sequence[Tensor], lengths: Tensor
    ) -> list[Tensor]:
        here, encoded = torch.cuda.current_stream(), []
        for stream, encoder, one in zip(self.streams, encoders, x, strict=True):
            stream.wait_stream(here)
            with torch.cuda.stream(stream):
                encoded.append(encoder(one, lengths))
        for stream in self.streams:
            here.wait_stream(stream)
        return encoded


def levels_and_back(
    form: Form, encoders: Sequence[BiLSTM], x: Sequence[Tensor], lengths: Tensor
) -> None:
    with torch.autocast("cuda", torch.bfloat16):
        encoded = form(encoders, x, lengths)
    torch.stack([h.float().mean() for h in encoded]).sum().backward()


def levels_table() -> None:
    from ontodex.models.kernels.lstm import encode_together

    def side_by_side(encoders: Sequence[BiLSTM], x: Sequence[Tensor], n: Tensor) -> list[Tensor]:
        return encode_together(encoders, torch.stack([y.transpose(0, 1) for y in x], dim=2), n)

    say("| levels, documents, tokens, width, units | form | ms | x | GiB |")
    say("|---|---|---|---|---|")
    for levels, n, t, width, units in LEVELS:
        x = [torch.randn(n, t, width, device="cuda", requires_grad=True) for _ in range(levels)]
        lengths = torch.randint(t // 2, t + 1, (n,), device="cuda")
        encoders = [BiLSTM(width, units).cuda() for _ in range(levels)]

        forms: dict[str, Form] = {
            "one by one, cuDNN": one_by_one,
            "in streams of their own, cuDNN": InStreams(levels),
            "side by side, one kernel": side_by_side,
        }
        first = 0.0
        for name, form in forms.items():
            ms, gib = measure(partial(levels_and_back, form, encoders, x, lengths))
            first = first or ms
            sizes = f"{levels}, {n}, {t}, {width}, {units}"
            say(f"| {sizes} | {name} | {ms:.1f} | {first / ms:.1f} | {gib:.1f} |")


def shapes_table() -> None:
    from ontodex.models.kernels import lstm

    say("| units, BiLSTMs, steps, sequences | kernel | rows, depth, warps, stages | ms, both | x |")
    say("|---|---|---|---|---|")
    for units, (levels, t, n) in RECURRENCES.items():
        gates = torch.randn(levels, t, n, 8 * units, device="cuda").half().requires_grad_()
        weight = (torch.randn(levels, 2, 4 * units, units, device="cuda") / units**0.5).half()
        lengths = torch.full((n,), t, device="cuda")

        def work(gates: Tensor = gates, weight: Tensor = weight, lengths: Tensor = lengths) -> None:
            h = lstm.Recurrence.apply(gates, weight, lengths, True)
            torch.autograd.grad(h, gates, torch.ones_like(h))

        for kernel, shapes in SHAPES[units].items():
            table, first = getattr(lstm, kernel), 0.0
            ours = table[units]
            for shape in shapes:
                table[units] = (lstm.Shape(*shape),)
                ms, _ = measure(work)
                first = first or ms
                mark = ", ours" * (shape == ours[0])
                sizes = f"{units}, {levels}, {t}, {n}"
                say(f"| {sizes} | {kernel.lower()} | {shape}{mark} | {ms:.1f} | {first / ms:.1f} |")
            table[units] = ours


def pool_and_back(pool: Callable[[], Tensor]) -> None:
    pool().float().sum().backward()


def pooling_table() -> None:
    from ontodex.models.levelwise.pooling import (
        Chunks,
        compute_chunk_maxima,
        compute_segment_maxima,
    )

    say("| documents, tokens, features, chunks | form | ms | x | GiB |")
    say("|---|---|---|---|---|")
    for n, t, d, parts in POOLS:
        x = torch.randn(n, t, d, device="cuda").half().requires_grad_()
        lengths = torch.randint(t // 2, t + 1, (n,), device="cuda")
        chunks, first = Chunks(parts, Chunks.of(parts).table.cuda()), 0.0
        for name, form in (
            ("segment_reduce", compute_segment_maxima),
            ("one kernel", compute_chunk_maxima),
        ):
            ms, gib = measure(partial(pool_and_back, partial(form, x, lengths, chunks)))
            first = first or ms
            say(f"| {n}, {t}, {d}, {parts} | {name} | {ms:.2f} | {first / ms:.1f} | {gib:.1f} |")


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


TABLES = {
    "attention": label_attention_table,
    "encoder": encoder_table,
    "levels": levels_table,
    "shapes": shapes_table,
    "pooling": pooling_table,
}

if __name__ == "__main__":
    say(f"{torch.cuda.get_device_name()}, torch {torch.__version__}\n")
    for table in sys.argv[1:] or TABLES:
        TABLES[table]()
        say("")

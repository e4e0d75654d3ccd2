"""The time of one document with `attentive-bert` on one CPU core, in fp32 and with int8 weights.

    python bench/pretrained_latency.py encoders/minilm --labels 4108

The encoder is real; read-out and bag have random weights, which take as long as trained ones. Times
are processor seconds, so that other work on the machine counts less. Prints a Markdown table. Then
the network is saved, and a process of its own loads it and ranks texts, words and all.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ontodex.features.vocabulary import EncodedTexts, Vocabulary
from ontodex.models.attentive_bert.config import AttentiveBertConfig
from ontodex.models.attentive_bert.network import AttentiveBert
from ontodex.models.attentive_bert.reader import EncodedDocuments
from ontodex.models.attentive_bert.system import AttentiveBertSystem
from ontodex.models.layers.bert import Bert
from ontodex.models.layers.ragged import Ragged
from ontodex.models.pretrained import PretrainedEncoder, load_encoder

WORDS = 53_000
REPEATS = 7


class Int8Linear(nn.Module):
    """A linear layer with int8 weights; its input is quantised as it comes."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        weight = layer.weight.detach()
        scales = weight.abs().amax(dim=1).clamp(min=1e-8).double() / 127
        zeros = torch.zeros(len(weight), dtype=torch.int64)
        quantised = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
        self.packed: Any = torch.ops.quantized.linear_prepack(quantised, layer.bias.detach())

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = torch.ops.quantized.linear_dynamic(x, self.packed)
        return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("encoder", type=Path)
    parser.add_argument("--labels", type=int, default=4_108)
    given = parser.parse_args()
    torch.set_num_threads(1)
    began = time.process_time()
    encoder = load_encoder(given.encoder)
    network = AttentiveBert(
        AttentiveBertConfig(encoder="x"), encoder.config, WORDS, torch.zeros(given.labels)
    ).eval()
    network.encode.load_state_dict(encoder.network.state_dict())
    say(f"building the network: {time.process_time() - began:.1f} s\n")
    say("| pieces | documents | fp32 ms | of it encoder | int8 encoder ms | documents a second |")
    say("|---:|---:|---:|---:|---:|---:|")
    quantised = quantise(load_encoder(given.encoder).network)
    with torch.inference_mode():
        for pieces, documents in ((128, 1), (512, 1), (1_024, 1), (512, 8)):
            batch = make_documents(pieces, documents).pad(np.arange(documents))
            whole = measure(partial(network, *batch))
            part = measure(partial(network.encode, batch[0]))
            small = measure(partial(quantised, batch[0]))
            say(
                f"| {pieces} | {documents} | {whole:.0f} | {part:.0f} | {small:.0f} "
                f"| {1e3 * documents / whole:.1f} |"
            )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    say(f"\npeak of memory, both networks: {peak:.2f} GiB\n")
    with tempfile.TemporaryDirectory() as folder:
        save(network, encoder, Path(folder))
        subprocess.run([sys.executable, "-c", LOAD, folder, str(given.labels)], check=True)


def save(network: AttentiveBert, encoder: PretrainedEncoder, folder: Path) -> None:
    """Write the network as a run folder has it."""
    system = AttentiveBertSystem(AttentiveBertConfig(encoder="x", lemmas=""))
    system.network, system.n_labels = network, len(network.read_out.bias)
    system.reader.shape, system.reader.word_pieces = encoder.config, encoder.pieces
    words = ("", "", *(f"word{number}" for number in range(WORDS - 2)))
    system.reader.words.vocabulary = Vocabulary(words)
    system.save(folder)


LOAD = """
import sys, time
import numpy as np, torch
from pathlib import Path
from ontodex.models.attentive_bert.system import AttentiveBertSystem
from ontodex.types import Corpus, Doc, LabelSpace
torch.set_num_threads(1)
def measure():  # resident now; the peak of a new process counts that of its parent
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 2**10 for line in lines if line.startswith("VmRSS"))
imported, began = measure(), time.process_time()
labels = LabelSpace(tuple(map(str, range(int(sys.argv[2])))), np.ones(int(sys.argv[2]), int), 9)
system = AttentiveBertSystem.load(Path(sys.argv[1]), labels)
print(f"imports {began:.1f} s, {imported:.0f} MB; load {time.process_time() - began:.1f} s")
text = "the law of the sea " * 120
for n in (1, 1, 16):
    began = time.process_time()
    system.rank(Corpus.of([Doc(str(i), {"text": text}) for i in range(n)]), 10)
    print(f"{n} texts of 600 words: {time.process_time() - began:.2f} s, {measure():.0f} MB")
"""


def quantise(network: Bert) -> Bert:
    """Give the linear layers of an encoder int8 weights."""
    for name, layer in list(network.named_modules()):
        if isinstance(layer, nn.Linear):
            network.set_submodule(name, Int8Linear(layer))
    return network


def make_documents(pieces: int, documents: int) -> EncodedDocuments:
    """Return random documents of one length."""
    ids = np.random.default_rng(1).integers(1_000, 30_000, pieces * documents).astype(np.int32)
    rows = EncodedTexts(ids, np.arange(documents + 1) * pieces)
    cpu = torch.device("cpu")
    return EncodedDocuments(Ragged(rows, cpu), Ragged(rows, cpu), 512)


def measure(work: Callable[[], Tensor]) -> float:
    """Return the median of processor milliseconds."""
    work()
    taken = []
    for _ in range(REPEATS):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return 1e3 * float(np.median(taken))


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

"""The network of the hierarchical pointer generator (Deep Level-wise XMLC, section 2.2, Figure 3).

    predicted labels ─ vectors ─ BiLSTM ─ attention x level attention ─ copy ─┐
        (n,c)          (n,c,e)   (n,c,e)      (n,s,c)     x prior             ├─ x gate ─ p_L
    labels so far ──── vectors ─ LSTM ─── vocabulary ──────────── generate ───┘      (n,s,l+1)
        (n,s)          (n,s,e)   (n,s,d)  (n,s,l+1)

The prior is ours. Targets have their labels in one order, so the next label is the first true one
of those not yet passed. Its probability is known if labels are independent; the network learns
where they are not.

Axes besides those of models/layers: c predicted labels, m levels (one when the unit is the label),
s steps, or beams in decoding. Column l is the stop symbol, whose vector also starts a sequence. Our
reading of what the paper leaves open: docs/papers/levelwise.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import csr_array
from torch import Tensor, nn

from ontodex.models.layers.recurrent import BiLSTM

if TYPE_CHECKING:
    from ontodex.models.levelwise.config import PointerConfig
    from ontodex.models.levelwise.pointer import Hierarchy

FAR = -1e4  # masks a score; finite, so that a row without labels has no NaN
SMALLEST = 1e-30  # probabilities are clamped to this before log


class Candidates(NamedTuple):
    """The predicted labels of a batch."""

    columns: Tensor  # (n, c), the stop symbol at padding
    probabilities: Tensor  # (n, c)
    member: Tensor  # (n, c, m): 1 where a label belongs to a level; all 0 at padding
    longest: int  # most labels of one document in one level

    @property
    def mask(self) -> Tensor:
        return self.member.sum(-1) > 0  # (n, c)


class PriorTerms(NamedTuple):
    """Log-probabilities of independent predicted labels, in the order of targets."""

    taken: Tensor  # (n, c): log p
    left: Tensor  # (n, c + 1): log of leaving out all labels before it


class EncodedCandidates(NamedTuple):
    """The encoded input of a batch, which no step changes."""

    candidates: Candidates
    h: Tensor  # (n, c, e) encoder states
    keys: Tensor  # (n, c, e) keys of the label attention
    level_keys: Tensor  # (n, m, e)
    log_gate: Tensor  # (n, l + 1)
    odds: PriorTerms


class DecoderState(NamedTuple):
    """The state of the decoder after some steps."""

    s: Tensor  # (n, s, d)
    cell: Tensor  # (n, s, d)
    context: Tensor  # (n, s, e)
    coverage: Tensor  # (n, s, c): attention over each predicted label so far

    def take(self, beams: Tensor) -> DecoderState:
        """Return the states of these beams (n, s) of each document."""
        return DecoderState(
            *(x.gather(1, beams[:, :, None].expand(-1, -1, x.shape[2])) for x in self)
        )


class DecoderSteps(NamedTuple):
    """The results of all steps over known labels."""

    s: Tensor  # (n, s, d)
    context: Tensor  # (n, s, e)
    attention: Tensor  # (n, s, c)
    end: Tensor  # (n, s): the log-odds that what is copied is the stop symbol
    y: Tensor  # (n, s, e) vectors of the labels before
    floor: Tensor  # (n, s): labels up to this rank can no longer follow


class LevelEncoder(nn.Module):
    """One BiLSTM over the predicted labels of each level, as separate sequences.

    The BiLSTM output is added to the vector of the label, so that labels differ from the start.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.read = BiLSTM(width, width // 2)

    def forward(self, x: Tensor, candidates: Candidates) -> Tensor:
        n, c, m = candidates.member.shape
        counts = candidates.member.sum(1).long()  # (n, m)
        starts = counts.cumsum(1) - counts
        place = torch.arange(candidates.longest, device=x.device)
        source = (starts[:, :, None] + place).clamp(max=c - 1).view(n, -1)  # (n, m * longest)
        by_level = _gather(x, source).view(n * m, candidates.longest, -1)
        h = self.read(by_level, counts.view(-1)).to(x.dtype).view(n, m * candidates.longest, -1)
        level = candidates.member.argmax(2)  # (n, c)
        back = torch.arange(c, device=x.device) - starts.gather(1, level)
        back = (level * candidates.longest + back).clamp(max=h.shape[1] - 1)
        return (x + _gather(h, back)) * candidates.mask[:, :, None]  # (n, c, e)


class AdditiveAttention(nn.Module):
    """e_i = v . tanh(W_h h_i + W_s s + w_k k_i + b_attn), k_i the coverage of i (2.2.1, 2.2.3)."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.keys = nn.Linear(width, width)  # W_h and b_attn, applied once a document
        self.query = nn.Linear(hidden, width, bias=False)  # W_s
        self.cover = nn.Parameter(torch.zeros(width))  # w_k
        self.v = nn.Linear(width, 1, bias=False)

    def forward(self, keys: Tensor, s: Tensor, coverage: Tensor) -> Tensor:
        inner = keys[:, None] + self.query(s)[:, :, None]  # (n, s, c, e)
        return self.v(torch.tanh(inner + coverage[..., None] * self.cover)).squeeze(-1)  # (n, s, c)


class LevelAttention(nn.Module):
    """Attention over all predicted labels, rescaled by an attention over their levels (2.2.1)."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.labels = AdditiveAttention(width, hidden)
        self.levels = AdditiveAttention(width, hidden)

    def compute_keys(self, h: Tensor, candidates: Candidates) -> tuple[Tensor, Tensor]:
        """Return the keys of labels and levels; the state of a level is the mean of its labels."""
        sums = torch.einsum("nce,ncm->nme", h, candidates.member)
        counts = candidates.member.sum(1).clamp(min=1)[:, :, None]
        return self.labels.keys(h), self.levels.keys(sums / counts)

    def forward(self, encoded: EncodedCandidates, s: Tensor, coverage: Tensor) -> Tensor:
        """Return the unnormalised log weights (n, s, c); FAR at padding."""
        member, mask = encoded.candidates.member, encoded.candidates.mask[:, None]
        level_coverage = torch.einsum("nsc,ncm->nsm", coverage, member)  # Eq. 7
        scores = self.levels(encoded.level_keys, s, level_coverage)  # (n, s, m)
        occupied = member.sum(1)[:, None] > 0
        log_level = scores.masked_fill(~occupied, FAR).log_softmax(-1)
        # A label's weight times its level's, renormalised, is one softmax over summed logarithms.
        e = self.labels(encoded.keys, s, coverage)
        e = e + torch.einsum("nsm,ncm->nsc", log_level, member)
        return e.masked_fill(~mask, FAR)


class Prior(nn.Module):
    """The next label if all predicted labels were independent (ours).

    It is the first true label of those not yet passed; if none is true, the stop symbol.
    """

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.shift = nn.Parameter(torch.zeros(()))

    def compute_terms(self, candidates: Candidates) -> PriorTerms:
        logits = self.scale * torch.logit(candidates.probabilities, eps=1e-4) + self.shift
        left = F.logsigmoid(-logits).masked_fill(~candidates.mask, 0.0)
        return PriorTerms(F.logsigmoid(logits), F.pad(left.cumsum(1), (1, 0)))

    def forward(self, odds: PriorTerms, passed: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log-probabilities of each label (n, s, c) and of stopping (n, s).

        `passed` (n, s, c) marks the labels already passed.
        """
        left = odds.left[:, None].expand(-1, passed.shape[1], -1)
        since = left.gather(2, passed.sum(-1, keepdim=True))  # (n, s, 1)
        ahead = (odds.taken[:, None] + left[:, :, :-1] - since).masked_fill(passed, FAR)
        return ahead, (left[:, :, -1:] - since)[..., 0]


class NoPrior(nn.Module):
    """No prior, as in the paper: any label may follow, and the stop symbol is never copied."""

    def compute_terms(self, candidates: Candidates) -> PriorTerms:
        p = torch.zeros_like(candidates.probabilities)
        return PriorTerms(p, F.pad(p, (1, 0)))

    def forward(self, odds: PriorTerms, passed: Tensor) -> tuple[Tensor, Tensor]:
        none = torch.zeros_like(passed, dtype=odds.taken.dtype)
        return none, none.new_full(passed.shape[:2], 2 * FAR)


class AncestorGate(nn.Module):
    """log g of every label (Eq. 6): a product over its distinct ancestors a.

    A factor is sigma(b + e_a . h_a) where a was predicted, else sigma(b). Roots and the stop symbol
    have g = 1.
    """

    def __init__(self, form: str, ancestors: csr_array) -> None:
        super().__init__()
        self.form = GATES[form]
        self.bias = nn.Parameter(torch.tensor(2.0))  # almost open at first
        coo = ancestors.tocoo()
        places = torch.from_numpy(np.stack([coo.row, coo.col]).astype(np.int64))
        ones = torch.ones(places.shape[1], device="cpu")  # never on "meta"
        # A checkpoint cannot hold sparse tensors, so this is no buffer; `_apply` moves it.
        self.above = torch.sparse_coo_tensor(
            places, ones, ancestors.shape, check_invariants=True, device="cpu"
        ).coalesce()
        count = torch.from_numpy(np.diff(ancestors.indptr)).float()
        self.register_buffer("count", count, persistent=False)
        self.count: Tensor

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        # Moved in forward, it could become an inference tensor.
        self.above = fn(self.above)
        return super()._apply(fn, recurse)

    def forward(self, h: Tensor, e: Tensor, candidates: Candidates) -> Tensor:
        default = F.logsigmoid(self.bias)
        own = F.logsigmoid(self.bias + (e * h).sum(-1)) - default  # (n, c)
        n_labels = len(self.count)
        known = own.new_zeros(len(own), n_labels + 1).scatter(
            1, candidates.columns, own * candidates.mask
        )
        log_path = self.count * default + torch.sparse.mm(self.above, known[:, :n_labels].T).T
        return F.pad(self.form(log_path, self.count), (0, 1))  # (n, l + 1)


def _gate_path(log_path: Tensor, count: Tensor) -> Tensor:
    """Return log of the product: g falls with every missing ancestor."""
    return log_path


def _gate_as_printed(log_path: Tensor, count: Tensor) -> Tensor:
    """Return log of 1 - the product, as printed in the paper: g falls with likelier ancestors."""
    return torch.where(count > 0, torch.log(-torch.expm1(log_path.clamp(max=-1e-6))), 0.0)


def _gate_open(log_path: Tensor, count: Tensor) -> Tensor:
    """Return log 1: no gate."""
    return torch.zeros_like(log_path)


GATES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "path": _gate_path,
    "printed": _gate_as_printed,
    "off": _gate_open,
}


class PointerNetwork(nn.Module):
    """The network of Figure 3."""

    def __init__(
        self, config: PointerConfig, hierarchy: Hierarchy, vectors: Tensor | None = None
    ) -> None:
        super().__init__()
        n_labels, width, hidden = len(hierarchy.level), config.embedding, config.hidden
        self.stop, self.is_ordered = n_labels, config.order == "forward"
        rank = torch.from_numpy(np.append(hierarchy.rank, n_labels))  # the stop symbol ranks last
        self.register_buffer("rank", rank, persistent=False)
        self.rank: Tensor
        self.labels = nn.Embedding(n_labels + 1, width)
        self.probability = nn.Linear(2, width)
        self.encode = LevelEncoder(width)
        self.attend = LevelAttention(width, hidden)
        self.prior = Prior() if self.is_ordered else NoPrior()
        self.end = nn.Linear(hidden, 1)
        self.begin = nn.Linear(width, 2 * hidden)
        self.decode = nn.LSTMCell(2 * width, hidden)
        self.switch = nn.Linear(2 * width + hidden, 1)
        self.reduce = nn.Linear(width + hidden, width)
        self.vocabulary = nn.Linear(width, n_labels + 1)
        self.gate = AncestorGate(config.ancestor_gate, hierarchy.ancestors)
        self.drop = nn.Dropout(config.dropout)
        nn.init.normal_(self.labels.weight, std=0.1)
        nn.init.normal_(self.probability.weight, std=0.1)
        nn.init.normal_(self.vocabulary.weight, std=0.05)
        with torch.no_grad():
            frequency = torch.from_numpy(hierarchy.frequency.astype(np.float32))
            self.vocabulary.bias[:n_labels] = torch.log(frequency + 1)
            self.vocabulary.bias[n_labels] = torch.log(frequency.sum() + 1)
            if vectors is not None:
                self.labels.weight[:n_labels, : vectors.shape[1]] = vectors
            if self.is_ordered:  # at first the network follows the prior
                self.switch.bias.fill_(-3.0)
                for part in (self.attend.labels.v, self.attend.levels.v, self.end):
                    part.weight.mul_(0.1)

    def encode_candidates(self, candidates: Candidates) -> tuple[EncodedCandidates, DecoderState]:
        """Return the encoded predictions, and the state of the decoder before its first step."""
        e = self.labels(candidates.columns)  # (n, c, e)
        p = candidates.probabilities
        features = torch.stack([p, torch.logit(p, eps=1e-4) / 4], dim=-1)  # (n, c, 2)
        h = self.encode(self.drop(e + self.probability(features)), candidates)  # (n, c, e)
        log_gate = self.gate(h, e, candidates)  # (n, l + 1)  Eq. 6
        h = self.drop(h)
        keys, level_keys = self.attend.compute_keys(h, candidates)  # (n, c, e), (n, m, e)
        mean = h.sum(1) / candidates.mask.sum(1, keepdim=True).clamp(min=1)
        s, cell = torch.tanh(self.begin(mean))[:, None].chunk(2, dim=-1)  # (n, 1, d) each
        start = DecoderState(s, cell, torch.zeros_like(mean)[:, None], torch.zeros_like(p)[:, None])
        odds = self.prior.compute_terms(candidates)
        return EncodedCandidates(candidates, h, keys, level_keys, log_gate, odds), start

    def step(
        self, encoded: EncodedCandidates, state: DecoderState, y: Tensor, floor: Tensor
    ) -> tuple[DecoderState, Tensor, Tensor]:
        """Make one step after labels with vectors y (n, s, e) and ranks `floor` (n, s).

        Return the new state, its attention (n, s, c), and the logit of stopping if it copies.
        """
        x = torch.cat([y, state.context], dim=-1).flatten(0, 1)  # (n * s, 2e)
        memory = state.s.flatten(0, 1), state.cell.flatten(0, 1)
        s, cell = (z.view(*y.shape[:2], -1) for z in self.decode(x, memory))  # (n, s, d)
        mask = encoded.candidates.mask[:, None]
        passed = (self.rank[encoded.candidates.columns][:, None] <= floor[:, :, None]) & mask
        ahead, stop = self.prior(encoded.odds, passed)
        e = self.attend(encoded, s, state.coverage) + ahead  # (n, s, c)
        a = e.softmax(-1) * (mask & ~passed)  # (n, s, c)
        end = self.end(s)[..., 0] + stop - e.logsumexp(-1)  # (n, s)
        context = torch.einsum("nsc,nce->nse", a, encoded.h)
        return DecoderState(s, cell, context, state.coverage + a), a, end

    def run_steps(
        self, encoded: EncodedCandidates, state: DecoderState, before: Tensor
    ) -> DecoderSteps:
        """Make all steps after the known labels `before` (n, s)."""
        y, floor = self.drop(self.labels(before)), self.compute_floor(before)  # (n, s, e), (n, s)
        states, attention, ends = [], [], []
        for i in range(before.shape[1]):
            state, a, end = self.step(encoded, state, y[:, i : i + 1], floor[:, i : i + 1])
            states.append(state)
            attention.append(a)
            ends.append(end)
        s, context = (torch.cat([getattr(x, k) for x in states], 1) for k in ("s", "context"))
        return DecoderSteps(s, context, torch.cat(attention, 1), torch.cat(ends, 1), y, floor)

    def shift_right(self, labels: Tensor) -> Tensor:
        """Return the label before each label (n, s); the start symbol before the first."""
        return F.pad(labels[:, :-1], (1, 0), value=self.stop)

    def compute_floor(self, before: Tensor) -> Tensor:
        """Return the rank of the label before (n, s), -1 at the start.

        Targets have their labels in one order, so a label of lower rank can no longer follow.
        """
        if not self.is_ordered:
            return torch.full_like(before, -1)
        return self.rank[before].masked_fill(before == self.stop, -1)

    def generate(self, steps: DecoderSteps) -> tuple[Tensor, Tensor]:
        """Return the logit of p_gen (n, s) and vocabulary logits (n, s, l + 1), Eq. 3 and 5."""
        switch = self.switch(torch.cat([steps.context, steps.s, steps.y], dim=-1)).squeeze(-1)
        read = self.drop(self.reduce(torch.cat([steps.s, steps.context], dim=-1)))
        return switch, self.vocabulary(read)

    def compute_distribution(self, encoded: EncodedCandidates, steps: DecoderSteps) -> Tensor:
        """Return p_L (n, s, l + 1), Eq. 5, times the gate, for labels that can still follow.

        It is not renormalised.
        """
        switch, logits = self.generate(steps)
        p_gen, end = switch.sigmoid()[:, :, None], steps.end.sigmoid()[:, :, None]
        columns = encoded.candidates.columns[:, None].expand_as(steps.attention)
        copied = (1 - p_gen) * (1 - end) * steps.attention
        p = (p_gen * logits.softmax(-1)).scatter_add(2, columns, copied)
        p = torch.cat([p[:, :, :-1], p[:, :, -1:] + (1 - p_gen) * end], dim=-1)
        return p * encoded.log_gate.exp()[:, None] * (self.rank > steps.floor[:, :, None])

    def compute_log_likelihood(
        self, encoded: EncodedCandidates, steps: DecoderSteps, targets: Tensor
    ) -> Tensor:
        """Return log p_L of each target (n, s), renormalised: the terms of Eq. 4.

        The same as `compute_distribution`, with less memory.
        """
        switch, logits = self.generate(steps)
        log_p_gen, log_p_copy = F.logsigmoid(switch), F.logsigmoid(-switch)
        columns, log_gate = encoded.candidates.columns, encoded.log_gate
        everything = logits.logsumexp(-1)
        generated = logits.gather(2, targets[:, :, None]).squeeze(2) - everything
        same = columns[:, None] == targets[:, :, None]
        end, going_on = steps.end.sigmoid(), (-steps.end).sigmoid()
        copied = (steps.attention * same).sum(-1) * going_on + end * (targets == self.stop)
        copied = copied.clamp(min=SMALLEST).log()
        target = torch.logaddexp(log_p_gen + generated, log_p_copy + copied)
        passed = self.rank <= steps.floor[:, :, None]  # (n, s, l + 1)
        gated = (logits + log_gate[:, None]).masked_fill(passed, FAR).logsumexp(-1) - everything
        gate = log_gate.gather(1, columns)[:, None].exp()
        gated_copy = (steps.attention * gate).sum(-1) * going_on + end
        gated_copy = gated_copy.clamp(min=SMALLEST).log()
        total = torch.logaddexp(log_p_gen + gated, log_p_copy + gated_copy)
        return target + log_gate.gather(1, targets) - total

    def forward(self, candidates: Candidates, targets: Tensor, coverage: float) -> Tensor:
        """Return the mean loss of documents with these targets (n, s), -1 after the stop symbol.

        It is minus the logarithm of Eq. 4, plus the coverage loss (section 2.2.3).
        """
        encoded, state = self.encode_candidates(candidates)
        inside = targets >= 0
        known = targets.clamp(min=0)
        steps = self.run_steps(encoded, state, self.shift_right(known))
        covered = F.pad(steps.attention.cumsum(1)[:, :-1], (0, 0, 1, 0))
        repeated = torch.minimum(steps.attention, covered).sum(-1)  # (n, s)
        log_p = self.compute_log_likelihood(encoded, steps, known)
        return ((coverage * repeated - log_p) * inside).sum() / len(targets)


def _gather(x: Tensor, places: Tensor) -> Tensor:
    """Return x (n, a, e) at positions (n, b): (n, b, e)."""
    return x.gather(1, places[:, :, None].expand(-1, -1, x.shape[2]))

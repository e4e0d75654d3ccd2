"""The network of the hierarchical pointer generator (000, section 2.2, Figure 3).

    predicted labels ─ vectors ─ BiLSTM ─ attention x level attention ─ copy ─┐
        (n,c)          (n,c,e)   (n,c,e)      (n,s,c)     x prior             ├─ x gate ─ p_L
    labels so far ──── vectors ─ LSTM ─── vocabulary ──────────── generate ───┘      (n,s,l+1)
        (n,s)          (n,s,e)   (n,s,d)  (n,s,l+1)

The prior is ours: targets have their labels in one order, so the next label is the first that is
true of those not yet passed, and that is known if labels are independent. The rest learns where
they are not.

Axes besides those of parts.py: c predicted labels, m levels (a single one when the unit is the
label), s steps, or beams where several go on at once. Column l is the stop symbol, whose vector
also starts a sequence. Our reading of what the paper leaves open: docs/papers/levelwise.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import csr_array
from torch import Tensor, nn

from ontodex.models.parts import BiLSTM

if TYPE_CHECKING:
    from ontodex.models.pointer import Hierarchy, PointerConfig

FAR = -1e4  # a score that no softmax gives weight; finite, so that a row without labels has no NaN
SMALLEST = 1e-30  # of probabilities whose logarithm is taken


class Candidates(NamedTuple):
    """The predicted labels of a batch."""

    columns: Tensor  # (n, c), the stop symbol at padding
    probabilities: Tensor  # (n, c)
    member: Tensor  # (n, c, m): 1 where a label belongs to a level; all 0 at padding
    longest: int  # most labels of one document in one level

    @property
    def mask(self) -> Tensor:
        return self.member.sum(-1) > 0  # (n, c)


class Odds(NamedTuple):
    """Each predicted label on its own, in the order of targets."""

    taken: Tensor  # (n, c): log p
    left: Tensor  # (n, c + 1): log of leaving out all labels before it


class Encoded(NamedTuple):
    """Everything of a batch that no step changes."""

    candidates: Candidates
    h: Tensor  # (n, c, e) encoder states
    keys: Tensor  # (n, c, e) what attention compares them by
    level_keys: Tensor  # (n, m, e)
    log_gate: Tensor  # (n, l + 1)
    odds: Odds


class State(NamedTuple):
    """Where the decoder is, after some steps."""

    s: Tensor  # (n, s, d)
    cell: Tensor  # (n, s, d)
    context: Tensor  # (n, s, e)
    coverage: Tensor  # (n, s, c): the attention that each predicted label has had so far

    def take(self, beams: Tensor) -> State:
        """The states of these beams (n, s) of each document."""
        return State(*(x.gather(1, beams[:, :, None].expand(-1, -1, x.shape[2])) for x in self))


class Steps(NamedTuple):
    """What all steps of known labels came to."""

    s: Tensor  # (n, s, d)
    context: Tensor  # (n, s, e)
    attention: Tensor  # (n, s, c)
    end: Tensor  # (n, s): the log-odds that what is copied is the stop symbol
    y: Tensor  # (n, s, e) vectors of the labels before
    floor: Tensor  # (n, s): a label that ranks no higher than this cannot come any more


class LevelEncoder(nn.Module):
    """Each level's predicted labels as a sequence of its own; one BiLSTM reads them all. A label's
    state is what the BiLSTM adds to its own vector: labels stay apart from the first step on."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.read = BiLSTM(width, width // 2)

    def forward(self, x: Tensor, candidates: Candidates) -> Tensor:
        n, c, m = candidates.member.shape
        counts = candidates.member.sum(1).long()  # (n, m)
        starts = counts.cumsum(1) - counts
        place = torch.arange(candidates.longest, device=x.device)
        source = (starts[:, :, None] + place).clamp(max=c - 1).view(n, -1)  # (n, m * longest)
        by_level = _at(x, source).view(n * m, candidates.longest, -1)
        h = self.read(by_level, counts.view(-1)).to(x.dtype).view(n, m * candidates.longest, -1)
        level = candidates.member.argmax(2)  # (n, c)
        back = torch.arange(c, device=x.device) - starts.gather(1, level)
        back = (level * candidates.longest + back).clamp(max=h.shape[1] - 1)
        return (x + _at(h, back)) * candidates.mask[:, :, None]  # (n, c, e)


class Additive(nn.Module):
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
        self.labels = Additive(width, hidden)
        self.levels = Additive(width, hidden)

    def keys(self, h: Tensor, candidates: Candidates) -> tuple[Tensor, Tensor]:
        """What labels and levels are compared by; a level's state is the mean of its labels'."""
        sums = torch.einsum("nce,ncm->nme", h, candidates.member)
        counts = candidates.member.sum(1).clamp(min=1)[:, :, None]
        return self.labels.keys(h), self.levels.keys(sums / counts)

    def forward(self, encoded: Encoded, s: Tensor, coverage: Tensor) -> Tensor:
        """(n, s, c): the logarithms of weights, up to a sum; FAR at padding."""
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
    """What comes next if every predicted label is true by its own probability, whatever the others
    are: of those not yet passed the first that is; if none is, the stop symbol."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.shift = nn.Parameter(torch.zeros(()))

    def odds(self, candidates: Candidates) -> Odds:
        logits = self.scale * torch.logit(candidates.probabilities, eps=1e-4) + self.shift
        left = F.logsigmoid(-logits).masked_fill(~candidates.mask, 0.0)
        return Odds(F.logsigmoid(logits), F.pad(left.cumsum(1), (1, 0)))

    def forward(self, odds: Odds, passed: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithms for each label (n, s, c), and for stopping (n, s), where some have been
        passed (n, s, c)."""
        left = odds.left[:, None].expand(-1, passed.shape[1], -1)
        since = left.gather(2, passed.sum(-1, keepdim=True))  # (n, s, 1)
        ahead = (odds.taken[:, None] + left[:, :, :-1] - since).masked_fill(passed, FAR)
        return ahead, (left[:, :, -1:] - since)[..., 0]


class NoPrior(nn.Module):
    """The paper's: any label may come next, and the stop symbol is never copied."""

    def odds(self, candidates: Candidates) -> Odds:
        p = torch.zeros_like(candidates.probabilities)
        return Odds(p, F.pad(p, (1, 0)))

    def forward(self, odds: Odds, passed: Tensor) -> tuple[Tensor, Tensor]:
        none = torch.zeros_like(passed, dtype=odds.taken.dtype)
        return none, none.new_full(passed.shape[:2], 2 * FAR)


class AncestorGate(nn.Module):
    """log g of every label (Eq. 6), a factor for each of its distinct ancestors a:
    sigma(b + e_a . h_a) where a was predicted, sigma(b) where not. Roots and the stop symbol have
    g = 1."""

    def __init__(self, form: str, ancestors: csr_array) -> None:
        super().__init__()
        self.form = GATES[form]
        self.bias = nn.Parameter(torch.tensor(2.0))  # almost open: learning closes it
        coo = ancestors.tocoo()
        places = torch.from_numpy(np.stack([coo.row, coo.col]).astype(np.int64))
        ones = torch.ones(places.shape[1])
        # Sparse tensors cannot be in a checkpoint, so this is no buffer; `_apply` moves it.
        self.above = torch.sparse_coo_tensor(
            places, ones, ancestors.shape, check_invariants=True
        ).coalesce()
        count = torch.from_numpy(np.diff(ancestors.indptr)).float()
        self.register_buffer("count", count, persistent=False)
        self.count: Tensor

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        # With the module: moved by forward it would belong to inference, if that came first.
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


def _path(log_path: Tensor, count: Tensor) -> Tensor:
    """g = the product: falls with every ancestor that is missing."""
    return log_path


def _printed(log_path: Tensor, count: Tensor) -> Tensor:
    """g = 1 - the product, as printed: falls when ancestors become likelier."""
    return torch.where(count > 0, torch.log(-torch.expm1(log_path.clamp(max=-1e-6))), 0.0)


def _open(log_path: Tensor, count: Tensor) -> Tensor:
    """g = 1: ancestors do not matter."""
    return torch.zeros_like(log_path)


GATES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "path": _path,
    "printed": _printed,
    "off": _open,
}


class PointerNetwork(nn.Module):
    """The network of Figure 3."""

    def __init__(
        self, config: PointerConfig, hierarchy: Hierarchy, vectors: Tensor | None = None
    ) -> None:
        super().__init__()
        n_labels, width, hidden = len(hierarchy.level), config.embedding, config.hidden
        self.stop, self.is_ordered = n_labels, config.order == "forward"
        rank = torch.from_numpy(np.append(hierarchy.rank, n_labels))  # stopping comes last
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
            if self.is_ordered:  # what is learned begins as the prior alone
                self.switch.bias.fill_(-3.0)
                for part in (self.attend.labels.v, self.attend.levels.v, self.end):
                    part.weight.mul_(0.1)

    def encoded(self, candidates: Candidates) -> tuple[Encoded, State]:
        """The predicted labels read, and the decoder before its first step."""
        e = self.labels(candidates.columns)  # (n, c, e)
        p = candidates.probabilities
        features = torch.stack([p, torch.logit(p, eps=1e-4) / 4], dim=-1)  # (n, c, 2)
        h = self.encode(self.drop(e + self.probability(features)), candidates)  # (n, c, e)
        log_gate = self.gate(h, e, candidates)  # (n, l + 1)  Eq. 6
        h = self.drop(h)
        keys, level_keys = self.attend.keys(h, candidates)  # (n, c, e), (n, m, e)
        mean = h.sum(1) / candidates.mask.sum(1, keepdim=True).clamp(min=1)
        s, cell = torch.tanh(self.begin(mean))[:, None].chunk(2, dim=-1)  # (n, 1, d) each
        start = State(s, cell, torch.zeros_like(mean)[:, None], torch.zeros_like(p)[:, None])
        odds = self.prior.odds(candidates)
        return Encoded(candidates, h, keys, level_keys, log_gate, odds), start

    def step(
        self, encoded: Encoded, state: State, y: Tensor, floor: Tensor
    ) -> tuple[State, Tensor, Tensor]:
        """One step after labels with vectors y (n, s, e) and ranks `floor` (n, s): the new state,
        what it attends to, and the log-odds that it stops if it copies."""
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
        return State(s, cell, context, state.coverage + a), a, end

    def steps(self, encoded: Encoded, state: State, before: Tensor) -> Steps:
        """All steps after the known labels `before` (n, s): only what feeds back is in the loop."""
        y, floor = self.drop(self.labels(before)), self.floor(before)  # (n, s, e), (n, s)
        states, attention, ends = [], [], []
        for i in range(before.shape[1]):
            state, a, end = self.step(encoded, state, y[:, i : i + 1], floor[:, i : i + 1])
            states.append(state)
            attention.append(a)
            ends.append(end)
        s, context = (torch.cat([getattr(x, k) for x in states], 1) for k in ("s", "context"))
        return Steps(s, context, torch.cat(attention, 1), torch.cat(ends, 1), y, floor)

    def shifted(self, labels: Tensor) -> Tensor:
        """What stands before each of these labels (n, s): the start, then the labels themselves."""
        return F.pad(labels[:, :-1], (1, 0), value=self.stop)

    def floor(self, before: Tensor) -> Tensor:
        """(n, s): the rank of the label before, -1 at the start. Targets have their labels in one
        order, so what ranks lower than the last one has been left out for good."""
        if not self.is_ordered:
            return torch.full_like(before, -1)
        return self.rank[before].masked_fill(before == self.stop, -1)

    def generating(self, steps: Steps) -> tuple[Tensor, Tensor]:
        """(log-odds of p_gen (n, s), logits of the vocabulary (n, s, l + 1)), Eq. 3 and 5."""
        switch = self.switch(torch.cat([steps.context, steps.s, steps.y], dim=-1)).squeeze(-1)
        read = self.drop(self.reduce(torch.cat([steps.s, steps.context], dim=-1)))
        return switch, self.vocabulary(read)

    def distribution(self, encoded: Encoded, steps: Steps) -> Tensor:
        """p_L (n, s, l + 1): generated or copied, times the gate, of what can still come; not yet
        renormalised."""
        switch, logits = self.generating(steps)
        p_gen, end = switch.sigmoid()[:, :, None], steps.end.sigmoid()[:, :, None]
        columns = encoded.candidates.columns[:, None].expand_as(steps.attention)
        copied = (1 - p_gen) * (1 - end) * steps.attention
        p = (p_gen * logits.softmax(-1)).scatter_add(2, columns, copied)
        p = torch.cat([p[:, :, :-1], p[:, :, -1:] + (1 - p_gen) * end], dim=-1)
        return p * encoded.log_gate.exp()[:, None] * (self.rank > steps.floor[:, :, None])

    def log_likelihood(self, encoded: Encoded, steps: Steps, targets: Tensor) -> Tensor:
        """log p_L of each target (n, s), renormalised: the terms of Eq. 4. The same as
        `distribution`, without ever holding it."""
        switch, logits = self.generating(steps)
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
        """Mean loss of documents with these targets (n, s), -1 after the stop: minus the logarithm
        of Eq. 4, and the coverage loss (2.2.3)."""
        encoded, state = self.encoded(candidates)
        inside = targets >= 0
        known = targets.clamp(min=0)
        steps = self.steps(encoded, state, self.shifted(known))
        covered = F.pad(steps.attention.cumsum(1)[:, :-1], (0, 0, 1, 0))
        repeated = torch.minimum(steps.attention, covered).sum(-1)  # (n, s)
        log_p = self.log_likelihood(encoded, steps, known)
        return ((coverage * repeated - log_p) * inside).sum() / len(targets)


def _at(x: Tensor, places: Tensor) -> Tensor:
    """x (n, a, e) at places (n, b): (n, b, e)."""
    return x.gather(1, places[:, :, None].expand(-1, -1, x.shape[2]))

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from ontodex.errors import RunError
from ontodex.training.checkpoints import read_checkpoint
from ontodex.training.loop import Trainer, TrainingState, fit
from ontodex.types.loop_config import LoopConfig

X = torch.randn(48, 6, generator=torch.Generator().manual_seed(3))
Y = (X[:, :3] + X[:, 3:] > 0).float()


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))


def plan(epoch: int) -> list[np.ndarray]:
    order = np.random.default_rng(epoch).permutation(len(X))
    return [order[i : i + 12] for i in range(0, len(X), 12)]


def train(
    net: nn.Module, config: LoopConfig, folder: Path | None = None, **more: object
) -> TrainingState:
    def loss(rows: np.ndarray) -> torch.Tensor:
        return F.binary_cross_entropy_with_logits(net(X[rows]), Y[rows])

    def score() -> float:
        with torch.no_grad():
            return -float(F.binary_cross_entropy_with_logits(net(X), Y))

    options = {"batches": plan, "loss": loss, "score": score, **more}
    return fit(net, config=config, folder=folder, **options)  # type: ignore[arg-type]


def weights(net: nn.Module) -> list[torch.Tensor]:
    return [p.detach().clone() for p in net.parameters()]


def assert_equal(one: list[torch.Tensor], two: list[torch.Tensor]) -> None:
    for a, b in zip(one, two, strict=True):
        assert torch.equal(a, b)


def test_training_lowers_the_loss():
    net = network()
    before = float(F.binary_cross_entropy_with_logits(net.eval()(X), Y).detach())
    state = train(net.train(), LoopConfig(epochs=40, batch_size=12, lr=0.05, patience=0))
    assert -state.best < 0.3 * before


def test_the_same_seed_gives_the_same_bits_and_another_seed_others():
    nets = [network(), network(), network()]
    for net, seed in zip(nets, (1, 1, 2), strict=True):
        train(net, LoopConfig(epochs=2, batch_size=12, seed=seed))
    assert_equal(weights(nets[0]), weights(nets[1]))
    assert not torch.equal(weights(nets[0])[0], weights(nets[2])[0])


def test_it_ends_with_the_weights_of_the_best_dev_score():
    net = network()
    scores = iter([0.1, 0.9, 0.2, 0.3])
    kept = []

    def score() -> float:
        kept.append(weights(net))
        return next(scores)

    state = train(net, LoopConfig(epochs=4, batch_size=12, patience=0), score=score)
    assert (state.best, state.best_epoch) == (0.9, 1)
    assert_equal(weights(net), kept[1])


def test_patience_stops_training_when_dev_stays_bad():
    scores = iter([0.5, 0.4, 0.3, 0.9])
    state = train(
        network(), LoopConfig(epochs=4, batch_size=12, patience=2), score=lambda: next(scores)
    )
    assert state.epoch == 3


def test_momentum_by_hand():
    """Constant gradient 1 and no decay: the speed is 1, then 1.9, then 2.71 times lr."""
    net = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(net.weight)
    settings = {"optimizer": "sgd", "ema_rate": 0.0, "max_grad_norm": 0.0}
    fit(
        net,
        batches=lambda epoch: [np.array([0])] * 3,
        loss=lambda rows: net.weight.sum(),
        config=LoopConfig(
            epochs=1, batch_size=1, lr=0.1, warmup_steps=1, final_lr_ratio=1.0, **settings
        ),  # type: ignore[arg-type]
    )
    assert net.weight.item() == pytest.approx(-0.1 * (1 + 1.9 + 2.71))


def test_sgd_goes_on_from_its_checkpoint_to_the_same_bits(tmp_path):
    config = LoopConfig(epochs=4, batch_size=12, optimizer="sgd", lr=0.05, patience=0)
    whole, parts, again = network(), network(), network()
    train(whole, config)
    steps = []

    def die_in_the_third_epoch() -> None:
        steps.append(None)
        if len(steps) == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(parts, config, tmp_path, after_step=die_in_the_third_epoch)
    assert train(again, config, tmp_path).epoch == 4
    assert_equal(weights(again), weights(whole))


def test_a_training_that_stops_early_is_the_beginning_of_the_whole(tmp_path):
    config = LoopConfig(epochs=6, batch_size=12, patience=0)
    kept: list[list[torch.Tensor]] = []
    whole, part = network(), network()

    def score() -> float:
        kept.append(weights(whole))
        return 0.0

    train(whole, config, score=score)
    state = train(part, config, score=None, stop=2)
    assert state.epoch == 2
    assert_equal(weights(part), kept[1])


def test_a_batch_in_micro_batches_gives_the_gradient_of_the_whole_batch():
    grads = []
    for micro in (12, 5, 1):
        net = network().eval()
        trainer = Trainer(
            net,
            plan,
            lambda rows, net=net: F.binary_cross_entropy_with_logits(net(X[rows]), Y[rows]),
            LoopConfig(batch_size=12),
        )
        trainer.state.micro = micro
        trainer.compute_gradients(np.arange(12))
        grads.append([p.grad.clone() for p in net.parameters()])
    for other in grads[1:]:
        for a, b in zip(grads[0], other, strict=True):
            torch.testing.assert_close(a, b)


def test_running_out_of_memory_halves_the_micro_batch_and_changes_nothing_else(caplog):
    sizes: list[int] = []

    def limited(net: nn.Module):
        def loss(rows: np.ndarray) -> torch.Tensor:
            sizes.append(len(rows))
            if len(rows) > 6:
                raise torch.cuda.OutOfMemoryError
            return F.binary_cross_entropy_with_logits(net(X[rows]), Y[rows])

        return loss

    config = LoopConfig(epochs=1, batch_size=12, ema_rate=0, patience=0)
    small, whole = network(), network()
    small[2].p = whole[2].p = 0.0  # type: ignore[union-attr, assignment]
    train(small, config, loss=limited(small))
    train(whole, config)
    assert sizes[:3] == [12, 6, 6]
    assert 12 not in sizes[1:]
    for a, b in zip(weights(small), weights(whole), strict=True):
        torch.testing.assert_close(a, b)
    assert "out of GPU memory" in caplog.text


def test_a_step_without_a_finite_gradient_is_skipped_with_a_warning(caplog):
    net = network()
    calls = iter(range(100))

    def loss(rows: np.ndarray) -> torch.Tensor:
        value = F.binary_cross_entropy_with_logits(net(X[rows]), Y[rows])
        return value * float("nan") if next(calls) == 1 else value

    state = train(net, LoopConfig(epochs=1, batch_size=12), loss=loss)
    assert state.skipped == 1
    assert "step 1 skipped: its gradient is not finite" in caplog.text
    assert all(bool(torch.isfinite(w).all()) for w in weights(net))


def test_a_loss_that_is_never_finite_ends_in_a_sentence():
    net = network()
    with pytest.raises(RunError, match="not finite"):
        train(
            net,
            LoopConfig(epochs=50, batch_size=12, patience=0),
            loss=lambda rows: net(X[rows]).sum() * float("nan"),
        )


def test_the_log_has_a_line_an_epoch(tmp_path):
    train(network(), LoopConfig(epochs=3, batch_size=12, lr=0.05, patience=0), tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [0, 1, 2]
    assert lines[2]["loss"] < lines[0]["loss"]


def test_weights_that_outgrow_half_precision_end_in_a_sentence():
    network = nn.Linear(1, 1)
    with pytest.raises(RunError, match=r"diverged: its largest weight is [1-9].*e\+0[5-9]"):
        fit(
            network,
            batches=lambda epoch: [np.arange(2)],
            loss=lambda rows: -network.weight.sum(),
            config=LoopConfig(epochs=2, lr=1e6, ema_rate=0.0, patience=0),
        )


def test_a_checkpoint_of_other_settings_is_refused(tmp_path):
    train(network(), LoopConfig(epochs=1, batch_size=12), tmp_path)
    with pytest.raises(RunError, match="other settings"):
        train(network(), LoopConfig(epochs=2, batch_size=12), tmp_path)


def test_a_checkpoint_may_be_taken_up_with_another_time_between_checkpoints(tmp_path):
    train(network(), LoopConfig(epochs=1, batch_size=12), tmp_path)
    state = train(network(), LoopConfig(epochs=1, batch_size=12, checkpoint_seconds=5), tmp_path)
    assert state.finished


class Died(BaseException):
    """The process ends here."""


def die_after(n_steps: int) -> Callable[[], None]:
    """Return a hook that 'kills' the training after some steps."""
    calls = iter(range(1, 100))

    def die() -> None:
        if next(calls) == n_steps:
            raise Died

    return die


@pytest.mark.parametrize("stop_after", [1, 3, 4, 5, 9])
def test_a_run_stopped_anywhere_and_resumed_is_the_same_run(tmp_path, stop_after):
    """A checkpoint every step, buffers included: batch norm counts what it has seen."""

    def normed() -> nn.Module:
        return nn.Sequential(nn.BatchNorm1d(6), *network())

    config = LoopConfig(epochs=3, batch_size=12, checkpoint_seconds=0, patience=0)
    whole, resumed = normed(), normed()
    train(whole, config)
    with pytest.raises(Died):
        train(normed(), config, tmp_path, after_step=die_after(stop_after))
    train(resumed, config, tmp_path)
    assert_equal(list(resumed.state_dict().values()), list(whole.state_dict().values()))


@pytest.mark.parametrize(("seconds", "step"), [(0, 4), (1000, None)])
def test_a_checkpoint_is_written_when_its_time_has_come(tmp_path, seconds, step):
    config = LoopConfig(epochs=3, batch_size=4, checkpoint_seconds=seconds, patience=0)
    with pytest.raises(Died):
        train(network(), config, tmp_path, after_step=die_after(5))
    saved = (tmp_path / "checkpoint.safetensors").exists()
    assert (read_checkpoint(tmp_path)[1]["state"]["step"] if saved else None) == step


CHILD = """
    import sys
    sys.path.insert(0, sys.argv[1])
    from pathlib import Path
    import torch
    torch.set_num_threads(1)
    from test_loop import LoopConfig, network, train, weights
    from safetensors.torch import save_file
    folder = Path(sys.argv[2])
    net = network()
    config = LoopConfig(epochs=600, batch_size=12, checkpoint_seconds=0.0, patience=0)
    print("ready", flush=True)
    train(net, config, folder)
    save_file({str(i): w for i, w in enumerate(weights(net))}, folder / "final.safetensors")
"""


def child(folder: Path) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-c",
        textwrap.dedent(CHILD),
        str(Path(__file__).parent),
        str(folder),
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


@pytest.mark.slow
def test_killed_many_times_the_weights_are_those_of_an_uninterrupted_run(tmp_path):
    """Saves happen every step, so many kills land inside one."""
    rng = random.Random(4)
    folder = tmp_path / "killed"
    folder.mkdir()
    kills = 0
    while kills < 20:
        process = child(folder)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.01 + 0.12 * rng.random())  # a random moment is the point of this test
        os.kill(process.pid, signal.SIGKILL)
        ended = process.wait()
        process.stdout.close()
        if ended != -signal.SIGKILL:
            break
        kills += 1
    assert kills >= 5, "the training was too short to be killed often"
    last, whole = child(folder), child(tmp_path)
    for process in (last, whole):
        assert process.wait() == 0
        assert process.stdout is not None
        process.stdout.close()
    killed_bytes = (folder / "final.safetensors").read_bytes()
    assert killed_bytes == (tmp_path / "final.safetensors").read_bytes()


@pytest.mark.slow
def test_sigterm_saves_and_exits_143(tmp_path):
    process = child(tmp_path)
    assert process.stdout is not None
    process.stdout.readline()
    while not (tmp_path / "checkpoint.safetensors").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 143
    process.stdout.close()


@pytest.mark.slow
def test_two_processes_learn_what_one_learns(assert_same_in_two_processes):
    assert_same_in_two_processes(
        """
        from test_loop import LoopConfig, network, train, weights
        net = network()
        net[2].p = 0.0  # dropout draws by process
        train(net, LoopConfig(epochs=3, batch_size=12, patience=0, ema_rate=0.0))
        """
    )


def test_the_metrics_of_a_system_are_in_the_log(tmp_path):
    metrics = iter([{"recall": 0.5}, {"recall": 0.75}])
    config = LoopConfig(epochs=2, batch_size=12, patience=0)
    train(network(), config, tmp_path, epoch_metrics=lambda: next(metrics))
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["recall"] for line in lines] == [0.5, 0.75]


def test_each_step_has_the_learning_rate_of_the_schedule(monkeypatch):
    monkeypatch.setattr(LoopConfig, "momentum", 0.0)
    # The loss is the weight itself, so each step of plain SGD lowers it by the learning rate:
    # 20 steps of one epoch, warm-up of 2 steps, then a linear decay towards a tenth.
    net = nn.Linear(1, 1, bias=False).double()
    nn.init.zeros_(net.weight)
    config = LoopConfig(
        epochs=1, optimizer="sgd", weight_decay=0.0, lr=1.0, warmup_steps=100,
        final_lr_ratio=0.1, max_grad_norm=0.0, ema_rate=0.0, patience=0,
    )  # fmt: skip
    fit(net, batches=lambda _: [np.array([0])] * 20, loss=lambda _: net.weight.sum(), config=config)
    decay = sum(1 - 0.9 * step / 20 for step in range(1, 20))
    assert net.weight.item() == pytest.approx(-(0.5 + decay))

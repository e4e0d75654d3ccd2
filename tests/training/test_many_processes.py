"""Every neural system under torchrun: the run of one process, whatever the number of processes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from ontodex.models import MODELS, find_model
from ontodex.runs.run import Run, load
from tiny_encoder import write_tiny_encoder
from train_networks import __file__ as script
from train_networks import make_corpora

# Systems without a training loop, and two that train others of this table.
NOT_NEURAL = {
    "popularity", "lexical", "semantic", "knn", "kernel", "linear", "landmark", "parabel",
    "bonsai", "consensus", "auto",
}  # fmt: skip
NEURAL = [name for name in MODELS if name not in NOT_NEURAL]
SHARDED = [name for name in NEURAL if "shard_labels" in find_model(name).Config.__match_args__]
ENDED = ["attentive", "--checkpoints"]  # the training that is interrupted

pytestmark = pytest.mark.slow

Train = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Train:
    """Train systems in a number of processes."""
    texts = [text for corpus in make_corpora() for text in corpus.texts()]
    encoder = write_tiny_encoder(tmp_path_factory.mktemp("encoder"), texts, dropout=0.0)

    def run(n_processes: int, out: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={n_processes}"]
        command = [*(launch if n_processes > 1 else []), script, str(out), str(encoder)]
        return subprocess.run(
            [sys.executable, *command, *arguments], capture_output=True, text=True, timeout=1200
        )

    return run


@pytest.fixture(scope="module")
def one(train: Train, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs of one process."""
    return finish(train(1, tmp_path_factory.mktemp("one"), *NEURAL))


@pytest.fixture(scope="module")
def two(train: Train, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finish(train(2, tmp_path_factory.mktemp("two"), *NEURAL))


@pytest.fixture(scope="module")
def two_sharded(train: Train, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("two-sharded")
    return finish(train(2, out, *SHARDED, "--shard-labels"))


def finish(ended: subprocess.CompletedProcess[str]) -> Path:
    """Return the folder of the runs of a training that ended well."""
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert "Warning" not in ended.stderr
    return Path(next(ended.args[i + 1] for i, part in enumerate(ended.args) if part == script))


def assert_same_run(one: Path, other: Path) -> None:
    """Weights and rankings differ at most by rounding. Weights are saved in half precision. Adam
    moves a weight whose gradient is nearly 0 by its rounding alone, so single weights may differ by
    more than the root mean square of a tensor does."""
    files = {path.relative_to(one) for path in (one / "model").rglob("*.safetensors")}
    assert files == {path.relative_to(other) for path in (other / "model").rglob("*.safetensors")}
    for path in files:
        expected, seen = load_file(one / path), load_file(other / path)
        assert expected.keys() == seen.keys()
        for key, tensor in expected.items():
            value, difference = tensor.astype(float), seen[key].astype(float) - tensor
            assert np.abs(difference).max(initial=0) < 5e-3, key
            if tensor.size:
                mean_square = np.square(difference).mean()
                assert mean_square**0.5 < 1e-4 + 1e-3 * np.square(value).mean() ** 0.5, key
    first, second = rank(load(one)), rank(load(other))
    np.testing.assert_allclose(second, first, atol=2e-3)


def rank(run: Run) -> np.ndarray:
    """The probability of each label for each dev document."""
    ranking = run.model.rank(make_corpora()[1], 30)
    found = np.zeros((len(ranking.columns), ranking.columns.max() + 1))
    np.put_along_axis(found, ranking.columns, ranking.probabilities, axis=1)
    return found


@pytest.mark.parametrize("name", NEURAL)
def test_two_processes_learn_what_one_does(name, one, two):
    assert_same_run(one / name, two / name)


@pytest.mark.parametrize("name", SHARDED)
def test_two_processes_that_share_the_labels_learn_what_one_does(name, one, two_sharded):
    assert_same_run(one / name, two_sharded / name)


@pytest.mark.parametrize("how", [[], ["--shard-labels"]], ids=["documents", "labels"])
def test_four_processes_learn_what_one_does(how, one, train, tmp_path):
    assert_same_run(one / "attentive", finish(train(4, tmp_path, "attentive", *how)) / "attentive")


@pytest.mark.parametrize("how", [[], ["--shard-labels"]], ids=["documents", "labels"])
def test_a_killed_process_ends_all_and_another_number_continues(how, one, train, tmp_path):
    killed = train(2, tmp_path / "two", *ENDED, *how, "--end", "SIGKILL", "1")
    assert killed.returncode != 0
    assert "exitcode  : -9" in killed.stderr
    assert not (tmp_path / "two" / "attentive" / "manifest.json").exists()
    for number in (1, 4):
        out = shutil.copytree(tmp_path / "two", tmp_path / str(number))
        assert_continues(out)
        assert_same_run(one / "attentive", finish(train(number, out, *ENDED, *how)) / "attentive")


@pytest.mark.parametrize("how", [[], ["--shard-labels"]], ids=["documents", "labels"])
def test_a_process_that_is_asked_to_stop_stops_all_with_a_checkpoint(how, one, train, tmp_path):
    rare = [part for part in ENDED if part != "--checkpoints"]
    stopped = train(2, tmp_path, *rare, *how, "--end", "SIGTERM", "1")
    assert stopped.returncode != 0
    assert f'File "{script}"' not in stopped.stderr, (
        "no process fails; the launcher reports the exit"
    )
    assert_continues(tmp_path)
    assert_same_run(one / "attentive", finish(train(2, tmp_path, *rare, *how)) / "attentive")


def assert_continues(out: Path) -> None:
    """There is a checkpoint, of some steps before the end."""
    from ontodex.training.checkpoints import read_checkpoint

    _, about = read_checkpoint(out / "attentive" / "work")
    assert 9 <= about["state"]["step"] <= 10

"""A trained `levelwise` and the folder of its stages, shared by all tests of the package."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ontodex.models.levelwise.system import Levelwise

# Tests are imported one by one, without their folder on the path.
sys.path.insert(0, str(Path(__file__).parent))

from levelwise_planted import fit_system


@pytest.fixture(scope="session")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of stages: trainings that differ late share the early stages."""
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="session")
def system(work: Path) -> Levelwise:
    return fit_system(work)

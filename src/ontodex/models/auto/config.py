"""Settings of `auto`."""

from __future__ import annotations

from dataclasses import dataclass, field

from ontodex.config import RESOLVED, check_least, check_most, check_seed
from ontodex.io.durations import parse_duration


@dataclass(frozen=True)
class AutoConfig:
    """Settings of `auto`: its time and its choice of candidates."""

    budget: str = "10m"  # time for everything, from the first trial to the refit: 90s, 10m, 2h
    max_latency: str = ""  # most time for one document, as 50ms; slow members are left out
    systems: tuple[str, ...] = ()  # candidates; none = those that suit the corpus
    languages: tuple[str, ...] = field(default=(), metadata=RESOLVED)  # of the documents
    encoder: str = field(default="", metadata={"path": True})  # a folder, or hub:user/name
    folds: int = 0  # of cross-validation; 0 = 5 where dev has under 500 documents, else dev alone
    depth: int = 100  # ranks taken from each member
    seed: int = 1  # of the folds and of the documents of small trials

    def __post_init__(self) -> None:
        for name in ("budget", "max_latency"):
            text = getattr(self, name)
            try:
                seconds = parse_duration(text) if text or name == "budget" else 1.0
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
            if not seconds:
                raise ValueError(f"{name} must be above 0")
        if self.folds < 0 or self.folds == 1:
            raise ValueError(f"folds must be 0 (as needed) or at least 2, not {self.folds}")
        check_least(self, 5, "depth")
        check_most(self, 100, "folds")
        check_seed(self)

    @property
    def seconds(self) -> float:
        return parse_duration(self.budget)

    @property
    def latency(self) -> float:
        """Seconds for one document; 0 = any."""
        return parse_duration(self.max_latency) if self.max_latency else 0.0

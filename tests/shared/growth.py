"""How the work of code grows with its input, counted in steps: clocks measure busy machines too.

Work of the interpreter is counted line by line. Work of compiled code is bounded by a limit of
processor time that is hundreds of times what linear work takes.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import ontodex

SOURCES = str(Path(ontodex.__file__).parent)


class CountedText(str):
    """A text whose hashes and comparisons count as steps, also those that compiled code asks for.

    So the merging of sets, dicts and lists of texts is counted element by element.
    """

    __slots__ = ()

    def __hash__(self) -> int:
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other)


def count_steps(action: Callable[[], object]) -> int:
    """Return the number of lines and calls that an action executes in ontodex."""
    steps = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal steps
        if not frame.f_code.co_filename.startswith((SOURCES, __file__)):
            return None
        steps += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return steps


def is_linear(action: Callable[[int], object], size: int) -> bool:
    """Return whether twice the input takes about twice the steps; quadratic work takes four times.

    The action gets `size` first, so that what is done only once counts for the smaller input.
    """
    few, many = (count_steps(lambda n=n: action(n)) for n in (size, 2 * size))  # type: ignore[misc]
    return few > size and many < 2.5 * few


@contextmanager
def limit_processor_time(seconds: float) -> Iterator[None]:
    """End the body with an error after so many seconds of this process's own processor time.

    Choose a limit at least a hundred times what the body takes.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"still at work after {seconds:g} s of processor time")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)

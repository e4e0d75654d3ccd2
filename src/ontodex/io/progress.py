"""Progress bars: shown by commands, silent in library use.

`cli/app.py` switches them on with `show_bars`; every stage may call `track`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

T = TypeVar("T")

_shown = False
_drawn: Progress | None = None  # the bar on the screen; bars opened meanwhile are lines below it


def show_bars() -> None:
    """Draw bars on standard error from now on, if it is a terminal."""
    global _shown
    _shown = True


def hide_bars() -> None:
    """Draw no bars from now on."""
    global _shown
    _shown = False


class Bar:
    """A bar that the caller advances; it draws nothing unless bars are shown."""

    def __init__(self, description: str, total: int | None, done: int = 0) -> None:
        global _drawn
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._is_first = False
        if not _shown:
            return
        if _drawn is not None:
            self._bar = _drawn
            self._task = _drawn.add_task(description, total=total, completed=done, status="")
            return
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.table import Column

        console = Console(stderr=True)
        if not console.is_terminal:
            return
        # On a narrow terminal only the description is cut.
        rest, whole = Column(no_wrap=True, ratio=1), Column(no_wrap=True)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False, table_column=rest),
            TextColumn("{task.fields[status]}", markup=False),
            BarColumn(bar_width=min(40, console.width // 8), table_column=whole),
            MofNCompleteColumn(table_column=whole),
            TimeElapsedColumn(table_column=whole),
            TimeRemainingColumn(table_column=whole),
            console=console,
            transient=True,
            expand=True,
        )
        self._bar.start()
        _drawn, self._is_first = self._bar, True
        self._task = self._bar.add_task(description, total=total, completed=done, status="")

    @property
    def visible(self) -> bool:
        return self._bar is not None

    def advance(self) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.advance(self._task)

    def move_to(self, done: int) -> None:
        """Set how much is done."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done)

    def set_status(self, text: str) -> None:
        """Show a short text behind the description."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, status=text)

    def close(self) -> None:
        global _drawn
        if self._bar is not None and self._is_first:
            self._bar.stop()
            _drawn = None
        elif self._bar is not None and self._task is not None:
            self._bar.remove_task(self._task)
        self._bar = None


def track(items: Iterable[T], description: str, total: int | None = None) -> Iterator[T]:
    """Yield `items` and show a bar with their number, the time passed and the time left."""
    bar = Bar(description, total)
    try:
        for item in items:
            yield item
            bar.advance()
    finally:
        bar.close()

"""Progress of long work: a bar on a terminal, plain lines everywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from fastnode.cli.output import duration, say

__all__ = ["Advance", "progress"]

#: ``advance(done, total, note)``: absolute counts, and where the work is in words ("block 57").
Advance = Callable[[int, int, str], None]

#: Seconds between two plain lines, and between two redraws of the bar.
_LINE_INTERVAL_S = 5.0
_BAR_INTERVAL_S = 0.1


@contextmanager
def progress(doing: str) -> Iterator[Advance]:
    """Shows how far ``doing`` is on standard error, until the block is left."""
    if sys.stderr.isatty() and find_spec("rich") is not None:
        with _bar(doing) as advance:
            yield advance
    else:
        yield _limited(_LINE_INTERVAL_S, _print_line(doing))


@contextmanager
def _bar(doing: str) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskProgressColumn, TextColumn
    from rich.text import Text

    class TimeLeft(ProgressColumn):
        max_refresh = 0.5

        def render(self, task: Task) -> Text:
            left = task.time_remaining
            return Text("" if left is None else f"{duration(left)} left", style="progress.remaining")

    columns = (
        TextColumn(doing),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[note]}"),
        TimeLeft(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(doing, total=None, note="")

        def draw(done: int, total: int, note: str) -> None:
            bar.update(task, completed=done, total=total, note=note)

        yield _limited(_BAR_INTERVAL_S, draw)


def _print_line(doing: str) -> Advance:
    begun: tuple[float, int] | None = None

    def show(done: int, total: int, note: str) -> None:
        nonlocal begun
        now = time.monotonic()
        begun = begun or (now, done)
        percent = 100 * done // total if total else 100
        seconds, more = now - begun[0], done - begun[1]
        left = f", {duration(seconds * (total - done) / more)} left" if more > 0 else ""
        say(f"{doing}: {percent} %, {note}{left}", err=True)

    return show


def _limited(interval_s: float, show: Advance) -> Advance:
    """Passes on at most one report per interval, because work reports after every record."""
    next_at = time.monotonic() + interval_s

    def advance(done: int, total: int, note: str) -> None:
        nonlocal next_at
        now = time.monotonic()
        if now >= next_at:
            next_at = now + interval_s
            show(done, total, note)

    return advance

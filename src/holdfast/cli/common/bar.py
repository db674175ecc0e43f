"""A bar on standard error for what takes long, where somebody looks at it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

Advance = Callable[[int], None]

_BAR_STEPS = 1000


@contextmanager
def progress_bar(label: str, length: int) -> Iterator[Advance]:
    """A function to call with what was done since; nothing is shown where nobody looks."""
    if not sys.stderr.isatty() or length <= 0:
        yield lambda done: None
        return
    with click.progressbar(
        length=length, label=label.ljust(20), file=sys.stderr, update_min_steps=length // 200
    ) as shown:
        yield shown.update


@contextmanager
def ratio_progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """The same for what is told as so much of so much."""
    with progress_bar(label, _BAR_STEPS) as advance:
        shown = 0

        def reached(done: int, of: int) -> None:
            nonlocal shown
            now = _BAR_STEPS * done // max(1, of)
            advance(now - shown)
            shown = now

        yield reached

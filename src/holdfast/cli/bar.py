"""A bar on standard error for what takes long, where somebody looks at it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

Advance = Callable[[int], None]


@contextmanager
def bar(label: str, length: int) -> Iterator[Advance]:
    """A function to call with what was done since; nothing is shown where nobody looks."""
    if not sys.stderr.isatty() or length <= 0:
        yield lambda done: None
        return
    with click.progressbar(
        length=length, label=label.ljust(20), file=sys.stderr, update_min_steps=length // 200
    ) as shown:
        yield shown.update

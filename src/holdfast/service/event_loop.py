"""The event loop and the room it has: which one runs, and how many connections it may hold."""

import asyncio
import resource
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed (`holdfast[fast]`), asyncio's own loop otherwise."""
    if find_spec("uvloop") is None:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = import_module("uvloop").new_event_loop
    return factory


def raise_open_file_limit() -> None:
    """As many open files as the system lets us have: each turn that waits for its model holds
    one connection to it and one to whoever asked."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

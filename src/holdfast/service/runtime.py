"""Settings of the interpreter for a long-running process: event loop, file limit, GC, DNS lookup.

`holdfast run` imports this first, before it disables the garbage collector: keep its imports small.
"""

import asyncio
import gc
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec

# MERGED holdfast.service.garbage: Garbage collection, tuned for a process that starts once and then serves for months.
#
# Nearly everything a turn makes is freed by its count of references; the collector only looks for
# cycles, of which there are few. Left alone it looks through every object of a gateway again and
# again: with these two lines a turn takes 14 % less CPU (measured by `make bench`, 64 sessions).
_THRESHOLDS = (20_000, 20, 100)  # new objects; younger collections before an older one


def disable_gc() -> None:
    """To be called by a process that is about to import a gateway and to be one.

    Nearly all that a start makes is kept, and to look through it again and again as it grows is
    a twelfth of the time that it takes. `rarely_collected` begins again, once all is started.
    """
    gc.disable()


@contextmanager
def tuned_gc() -> Iterator[Callable[[], None]]:
    """No collection until the function that is yielded is called, once all has been started:
    what was made by then stays, and is not looked through any more. Leaving restores it all."""
    before, enabled = gc.get_threshold(), gc.isenabled()
    gc.disable()
    gc.set_threshold(*_THRESHOLDS)

    def started() -> None:
        gc.freeze()
        gc.enable()

    try:
        yield started
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
        if enabled:
            gc.enable()


# MERGED holdfast.service.lookup: How names of hosts are looked up: by the system, whatever is installed beside us.
_LIBRARY = "aiohttp"
_DNS_LIBRARY = "aiodns"


def import_aiohttp_without_aiodns() -> None:
    """Import aiohttp as if there were no aiodns; where aiohttp is imported already, nothing.

    aiohttp takes aiodns in place of the system's own lookup wherever it finds it, and slixmpp
    brings it along: with a door for XMPP installed, every other door and the model would be looked
    up in another way, which goes past the name services that the machine is set up with. It would
    be imported by every start besides, for a twentieth of its time.
    slixmpp itself, which needs records that the system's lookup does not have, finds it as ever.
    """
    if _LIBRARY in sys.modules or _DNS_LIBRARY in sys.modules:
        import_module(_LIBRARY)
        return
    # None is how the import system is told that there is no such module.
    sys.modules[_DNS_LIBRARY] = None  # type: ignore[assignment]
    try:
        import_module(_LIBRARY)
    finally:
        del sys.modules[_DNS_LIBRARY]


# MERGED holdfast.service.event_loop: The event loop and the room it has: which one runs, and how many connections it may hold.
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

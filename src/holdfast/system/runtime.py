"""Settings of the interpreter for a long-running process: event loop, file limit, GC, DNS lookup.

`holdfast run` imports this first, before it disables the garbage collector: keep its imports small.
"""

import gc
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

# Nearly everything a turn allocates is freed by reference counting; the collector only looks for
# cycles, of which there are few. With its defaults it traverses every object of a gateway again and
# again: with these thresholds and the freeze a turn takes 14 % less CPU (`make bench`, 64
# sessions).
_THRESHOLDS = (20_000, 20, 100)  # new objects; younger collections before an older one
_LIBRARY = "aiohttp"
_PR_SET_DUMPABLE = 4
_DNS_LIBRARY = "aiodns"
_COMPILED_LIST = "frozenlist._frozenlist"


def disable_gc() -> None:
    """Called by a process that is about to import and run a gateway.

    Nearly all objects of a start stay alive, and traversing them again and again as they grow costs
    a twelfth of the start. `tuned_gc` enables the collector when the start is over.
    """
    gc.disable()


@contextmanager
def tuned_gc() -> Iterator[Callable[[], None]]:
    """No collection until the yielded function is called, when the start is over: objects that
    exist by then are frozen, and not traversed any more. Leaving restores the old settings."""
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


def import_aiohttp() -> None:
    """Import aiohttp without what costs a start more than it gives. Does nothing if aiohttp is
    imported already.

    The certificates that the system trusts are read later, if at all (`system/tls.py`). The
    compiled form of frozenlist, a list that aiohttp walks through once per response, would load the
    C++ runtime, 1 MB, for itself alone.

    aiohttp uses aiodns instead of the system's resolver wherever it is installed, and slixmpp
    depends on it: with the XMPP platform installed, the hosts of every other platform and of the
    model would be resolved without the name services that the machine is configured with. Importing
    it would also cost every start a twentieth of its time. slixmpp itself needs record types that
    the system's resolver does not have, and still finds aiodns.
    """
    if _LIBRARY in sys.modules or _DNS_LIBRARY in sys.modules:
        import_module(_LIBRARY)
        return
    from holdfast.system.tls import lazy_trust  # noqa: PLC0415 - it imports ssl

    # None tells the import system that there is no such module.
    sys.modules[_DNS_LIBRARY] = sys.modules[_COMPILED_LIST] = None  # type: ignore[assignment]
    try:
        with lazy_trust():
            import_module(_LIBRARY)
    finally:
        del sys.modules[_DNS_LIBRARY], sys.modules[_COMPILED_LIST]


def loop_factory() -> "Callable[[], asyncio.AbstractEventLoop] | None":
    """uvloop's event loop; asyncio's own where uvloop is not installed, on other interpreters."""
    if find_spec("uvloop") is None:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = import_module("uvloop").new_event_loop
    return factory


def raise_open_file_limit() -> None:
    """Raise the soft limit to the hard limit: each turn that waits for its model holds one
    connection to the model and one to the client."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def protect_memory() -> None:
    """The keys in the memory of this process must not get into a core dump, nor to another process
    of its user, which could otherwise trace it or read it in /proc."""
    import ctypes  # noqa: PLC0415 - this module is imported first

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)

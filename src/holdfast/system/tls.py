"""The certificates that the system trusts, read when the first TLS connection needs them.

aiohttp makes its two TLS contexts while it is imported, and each reads all certificates: a sixth of
the CPU time of a start and 2 MB, also for a gateway that talks to local servers alone.
"""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_lock = threading.Lock()
_lazy: list["LazyTrustContext"] = []


class LazyTrustContext(ssl.SSLContext):
    """A TLS context that reads the certificates for its first connection, where `load_trust` did
    not do so before."""

    _loaded = False

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        self._load()
        return super().wrap_bio(*args, **options)

    def wrap_socket(self, *args: Any, **options: Any) -> ssl.SSLSocket:
        self._load()
        return super().wrap_socket(*args, **options)

    def _load(self) -> None:
        with _lock:
            if not self._loaded:
                self.load_default_certs(ssl.Purpose.SERVER_AUTH)
                self._loaded = True


@contextmanager
def lazy_trust() -> Iterator[None]:
    """Contexts that are created meanwhile read no certificates, whatever their settings are."""
    made: list[ssl.SSLContext] = []
    read = ssl.SSLContext.load_default_certs

    def defer(context: ssl.SSLContext, *_: object) -> None:
        made.append(context)

    ssl.SSLContext.load_default_certs = defer  # type: ignore[method-assign, assignment]
    ssl.SSLContext.set_default_verify_paths = defer  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        ssl.SSLContext.load_default_certs = read  # type: ignore[method-assign]
        del ssl.SSLContext.set_default_verify_paths  # that of the class below it shows again
    for context in made:
        context.__class__ = LazyTrustContext
        assert isinstance(context, LazyTrustContext)
        _lazy.append(context)


def load_trust() -> None:
    """Read the certificates now, unless they were. From any thread."""
    for context in _lazy:
        context._load()


async def prepare_trust() -> None:
    """Called before a TLS connection, which would read them on the event loop for 30 ms."""
    if any(not context._loaded for context in _lazy):
        await asyncio.to_thread(load_trust)

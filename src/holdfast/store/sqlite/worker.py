"""A worker: one thread of the store, from its start to its last handle closed."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future


class StoreThread:
    """Owns a thread. Its body calls what it is given once it is ready to work; `ended` once it has
    returned, and from any thread."""

    def __init__(self, name: str, body: Callable[[Callable[[], None]], None]) -> None:
        self._body = body
        self._ready: Future[None] = Future()
        self._finished: Future[None] = Future()
        self.ended = False  # beside the future, which would be locked for each write
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    async def start(self) -> None:
        """Returns when the body is ready; raises what kept it from that."""
        self._thread.start()
        await asyncio.shield(asyncio.wrap_future(self._ready))

    async def join(self) -> None:
        """Returns when the body has ended; raises what ended it, if that was no plain return."""
        if self._thread.ident is None:
            return
        await asyncio.shield(asyncio.wrap_future(self._finished))
        self._thread.join()

    def _run(self) -> None:
        try:
            self._body(lambda: self._ready.set_result(None))
        except BaseException as error:  # noqa: BLE001 - a thread has no caller but these two
            self.ended = True
            if not self._ready.done():
                self._ready.set_exception(error)
                self._finished.set_result(None)
            else:
                self._finished.set_exception(error)
        else:
            self.ended = True
            self._finished.set_result(None)

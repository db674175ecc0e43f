"""Following the file: whenever somebody has changed the configuration, it is read again."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module

from holdfast.config.trace import Trace, files_of, trace_of
from holdfast.core.config.kept_configuration import ConfigurationSource
from holdfast.service.reloading import Reloader
from holdfast.system.folder_watch import FolderWatch, NotWatchable

log = logging.getLogger(__name__)

SETTLED = 0.3  # seconds without a change: an editor writes in several steps
_AFTER_START = 1.0  # seconds: whoever waits for a start does not wait for this


class FileFollowing:
    """Owns the watch on the files. What is wrong with one of them is told by who reads it."""

    def __init__(self, reloader: Reloader, *, wanted: Callable[[], bool]) -> None:
        """`wanted`: whether, at this instant, a change is to be taken over by itself."""
        self._reloader = reloader
        self._wanted = wanted

    async def run(self) -> None:
        """Until cancelled, or until it is known that files cannot be watched here."""
        await asyncio.sleep(_AFTER_START)
        await asyncio.to_thread(import_module, "ctypes")  # which takes longer than a message may
        try:
            seen = self._reloader.config.trace
            while True:
                seen = await self._watched(seen)
        except NotWatchable as error:
            log.warning(
                "A change of the configuration is not noticed by itself here (%s): `holdfast "
                "config reload` has it read.",
                error,
                extra={"action": "config_unwatched"},
            )

    async def _watched(self, seen: Trace) -> Trace:
        """Until a file has come to lie elsewhere; how the files were when they were last read."""
        files = files_of(self._reloader.config.home)
        with FolderWatch(files) as watch:
            if trace_of(files) != seen:  # before anybody watched
                watch.changed.set()
            while not watch.elsewhere:
                await watch.changed.wait()
                await _settled(watch.changed)
                seen = trace_of(files)
                if self._wanted():
                    await self._reloader.take_over(by="the file", source=ConfigurationSource.FILE)
        return seen


async def _settled(changed: asyncio.Event) -> None:
    while changed.is_set():
        changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLED):
                await changed.wait()

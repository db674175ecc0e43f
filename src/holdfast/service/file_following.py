"""Following the file: whenever somebody has changed the configuration, it is read again."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module

from holdfast.config.trace import ConfigFingerprint, config_files, fingerprint
from holdfast.core.config.kept_configuration import ConfigSource
from holdfast.service.reloading import Reloader
from holdfast.system.folder_watch import FileWatch, WatchUnavailable

log = logging.getLogger(__name__)

SETTLE_SECONDS = 0.3  # seconds without a change: an editor writes in several steps
_START_DELAY = 1.0  # seconds: whoever waits for a start does not wait for this


class ConfigFileWatcher:
    """Owns the watch on the files. What is wrong with one of them is told by who reads it."""

    def __init__(self, reloader: Reloader, *, is_enabled: Callable[[], bool]) -> None:
        """`wanted`: whether, at this instant, a change is to be taken over by itself."""
        self._reloader = reloader
        self._is_enabled = is_enabled

    async def run(self) -> None:
        """Until cancelled, or until it is known that files cannot be watched here."""
        await asyncio.sleep(_START_DELAY)
        await asyncio.to_thread(import_module, "ctypes")  # which takes longer than a message may
        try:
            seen = self._reloader.config.fingerprint
            while True:
                seen = await self._watch_until_moved(seen)
        except WatchUnavailable as error:
            log.warning(
                "A change of the configuration is not noticed by itself here (%s): `holdfast "
                "config reload` has it read.",
                error,
                extra={"action": "config_not_watched"},
            )

    async def _watch_until_moved(self, seen: ConfigFingerprint) -> ConfigFingerprint:
        """Until a file has come to lie elsewhere; how the files were when they were last read."""
        files = config_files(self._reloader.config.home)
        with FileWatch(files) as watch:
            if fingerprint(files) != seen:  # before anybody watched
                watch.changed.set()
            while not watch.moved:
                await watch.changed.wait()
                await _wait_until_settled(watch.changed)
                seen = fingerprint(files)
                if self._is_enabled():
                    await self._reloader.reload_and_log(by="the file", source=ConfigSource.FILE)
        return seen


async def _wait_until_settled(changed: asyncio.Event) -> None:
    while changed.is_set():
        changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                await changed.wait()

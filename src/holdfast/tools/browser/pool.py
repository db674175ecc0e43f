"""The browsers: one window a session that uses one, opened on demand and closed when idle."""

import asyncio
import logging
import shutil
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.config.settings import BrowserSettings
from holdfast.core.errors import HoldfastError
from holdfast.core.ids import SessionId
from holdfast.core.net import Address, is_public
from holdfast.core.turns.tool import ToolFailed
from holdfast.tools.browser.egress_proxy import Egress
from holdfast.tools.browser.launcher import DOWNLOADS, PROFILE, Walls, find_chromium, find_walls
from holdfast.tools.browser.session import Window

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Playwright

log = logging.getLogger(__name__)

NO_CHROMIUM = "there is no chromium on this machine: apt install chromium"
KeepFile = Callable[[SessionId, str, bytes], Awaitable[str]]


class CannotForget(HoldfastError):
    """What a browser kept is there still."""


class _Place:
    """A session's place here: its window, if one is open, and whoever works in it."""

    def __init__(self, workspace: SessionId) -> None:
        self.workspace = workspace  # of whom its files are
        self.window: Window | None = None
        self.opening: asyncio.Task[Window] | None = None
        self.using = asyncio.Lock()
        self.wanted = 0  # who works in it, or waits to
        self.idle: asyncio.TimerHandle | None = None


class Browsers:
    """Owns the open windows, the program that drives them and their way out.

    A profile outlives its window: cookies, storage and open addresses are there again when the
    session comes back, in this process or another.
    """

    name = "browser"

    def __init__(self, home: Path, settings: BrowserSettings, *, keep: KeepFile) -> None:
        self._profiles = home.absolute() / "browsers"
        self._settings = settings
        self._keep = keep
        self._places: OrderedDict[SessionId, _Place] = OrderedDict()
        self._starting = asyncio.Lock()
        self._driver: Playwright | None = None
        self._egress: Egress | None = None
        self._walls: Walls | None = None
        self._chores: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return sum(place.window is not None for place in self._places.values())

    @asynccontextmanager
    async def window(
        self, session_id: SessionId, *, workspace: SessionId | None = None
    ) -> AsyncIterator[Window]:
        """The session's window, for one who works in it alone until the context is left. Files
        go to the workspace of that session; None: its own."""
        place = self._places.setdefault(session_id, _Place(workspace or session_id))
        self._places.move_to_end(session_id)
        place.wanted += 1
        try:
            async with place.using:
                if place.idle is not None:
                    place.idle.cancel()
                yield place.window or await self._opened(session_id, place)
        finally:
            place.wanted -= 1
            self._rest(session_id, place)

    async def lost(self, session_id: SessionId) -> None:
        """Its window died, or a page in it: it is ended for certain, since two cannot have one
        profile, and the next one who comes gets another."""
        place = self._places.get(session_id)
        if place is not None and place.window is not None:
            window, place.window = place.window, None
            await _closed(window)

    async def end(self, session_id: SessionId) -> None:
        """Close it; cookies and addresses stay."""
        place = self._places.pop(session_id, None)
        if place is None:
            return
        if place.idle is not None:
            place.idle.cancel()
        if place.opening is not None:
            await asyncio.wait([place.opening])
        if place.window is not None:
            window, place.window = place.window, None
            await _closed(window)

    async def forget(self, session_id: SessionId) -> None:
        """Close it and delete all that it kept."""
        await self.end(session_id)
        await asyncio.to_thread(_remove, self._profile(session_id))

    async def end_all(self) -> None:
        await asyncio.gather(*(self.end(session_id) for session_id in list(self._places)))
        await asyncio.gather(*self._chores, return_exceptions=True)
        if self._driver is not None:
            driver, self._driver = self._driver, None
            await driver.stop()
        if self._egress is not None:
            egress, self._egress = self._egress, None
            await egress.__aexit__()

    async def _opened(self, session_id: SessionId, place: _Place) -> Window:
        """A start is never given up half-way, or a chromium would be left that nobody knows: it
        belongs to the place, and whoever ends that waits for it."""
        if place.opening is None:
            await self._make_room()
            place.opening = asyncio.create_task(self._open(session_id, place))
            place.opening.add_done_callback(lambda done: self._has_opened(session_id, place, done))
        await asyncio.shield(place.opening)
        if place.window is None:
            raise ToolFailed("the browser was closed as soon as it was open")
        return place.window

    def _has_opened(self, session_id: SessionId, place: _Place, done: asyncio.Task[Window]) -> None:
        place.opening = None
        if not done.cancelled() and done.exception() is None:
            place.window = done.result()
            self._rest(session_id, place)

    async def _open(self, session_id: SessionId, place: _Place) -> Window:
        from playwright.async_api import Error  # noqa: PLC0415 - heavy, few sessions browse

        profile = self._profile(session_id)
        try:
            context = await self._launch(profile)
        except Error as error:
            raise ToolFailed(f"the browser could not be started: {str(error)[:1000]}") from error
        keep = partial(self._keep, place.workspace)
        window = Window(context, memo=profile / "window.json", keep=keep)
        context.on("close", lambda _: self._gone(session_id, window))
        context.set_default_timeout(self._settings.action_timeout * 1000)
        await window.restore()
        return window

    async def _launch(self, profile: Path) -> "BrowserContext":
        driver, walls, egress = await self._started()
        launcher = await asyncio.to_thread(_prepare, profile, walls)
        return await driver.chromium.launch_persistent_context(
            profile / PROFILE,
            executable_path=launcher,
            args=list(walls.flags),
            chromium_sandbox="--no-sandbox" not in walls.flags,
            downloads_path=profile / DOWNLOADS,
            proxy={
                "server": egress.address,
                "username": egress.username,
                "password": egress.password,
            },
            viewport={"width": 1280, "height": 900},
            env={
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "LANG": "C.UTF-8",
                "HOME": str(profile / PROFILE),
            },
        )

    async def _started(self) -> tuple["Playwright", Walls, Egress]:
        """What all of them share, once."""
        async with self._starting:
            if self._walls is None:
                chromium = find_chromium(self._settings.chromium)
                if chromium is None:
                    raise ToolFailed(NO_CHROMIUM)
                self._walls = await find_walls(chromium)
                if self._walls.bwrap is None:
                    log.warning(
                        "Browsers run without bubblewrap around them: a page that takes one over "
                        "has the rights of this user. Install it: apt install bubblewrap",
                        extra={"action": "browser_unconfined"},
                    )
            if self._egress is None:
                self._egress = await Egress(self._permits).__aenter__()
            if self._driver is None:
                from playwright.async_api import (  # noqa: PLC0415 - heavy, few sessions browse
                    async_playwright,
                )

                self._driver = await async_playwright().start()
        return self._driver, self._walls, self._egress

    def _permits(self, address: Address) -> bool:
        return self._settings.allow_private or is_public(address)

    async def _make_room(self) -> None:
        """The one that was used the longest ago makes way; one in use never does."""
        idle = [sid for sid, p in self._places.items() if p.window is not None and not p.wanted]
        for session_id in idle[: max(0, len(self) + 1 - self._settings.max_browsers)]:
            await self.end(session_id)

    def _rest(self, session_id: SessionId, place: _Place) -> None:
        if place.wanted or place.window is None or self._places.get(session_id) is not place:
            return
        loop, seconds = asyncio.get_running_loop(), self._settings.idle_timeout
        place.idle = loop.call_later(seconds, self._retire, session_id)

    def _retire(self, session_id: SessionId) -> None:
        task = asyncio.get_running_loop().create_task(self.end(session_id))
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)

    def _gone(self, session_id: SessionId, window: Window) -> None:
        place = self._places.get(session_id)
        if place is not None and place.window is window:
            place.window = None

    def _profile(self, session_id: SessionId) -> Path:
        return self._profiles / session_id


def _prepare(profile: Path, walls: Walls) -> Path:
    for folder in (profile.parent, profile, profile / PROFILE, profile / DOWNLOADS):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # The lock of a chromium that was killed names a pid which its successor may have got.
    for stale in (profile / PROFILE).glob("Singleton*"):
        stale.unlink(missing_ok=True)
    return walls.launcher(profile)


def _remove(profile: Path) -> None:
    shutil.rmtree(profile, ignore_errors=True)
    if profile.exists():
        raise CannotForget(
            f"{profile} could not be removed whole. Remove it yourself, then delete again"
        )


async def _closed(window: Window) -> None:
    from playwright.async_api import Error  # noqa: PLC0415 - only where a browser is open

    try:
        async with asyncio.timeout(10):
            await window.close()
    except (Error, TimeoutError) as error:
        log.warning("A browser did not close: %s", error, extra={"action": "browser_close"})

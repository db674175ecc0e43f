"""The browser pool: one browser per session that uses one, opened on demand and closed when
idle."""

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
from holdfast.core.turns.tool import ToolFailed
from holdfast.tools.browser.launcher import (
    DOWNLOADS,
    PROFILE,
    ChromiumLauncher,
    find_chromium,
    find_launcher,
)
from holdfast.tools.browser.session import BrowserSession

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Playwright

    from holdfast.system.egress import EgressPolicy, EgressProxy

log = logging.getLogger(__name__)

NO_CHROMIUM = "there is no chromium on this machine: apt install chromium"
SaveSessionFile = Callable[[SessionId, str, bytes], Awaitable[str]]


class CannotRemoveProfile(HoldfastError):
    """The profile of a browser could not be removed."""


class _Slot:
    """The entry of one session: its open browser, if there is one, and the calls that use it."""

    def __init__(self, workspace: SessionId) -> None:
        self.workspace = workspace  # of whom its files are
        self.session: BrowserSession | None = None
        self.opening: asyncio.Task[BrowserSession] | None = None
        self.lock = asyncio.Lock()
        self.users = 0  # who works in it, or waits to
        self.idle_timer: asyncio.TimerHandle | None = None


class BrowserPool:
    """Owns the open windows, the program that drives them and their way out.

    A profile outlives its window: cookies, storage and open addresses are there again when the
    session comes back, in this process or another.
    """

    name = "browser"

    def __init__(
        self,
        home: Path,
        settings: BrowserSettings,
        *,
        save_file: SaveSessionFile,
        egress: Callable[[], "EgressPolicy"],
    ) -> None:
        self._profiles = home.absolute() / "browsers"
        self._settings = settings
        self._save_file, self._egress = save_file, egress
        self._slots: OrderedDict[SessionId, _Slot] = OrderedDict()
        self._starting = asyncio.Lock()
        self._driver: Playwright | None = None
        self._proxy: EgressProxy | None = None
        self._launcher: ChromiumLauncher | None = None
        self._background_tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return sum(slot.session is not None for slot in self._slots.values())

    @asynccontextmanager
    async def session(
        self, session_id: SessionId, *, workspace: SessionId | None = None
    ) -> AsyncIterator[BrowserSession]:
        """The session's window, for one who works in it alone until the context is left. Files
        go to the workspace of that session; None: its own."""
        slot = self._slots.setdefault(session_id, _Slot(workspace or session_id))
        self._slots.move_to_end(session_id)
        slot.users += 1
        try:
            async with slot.lock:
                if slot.idle_timer is not None:
                    slot.idle_timer.cancel()
                yield slot.session or await self._ensure_open(session_id, slot)
        finally:
            slot.users -= 1
            self._schedule_idle_close(session_id, slot)

    async def discard_crashed(self, session_id: SessionId) -> None:
        """Its window died, or a page in it: it is ended for certain, since two cannot have one
        profile, and the next one who comes gets another."""
        slot = self._slots.get(session_id)
        if slot is not None and slot.session is not None:
            session, slot.session = slot.session, None
            await _close_session(session)

    async def end_session(self, session_id: SessionId) -> None:
        """Close it; cookies and addresses stay."""
        slot = self._slots.pop(session_id, None)
        if slot is None:
            return
        if slot.idle_timer is not None:
            slot.idle_timer.cancel()
        if slot.opening is not None:
            await asyncio.wait([slot.opening])
        if slot.session is not None:
            session, slot.session = slot.session, None
            await _close_session(session)

    async def forget(self, session_id: SessionId) -> None:
        """Close it and delete all that it kept."""
        await self.end_session(session_id)
        await asyncio.to_thread(_remove_profile, self._profile_folder(session_id))

    async def end_all(self) -> None:
        await asyncio.gather(*(self.end_session(session_id) for session_id in list(self._slots)))
        await asyncio.gather(*self._background_tasks, return_exceptions=True)
        if self._driver is not None:
            driver, self._driver = self._driver, None
            await driver.stop()
        if self._proxy is not None:
            proxy, self._proxy = self._proxy, None
            await proxy.close()

    async def _ensure_open(self, session_id: SessionId, slot: _Slot) -> BrowserSession:
        """A start is never cancelled half-way, or an unknown chromium process would be left: it
        belongs to the slot, and the end of the slot waits for it."""
        if slot.opening is None:
            await self._close_least_recent()
            slot.opening = asyncio.create_task(self._open_session(session_id, slot))
            slot.opening.add_done_callback(lambda done: self._on_opened(session_id, slot, done))
        await asyncio.shield(slot.opening)
        if slot.session is None:
            raise ToolFailed("the browser exited right after its start")
        return slot.session

    def _on_opened(
        self, session_id: SessionId, slot: _Slot, done: asyncio.Task[BrowserSession]
    ) -> None:
        slot.opening = None
        if not done.cancelled() and done.exception() is None:
            slot.session = done.result()
            self._schedule_idle_close(session_id, slot)

    async def _open_session(self, session_id: SessionId, slot: _Slot) -> BrowserSession:
        from playwright.async_api import Error  # noqa: PLC0415 - heavy, few sessions browse

        profile = self._profile_folder(session_id)
        try:
            context = await self._launch(session_id, profile)
        except Error as error:
            raise ToolFailed(f"the browser could not be started: {str(error)[:1000]}") from error
        keep = partial(self._save_file, slot.workspace)
        session = BrowserSession(context, state_file=profile / "window.json", save_file=keep)
        context.on("close", lambda _: self._on_closed(session_id, session))
        context.set_default_timeout(self._settings.action_timeout * 1000)
        await session.restore()
        return session

    async def _launch(self, session_id: SessionId, profile: Path) -> "BrowserContext":
        driver, walls, proxy = await self._start_shared()
        launcher = await asyncio.to_thread(_prepare_profile, profile, walls)
        return await driver.chromium.launch_persistent_context(
            profile / PROFILE,
            executable_path=launcher,
            args=list(walls.flags),
            chromium_sandbox="--no-sandbox" not in walls.flags,
            downloads_path=profile / DOWNLOADS,
            proxy={
                "server": proxy.address,
                "username": session_id,
                "password": proxy.password(session_id),
            },
            viewport={"width": 1280, "height": 900},
            env={
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "LANG": "C.UTF-8",
                "HOME": str(profile / PROFILE),
            },
        )

    async def _start_shared(self) -> tuple["Playwright", ChromiumLauncher, "EgressProxy"]:
        """What all of them share, once."""
        async with self._starting:
            if self._launcher is None:
                chromium = find_chromium(self._settings.chromium)
                if chromium is None:
                    raise ToolFailed(NO_CHROMIUM)
                self._launcher = await find_launcher(chromium)
                if self._launcher.bwrap is None:
                    log.warning(
                        "Browsers run without bubblewrap: a page that exploits the browser has the "
                        "rights of this user. Install it: apt install bubblewrap",
                        extra={"action": "browser_unsandboxed"},
                    )
            if self._proxy is None:
                from holdfast.system.egress import EgressProxy  # noqa: PLC0415 - few sessions browse

                private = self._settings.allow_private
                self._proxy = await EgressProxy(self._egress(), allow_private=private).__aenter__()
            if self._driver is None:
                from playwright.async_api import (  # noqa: PLC0415 - heavy, few sessions browse
                    async_playwright,
                )

                self._driver = await async_playwright().start()
        return self._driver, self._launcher, self._proxy

    async def _close_least_recent(self) -> None:
        """The one that was used the longest ago makes way; one in use never does."""
        idle = [sid for sid, p in self._slots.items() if p.session is not None and not p.users]
        for session_id in idle[: max(0, len(self) + 1 - self._settings.max_browsers)]:
            await self.end_session(session_id)

    def _schedule_idle_close(self, session_id: SessionId, slot: _Slot) -> None:
        if slot.users or slot.session is None or self._slots.get(session_id) is not slot:
            return
        loop, seconds = asyncio.get_running_loop(), self._settings.idle_timeout
        slot.idle_timer = loop.call_later(seconds, self._close_idle, session_id)

    def _close_idle(self, session_id: SessionId) -> None:
        task = asyncio.get_running_loop().create_task(self.end_session(session_id))
        self._background_tasks.add(task)
        task.add_done_callback(self._background_tasks.discard)

    def _on_closed(self, session_id: SessionId, session: BrowserSession) -> None:
        slot = self._slots.get(session_id)
        if slot is not None and slot.session is session:
            slot.session = None

    def _profile_folder(self, session_id: SessionId) -> Path:
        return self._profiles / session_id


def _prepare_profile(profile: Path, walls: ChromiumLauncher) -> Path:
    for folder in (profile.parent, profile, profile / PROFILE, profile / DOWNLOADS):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # The lock of a chromium that was killed names a pid which its successor may have got.
    for stale in (profile / PROFILE).glob("Singleton*"):
        stale.unlink(missing_ok=True)
    return walls.write_script(profile)


def _remove_profile(profile: Path) -> None:
    shutil.rmtree(profile, ignore_errors=True)
    if profile.exists():
        raise CannotRemoveProfile(
            "{profile} could not be removed completely. Remove it yourself, then delete "
            "the session again",
            profile=profile,
        )


async def _close_session(session: BrowserSession) -> None:
    from playwright.async_api import Error  # noqa: PLC0415 - only where a browser is open

    try:
        async with asyncio.timeout(10):
            await session.close()
    except (Error, TimeoutError) as error:
        log.warning(
            "Could not close a browser: %s; it may keep running until the gateway stops",
            error,
            extra={"action": "browser_close_failed"},
        )

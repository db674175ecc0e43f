"""One session's open browser: its tabs, dialogs and downloads, and the state that the next one
restores."""

import asyncio
import errno
import logging
import os
import stat
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.errors import HoldfastError

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Dialog, Download, Page

log = logging.getLogger(__name__)

MAX_DOWNLOAD = 100 << 20  # bytes of one file
_MAX_TABS = 20
_OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

SaveFile = Callable[[str, bytes], Awaitable[str]]
"""Puts a file into the session's workspace; the path it has there."""


class SavedTabs(msgspec.Struct, frozen=True, kw_only=True):
    """What a window leaves behind besides its profile: chromium writes cookies down late, and
    those of a visit never."""

    addresses: tuple[str, ...] = ()
    active: int = 0
    cookies: tuple[dict[str, object], ...] = ()


class BrowserSession:
    """Owns one open browser; its notices are events that no call asked for."""

    def __init__(self, context: "BrowserContext", *, state_file: Path, save_file: SaveFile) -> None:
        self.context = context
        self.active: Page | None = None
        self._state_file = state_file
        self._save_file = save_file
        self._notices: list[str] = []
        self._downloads: set[asyncio.Task[None]] = set()
        context.on("page", self._on_page)

    @property
    def tabs(self) -> list["Page"]:
        return self.context.pages

    async def page(self) -> "Page":
        """The tab that is worked in."""
        if self.active is None or self.active.is_closed():
            self.active = self.tabs[-1] if self.tabs else await self.context.new_page()
        return self.active

    async def restore(self) -> None:
        """Open what was open: as far as it still can be."""
        state = await asyncio.to_thread(_read_state, self._state_file)
        if state.cookies:
            await self.context.add_cookies(state.cookies)  # type: ignore[arg-type]  # its own words
        for page in self.tabs:
            self._watch(page)
        blank = self.tabs[0] if self.tabs else None
        for number, address in enumerate(state.addresses[:_MAX_TABS]):
            page = blank if number == 0 and blank else await self.context.new_page()
            await _reopen_tab(page, address)
        if state.addresses:
            self.active = self.tabs[min(state.active, len(self.tabs) - 1)]

    async def save_state(self) -> None:
        """Write down what a successor needs. After every act: who knows which is the last."""
        tabs = [page for page in self.tabs if page.url.startswith(("http://", "https://"))]
        active = tabs.index(self.active) if self.active in tabs else 0
        cookies = await self.context.cookies()
        state = SavedTabs(
            addresses=tuple(page.url for page in tabs),
            active=active,
            cookies=tuple(dict(cookie) for cookie in cookies),
        )
        await asyncio.to_thread(_write_state, self._state_file, state)

    async def save_file(self, name: str, data: bytes) -> str:
        """A file into the session's workspace; the path it has there."""
        return await self._save_file(name, data)

    def add_notice(self, text: str) -> None:
        self._notices.append(text)

    def take_notices(self) -> list[str]:
        notices, self._notices = self._notices, []
        return notices

    async def finish_downloads(self) -> None:
        """Downloads that had begun are in the workspace."""
        await asyncio.gather(*self._downloads, return_exceptions=True)

    async def close(self) -> None:
        for chore in self._downloads:
            chore.cancel()
        await self.context.close()

    def _on_page(self, page: "Page") -> None:
        self._watch(page)
        self.active = page  # a window that a page opens is what its visitor looks at

    def _watch(self, page: "Page") -> None:
        page.on("dialog", self._on_dialog)
        page.on("download", self._on_download)
        page.on("crash", lambda _: self._notices.append("The page crashed: open it again."))

    async def _on_dialog(self, dialog: "Dialog") -> None:
        """Dismisses it: a page with an open dialog does not respond."""
        self._notices.append(f"The page showed a {dialog.type}: {dialog.message[:500]!r}.")
        if dialog.type in ("alert", "beforeunload"):
            await dialog.accept()
        else:
            await dialog.dismiss()

    def _on_download(self, download: "Download") -> None:
        task = asyncio.get_running_loop().create_task(self._save_download(download))
        self._downloads.add(task)
        task.add_done_callback(self._downloads.discard)

    async def _save_download(self, download: "Download") -> None:
        from playwright.async_api import Error  # noqa: PLC0415 - only where a browser is open

        try:
            where = await download.path()
            data = await asyncio.to_thread(_read_download, Path(where))
            path = await self._save_file(download.suggested_filename, data)
            self._notices.append(f"Downloaded {path} ({len(data)} bytes).")
        except (Error, OSError, HoldfastError) as error:
            self._notices.append(f"{download.suggested_filename} could not be saved: {error}")
        with suppress(Error, OSError):
            await download.delete()


async def _reopen_tab(page: "Page", address: str) -> None:
    from playwright.async_api import Error  # noqa: PLC0415 - only where a browser is open

    try:
        await page.goto(address, wait_until="commit", timeout=10_000)
    except Error as error:
        log.info("Could not reopen a browser tab: %s", error, extra={"action": "tab_not_restored"})


def _read_download(path: Path) -> bytes:
    """A compromised browser can put a symlink or a pipe there, and a page can download a file of
    any size: no link is followed, no pipe is waited for, and the size is limited."""
    with open(os.open(path, _OPEN_FLAGS), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no file")
        if status.st_size > MAX_DOWNLOAD:
            raise OSError(errno.EFBIG, f"it is larger than {MAX_DOWNLOAD >> 20} MB")
        return file.read(MAX_DOWNLOAD)


def _read_state(state_file: Path) -> SavedTabs:
    try:
        return msgspec.json.decode(state_file.read_bytes(), type=SavedTabs)
    except FileNotFoundError:
        return SavedTabs()
    except (OSError, msgspec.MsgspecError) as error:
        log.warning(
            "Could not read the saved tabs %s: %s; starting without tabs",
            state_file,
            error,
            extra={"action": "tabs_not_restored"},
        )
        return SavedTabs()


def _write_state(state_file: Path, tabs: SavedTabs) -> None:
    beside = state_file.with_suffix(".new")
    beside.write_bytes(msgspec.json.encode(tabs))
    beside.chmod(0o600)
    beside.replace(state_file)

"""A window: one session's open browser, its tabs, and what is kept of them for the next one."""

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

MOST_DOWNLOADED = 100 << 20  # bytes of one file
_MOST_TABS = 20
_PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Keep = Callable[[str, bytes], Awaitable[str]]
"""Puts a file into the session's workspace; the path it has there."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What a window leaves behind besides its profile: chromium writes cookies down late, and
    those of a visit never."""

    addresses: tuple[str, ...] = ()
    active: int = 0
    cookies: tuple[dict[str, object], ...] = ()


class Window:
    """Owns one open browser; `news` is what happened in it that nobody asked for."""

    def __init__(self, context: "BrowserContext", *, memo: Path, keep: Keep) -> None:
        self.context = context
        self.active: Page | None = None
        self._memo = memo
        self._keep = keep
        self._news: list[str] = []
        self._chores: set[asyncio.Task[None]] = set()
        context.on("page", self._opened)

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
        kept = await asyncio.to_thread(_read, self._memo)
        if kept.cookies:
            await self.context.add_cookies(kept.cookies)  # type: ignore[arg-type]  # its own words
        for page in self.tabs:
            self._watch(page)
        blank = self.tabs[0] if self.tabs else None
        for number, address in enumerate(kept.addresses[:_MOST_TABS]):
            page = blank if number == 0 and blank else await self.context.new_page()
            await _go(page, address)
        if kept.addresses:
            self.active = self.tabs[min(kept.active, len(self.tabs) - 1)]

    async def remember(self) -> None:
        """Write down what a successor needs. After every act: who knows which is the last."""
        tabs = [page for page in self.tabs if page.url.startswith(("http://", "https://"))]
        active = tabs.index(self.active) if self.active in tabs else 0
        cookies = await self.context.cookies()
        kept = Kept(
            addresses=tuple(page.url for page in tabs),
            active=active,
            cookies=tuple(dict(cookie) for cookie in cookies),
        )
        await asyncio.to_thread(_write, self._memo, kept)

    async def put(self, name: str, data: bytes) -> str:
        """A file into the session's workspace; the path it has there."""
        return await self._keep(name, data)

    def news(self) -> list[str]:
        told, self._news = self._news, []
        return told

    async def settled(self) -> None:
        """Downloads that had begun are in the workspace."""
        await asyncio.gather(*self._chores, return_exceptions=True)

    async def close(self) -> None:
        for chore in self._chores:
            chore.cancel()
        await self.context.close()

    def _opened(self, page: "Page") -> None:
        self._watch(page)
        self.active = page  # a window that a page opens is what its visitor looks at

    def _watch(self, page: "Page") -> None:
        page.on("dialog", self._answer)
        page.on("download", self._download)
        page.on("crash", lambda _: self._news.append("The page crashed: open it again."))

    async def _answer(self, dialog: "Dialog") -> None:
        """Nobody is there to click, and a page with an open dialog stands still."""
        self._news.append(f"The page showed a {dialog.type}: {dialog.message[:500]!r}.")
        if dialog.type in ("alert", "beforeunload"):
            await dialog.accept()
        else:
            await dialog.dismiss()

    def _download(self, download: "Download") -> None:
        task = asyncio.get_running_loop().create_task(self._save(download))
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)

    async def _save(self, download: "Download") -> None:
        from playwright.async_api import Error  # noqa: PLC0415 - only where a browser is open

        try:
            where = await download.path()
            data = await asyncio.to_thread(_downloaded, Path(where))
            path = await self._keep(download.suggested_filename, data)
            self._news.append(f"Downloaded {path} ({len(data)} bytes).")
        except (Error, OSError, HoldfastError) as error:
            self._news.append(f"{download.suggested_filename} could not be saved: {error}")
        with suppress(Error, OSError):
            await download.delete()


async def _go(page: "Page", address: str) -> None:
    from playwright.async_api import Error  # noqa: PLC0415 - only where a browser is open

    try:
        await page.goto(address, wait_until="commit", timeout=10_000)
    except Error as error:
        log.info("A tab was not opened again: %s", error, extra={"action": "tab_lost"})


def _downloaded(path: Path) -> bytes:
    """Whoever has taken the browser over can put a link there, or a pipe, and a page as much as
    it likes: nothing is followed, waited for, or read that memory has no room for."""
    with open(os.open(path, _PLAIN), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no file")
        if status.st_size > MOST_DOWNLOADED:
            raise OSError(errno.EFBIG, f"it is larger than {MOST_DOWNLOADED >> 20} MB")
        return file.read(MOST_DOWNLOADED)


def _read(memo: Path) -> Kept:
    try:
        return msgspec.json.decode(memo.read_bytes(), type=Kept)
    except FileNotFoundError:
        return Kept()
    except (OSError, msgspec.MsgspecError) as error:
        log.warning("%s cannot be read: %s", memo, error, extra={"action": "tabs_lost"})
        return Kept()


def _write(memo: Path, kept: Kept) -> None:
    beside = memo.with_suffix(".new")
    beside.write_bytes(msgspec.json.encode(kept))
    beside.chmod(0o600)
    beside.replace(memo)

"""The `browser` tool: open, read, click, type, look, in a browser that the session keeps."""

import asyncio
import base64
import importlib.util
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from holdfast.core.messages.message import Image
from holdfast.core.turns.tool import Arguments, Danger, Replay, ToolContext, ToolFailed, ToolOutput
from holdfast.tools.arguments import decode, make_schema
from holdfast.tools.browser.launcher import find_chromium
from holdfast.tools.browser.pool import Browsers
from holdfast.tools.browser.session import Window

if TYPE_CHECKING:
    from playwright.async_api import Locator, Page

SHOWN = 12_000  # characters of a page at a time
_EXTRA = "playwright"

Act = Literal[
    "open", "read", "click", "type", "key", "scroll", "back", "tab", "screenshot", "close"
]


class BrowserArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    action: Act
    url: Annotated[str, msgspec.Meta(description="open")] = ""
    ref: Annotated[str, msgspec.Meta(description="click, type: as read shows it, e.g. e12")] = ""
    text: Annotated[str, msgspec.Meta(description="type: text; key: e.g. Enter")] = ""
    submit: Annotated[bool, msgspec.Meta(description="type: then press Enter")] = False
    tab: Annotated[int, msgspec.Meta(ge=1, description="tab: its number")] = 1
    offset: Annotated[int, msgspec.Meta(ge=0, description="read: characters to skip")] = 0


class BrowserTool:
    """Stateless: windows are the `Browsers`'."""

    schema = make_schema(
        "browser",
        "Use a web browser. Pages are shown as an accessibility tree whose elements have refs.",
        BrowserArguments,
    )
    toolset = "browser"
    replay = Replay.NEVER
    danger = Danger.OUTSIDE

    def __init__(self, browsers: Browsers, *, limit: float) -> None:
        self._browsers = browsers
        self._limit = limit
        self._acts: dict[str, Callable[[Window, BrowserArguments], Awaitable[str]]] = {
            "open": _open,
            "read": _read,
            "click": _click,
            "type": _type,
            "key": _key,
            "scroll": _scroll,
            "back": _back,
            "tab": _tab,
        }

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        from playwright.async_api import Error  # noqa: PLC0415 - heavy, few sessions browse
        from playwright.async_api import TimeoutError as TookTooLong  # noqa: PLC0415 - likewise

        wanted = decode(BrowserArguments, arguments)
        if wanted.action == "open":
            _address(wanted.url)  # a wrong one opens no browser
        if wanted.action == "close":
            await self._browsers.end(context.session_id)
            return ToolOutput(text="Closed. What was open is opened again when you come back.")
        try:
            async with asyncio.timeout(self._limit):
                return await self._act(context, wanted)
        except (TimeoutError, TookTooLong) as error:
            why = str(error).splitlines()[0] if str(error) else ""
            raise ToolFailed(f"{wanted.action} took too long. {why} Read the page.") from None
        except Error as error:
            if "closed" in str(error) or "crash" in str(error).lower():
                await self._browsers.lost(context.session_id)
                text = "The browser died. It starts again, with the same tabs, at the next call."
                raise ToolFailed(text) from None
            raise ToolFailed(f"{wanted.action} did not work: {str(error)[:1000]}") from None

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        return None

    async def _act(self, context: ToolContext, wanted: BrowserArguments) -> ToolOutput:
        async with self._browsers.window(context.session_id, workspace=context.workspace) as window:
            images: tuple[Image, ...] = ()
            if wanted.action == "screenshot":
                text, images = await _screenshot(window)
            else:
                text = await self._acts[wanted.action](window, wanted)
            await window.remember()
            await window.settled()
            return ToolOutput(text="\n".join([*window.news(), text]), images=images)


def can_browse(chromium: str) -> bool:
    """Whether the extra and a chromium are here; neither is imported or started for it."""
    return importlib.util.find_spec(_EXTRA) is not None and find_chromium(chromium) is not None


def _address(url: str) -> str:
    address = url if "://" in url else f"https://{url}"
    if urlsplit(address).scheme not in ("http", "https") or not urlsplit(address).hostname:
        raise ToolFailed(f"only http:// and https:// addresses can be opened, not {url!r}")
    return address


async def _open(window: Window, wanted: BrowserArguments) -> str:
    page = await window.page()
    await page.goto(_address(wanted.url), wait_until="domcontentloaded")
    return await _shown(window)


async def _read(window: Window, wanted: BrowserArguments) -> str:
    return await _shown(window, offset=wanted.offset)


async def _click(window: Window, wanted: BrowserArguments) -> str:
    await _element(await window.page(), wanted.ref).click()
    return await _after(window)


async def _type(window: Window, wanted: BrowserArguments) -> str:
    element = _element(await window.page(), wanted.ref)
    await element.fill(wanted.text)
    if wanted.submit:
        await element.press("Enter")
    return await _after(window)


async def _key(window: Window, wanted: BrowserArguments) -> str:
    await (await window.page()).keyboard.press(wanted.text or "Enter")
    return await _after(window)


async def _scroll(window: Window, wanted: BrowserArguments) -> str:
    page = await window.page()
    await page.mouse.wheel(0, -800 if wanted.text == "up" else 800)
    return await _after(window)


async def _back(window: Window, wanted: BrowserArguments) -> str:
    await (await window.page()).go_back(wait_until="domcontentloaded")
    return await _shown(window)


async def _tab(window: Window, wanted: BrowserArguments) -> str:
    if wanted.tab > len(window.tabs):
        raise ToolFailed(f"there is no tab {wanted.tab}; there are {len(window.tabs)}")
    window.active = window.tabs[wanted.tab - 1]
    await window.active.bring_to_front()
    return await _shown(window)


async def _screenshot(window: Window) -> tuple[str, tuple[Image, ...]]:
    """For people a file, for the model the picture itself: small, it is sent ever after."""
    page = await window.page()
    data = await page.screenshot(type="jpeg", quality=60)
    path = await window.put("screenshot.jpg", data)
    image = Image(media_type="image/jpeg", data=base64.b64encode(data).decode())
    return f"Saved as {path}: the page {page.url} as it is seen now.", (image,)


def _element(page: "Page", ref: str) -> "Locator":
    if not ref:
        raise ToolFailed("which element? Give its ref, as read shows it (for example e12).")
    return page.locator(f"aria-ref={ref.strip('[]').removeprefix('ref=')}")


async def _after(window: Window) -> str:
    """What an act led to. A click may lead to another page: what is on its way is waited for."""
    page = await window.page()
    await page.wait_for_load_state("domcontentloaded")
    return await _shown(window)


async def _shown(window: Window, *, offset: int = 0) -> str:
    page = await window.page()
    tree = await page.aria_snapshot(mode="ai")
    part = tree[offset : offset + SHOWN]
    if offset + len(part) < len(tree):
        part += f"\n[characters {offset} to {offset + len(part)} of {len(tree)}: read on by offset]"
    return f"{await page.title()}\n{page.url}{_tabs(window)}\n{part or '[an empty page]'}"


def _tabs(window: Window) -> str:
    if len(window.tabs) < 2:
        return ""
    lines = [
        f"{'>' if page is window.active else ' '} tab {number}: {page.url}"
        for number, page in enumerate(window.tabs, start=1)
    ]
    return "\n" + "\n".join(lines)

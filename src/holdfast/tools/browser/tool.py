"""The tool `browser`: open, read, click, type and take screenshots in the session's browser."""

import asyncio
import base64
import importlib.util
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from holdfast.core.messages.transcript import Image
from holdfast.core.turns.external import Effect, EffectKind, host_of, web_label
from holdfast.core.turns.tool import (
    Arguments,
    Danger,
    ReplayClass,
    ToolContext,
    ToolFailed,
    ToolOutput,
)
from holdfast.tools.arguments import decode, make_schema
from holdfast.tools.browser.launcher import find_chromium
from holdfast.tools.browser.pool import BrowserPool
from holdfast.tools.browser.session import BrowserSession

if TYPE_CHECKING:
    from playwright.async_api import Locator, Page, Route

MAX_SHOWN = 12_000  # characters of a page at a time
_PLAYWRIGHT = "playwright"

BrowserAction = Literal[
    "open", "read", "click", "type", "key", "scroll", "back", "tab", "screenshot", "close"
]


class BrowserArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    action: BrowserAction
    url: Annotated[str, msgspec.Meta(description="open")] = ""
    ref: Annotated[str, msgspec.Meta(description="click, type: as read shows it, e.g. e12")] = ""
    text: Annotated[str, msgspec.Meta(description="type: text; key: e.g. Enter")] = ""
    submit: Annotated[bool, msgspec.Meta(description="type: then press Enter")] = False
    tab: Annotated[int, msgspec.Meta(ge=1, description="tab: its number")] = 1
    offset: Annotated[int, msgspec.Meta(ge=0, description="read: characters to skip")] = 0


class BrowserTool:
    """Stateless: windows are the `BrowserPool`'."""

    schema = make_schema(
        "browser",
        "Use a web browser. Pages are shown as an accessibility tree whose elements have refs.",
        BrowserArguments,
    )
    toolset = "browser"
    replay = ReplayClass.NEVER
    danger = Danger.OUTSIDE

    def __init__(self, pool: BrowserPool, *, limit: float) -> None:
        self._pool = pool
        self._limit = limit
        self._actions: dict[str, Callable[[BrowserSession, BrowserArguments], Awaitable[str]]] = {
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

        request = decode(BrowserArguments, arguments)
        if request.action == "open":
            _check_url(request.url)  # a wrong one opens no browser
        if request.action == "close":
            await self._pool.end_session(context.session_id)
            return ToolOutput(text="Closed. What was open is opened again when you come back.")
        try:
            async with asyncio.timeout(self._limit):
                return await self._perform(context, request)
        except (TimeoutError, TookTooLong) as error:
            why = str(error).splitlines()[0] if str(error) else ""
            raise ToolFailed(f"{request.action} took too long. {why} Read the page.") from None
        except Error as error:
            if "closed" in str(error) or "crash" in str(error).lower():
                await self._pool.discard_crashed(context.session_id)
                text = "The browser died. It starts again, with the same tabs, at the next call."
                raise ToolFailed(text) from None
            raise ToolFailed(f"{request.action} did not work: {str(error)[:1000]}") from None

    def effect(self, arguments: Arguments) -> Effect | None:
        url = arguments.get("url")
        if arguments.get("action") != "open" or not isinstance(url, str):
            return None
        host = host_of(url)
        if host is None:
            return None
        return Effect(kind=EffectKind.CONTACT, text=f"browser open {url}", targets=(host,))

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        return None

    async def _perform(self, context: ToolContext, request: BrowserArguments) -> ToolOutput:
        async with self._pool.session(context.session_id, workspace=context.workspace) as session:
            images: tuple[Image, ...] = ()
            async with _guarded_navigation(session, context, request):
                if request.action == "screenshot":
                    text, images = await _screenshot(session)
                else:
                    text = await self._actions[request.action](session, request)
            await session.save_state()
            await session.finish_downloads()
            hosts = (host_of(page.url) for page in session.tabs if page.url != "about:blank")
            sources = dict.fromkeys(web_label(host) for host in hosts if host)
            return ToolOutput(
                text="\n".join([*session.take_notices(), text]),
                images=images,
                sources=tuple(sources) or (web_label("in the browser"),),
            )


@asynccontextmanager
async def _guarded_navigation(
    session: BrowserSession, context: ToolContext, request: BrowserArguments
) -> AsyncIterator[None]:
    """In the block, no page leads to a host that this call may not contact: a click or a form could
    send it what the agent knows. The host that a call opens was permitted before."""
    may_contact = context.may_contact
    if may_contact is None:
        yield
        return
    opened = host_of(request.url) if request.action == "open" else None

    async def check(route: "Route") -> None:
        host = host_of(route.request.url) if route.request.is_navigation_request() else None
        if host is None or host == opened or await may_contact(host):
            await route.fallback()
            return
        session.add_notice(
            f"The page led to {host}, which needs a permission of its own: open it, if the person "
            "wants it."
        )
        await route.abort()

    await session.context.route("**/*", check)
    try:
        yield
    finally:
        await session.context.unroute("**/*", check)


def is_browser_available(chromium: str) -> bool:
    """Whether the extra and a chromium are here; neither is imported or started for it."""
    return importlib.util.find_spec(_PLAYWRIGHT) is not None and find_chromium(chromium) is not None


def _check_url(url: str) -> str:
    address = url if "://" in url else f"https://{url}"
    if urlsplit(address).scheme not in ("http", "https") or not urlsplit(address).hostname:
        raise ToolFailed(f"only http:// and https:// addresses can be opened, not {url!r}")
    return address


async def _open(session: BrowserSession, request: BrowserArguments) -> str:
    page = await session.page()
    await page.goto(_check_url(request.url), wait_until="domcontentloaded")
    return await _render_page(session)


async def _read(session: BrowserSession, request: BrowserArguments) -> str:
    return await _render_page(session, offset=request.offset)


async def _click(session: BrowserSession, request: BrowserArguments) -> str:
    await _element(await session.page(), request.ref).click()
    return await _render_after_action(session)


async def _type(session: BrowserSession, request: BrowserArguments) -> str:
    element = _element(await session.page(), request.ref)
    await element.fill(request.text)
    if request.submit:
        await element.press("Enter")
    return await _render_after_action(session)


async def _key(session: BrowserSession, request: BrowserArguments) -> str:
    await (await session.page()).keyboard.press(request.text or "Enter")
    return await _render_after_action(session)


async def _scroll(session: BrowserSession, request: BrowserArguments) -> str:
    page = await session.page()
    await page.mouse.wheel(0, -800 if request.text == "up" else 800)
    return await _render_after_action(session)


async def _back(session: BrowserSession, request: BrowserArguments) -> str:
    await (await session.page()).go_back(wait_until="domcontentloaded")
    return await _render_page(session)


async def _tab(session: BrowserSession, request: BrowserArguments) -> str:
    if request.tab > len(session.tabs):
        raise ToolFailed(f"there is no tab {request.tab}; there are {len(session.tabs)}")
    session.active = session.tabs[request.tab - 1]
    await session.active.bring_to_front()
    return await _render_page(session)


async def _screenshot(session: BrowserSession) -> tuple[str, tuple[Image, ...]]:
    """For people a file, for the model the picture itself: small, it is sent ever after."""
    page = await session.page()
    data = await page.screenshot(type="jpeg", quality=60)
    path = await session.save_file("screenshot.jpg", data)
    image = Image(media_type="image/jpeg", data=base64.b64encode(data).decode())
    return f"Saved as {path}: the page {page.url} as it is seen now.", (image,)


def _element(page: "Page", ref: str) -> "Locator":
    if not ref:
        raise ToolFailed("which element? Give its ref, as read shows it (for example e12).")
    return page.locator(f"aria-ref={ref.strip('[]').removeprefix('ref=')}")


async def _render_after_action(session: BrowserSession) -> str:
    """What an act led to. A click may lead to another page: what is on its way is waited for."""
    page = await session.page()
    await page.wait_for_load_state("domcontentloaded")
    return await _render_page(session)


async def _render_page(session: BrowserSession, *, offset: int = 0) -> str:
    page = await session.page()
    tree = await page.aria_snapshot(mode="ai")
    part = tree[offset : offset + MAX_SHOWN]
    if offset + len(part) < len(tree):
        part += f"\n[characters {offset} to {offset + len(part)} of {len(tree)}: read on by offset]"
    return f"{await page.title()}\n{page.url}{_render_tabs(session)}\n{part or '[an empty page]'}"


def _render_tabs(session: BrowserSession) -> str:
    if len(session.tabs) < 2:
        return ""
    lines = [
        f"{'>' if page is session.active else ' '} tab {number}: {page.url}"
        for number, page in enumerate(session.tabs, start=1)
    ]
    return "\n" + "\n".join(lines)

"""The tool `fetch`: gets a web page as text, from public addresses only."""

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urljoin, urlsplit

import msgspec

from holdfast.core.ids import SessionId
from holdfast.core.net import guarded_socket_factory
from holdfast.core.turns.external import Effect, EffectKind, host_of, web_label
from holdfast.core.turns.tool import (
    Arguments,
    Danger,
    ReplayClass,
    ToolContext,
    ToolFailed,
    ToolOutput,
)
from holdfast.system.tls import prepare_trust
from holdfast.tools.arguments import decode, make_schema

if TYPE_CHECKING:
    import aiohttp

    from holdfast.system.egress import EgressPolicy

MAX_REDIRECTS = 5
MAX_SHOWN = 20_000  # characters of one answer
REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
TEXT_TYPES = ("text/", "application/json", "application/xml", "application/xhtml", "+json", "+xml")
_DEFAULT_PORTS = {"http": 80, "https": 443}
USER_AGENT = "Mozilla/5.0 (compatible; Holdfast)"


class FetchArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    url: str
    offset: Annotated[int, msgspec.Meta(ge=0, description="characters to skip")] = 0


class FetchTool:
    """Every host and every address is checked before a connection to it."""

    schema = make_schema("fetch", "Get a web page as text.", FetchArguments)
    toolset = "web"
    replay = ReplayClass.SAFE
    danger = Danger.OUTSIDE

    def __init__(
        self,
        egress: Callable[[], "EgressPolicy"],
        *,
        seconds: float = 30,
        max_bytes: int = 2_000_000,
    ) -> None:
        """`egress` returns the policy of the gateway; it is called when a page is fetched."""
        self._egress, self._seconds, self._max_bytes = egress, seconds, max_bytes

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        request = decode(FetchArguments, arguments)
        try:
            async with asyncio.timeout(self._seconds):
                text, sources = await self._fetch(context, request.url)
        except TimeoutError:
            raise ToolFailed(f"no answer within {self._seconds:.0f} s: {request.url}") from None
        part = text[request.offset : request.offset + MAX_SHOWN]
        end = request.offset + len(part)
        if end < len(text):
            part += f"\n[characters {request.offset} to {end} of {len(text)}: continue with offset]"
        return ToolOutput(text=part or "[the page holds no text]", sources=sources)

    def effect(self, arguments: Arguments) -> Effect | None:
        url = arguments.get("url")
        host = host_of(url) if isinstance(url, str) else None
        if host is None:
            return None
        return Effect(kind=EffectKind.CONTACT, text=f"fetch {url}", targets=(host,))

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        return await self.run(context, arguments)

    async def _fetch(self, context: ToolContext, url: str) -> tuple[str, tuple[str, ...]]:
        import aiohttp  # noqa: PLC0415 - heavy, and most turns fetch nothing

        policy = self._egress()
        guarded = guarded_socket_factory(
            lambda address: not policy.address_refusal(str(address)), socket.socket
        )
        connector = aiohttp.TCPConnector(socket_factory=guarded, limit=1)
        headers = {"User-Agent": USER_AGENT, "Accept": "text/html,text/plain,*/*;q=0.5"}
        await prepare_trust()
        async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
            try:
                return await self._follow(context, session, url, policy=policy)
            except (aiohttp.ClientError, OSError) as error:
                label = web_label(host_of(url) or "")
                raise ToolFailed(f"cannot fetch {url}: {error}", sources=(label,)) from None

    async def _follow(
        self,
        context: ToolContext,
        session: "aiohttp.ClientSession",
        url: str,
        *,
        policy: "EgressPolicy",
    ) -> tuple[str, tuple[str, ...]]:
        """The text of the page, and the labels of the hosts on the way to it."""
        sources: dict[str, None] = {}
        for _ in range(MAX_REDIRECTS + 1):
            host = host_of(url) or ""
            is_new = bool(sources) and web_label(host) not in sources
            if is_new and context.may_contact and not await context.may_contact(host):
                raise ToolFailed(
                    f"the page redirects to {url}. This host needs a permission of its own: fetch "
                    "that address itself, if the person wants it.",
                    sources=tuple(sources),
                )
            await self._check(url, context.session_id, policy)
            sources[web_label(host)] = None
            async with session.get(url, allow_redirects=False) as response:
                target = response.headers.get("Location")
                if response.status not in REDIRECT_STATUSES or target is None:
                    return await self._read(response), tuple(sources)
            url = urljoin(url, target)
        raise ToolFailed(
            f"more than {MAX_REDIRECTS} redirects, the last to {url}", sources=tuple(sources)
        )

    async def _check(self, url: str, session_id: SessionId, policy: "EgressPolicy") -> None:
        """Before each hop. A name may have another address a moment later: the guard of the socket
        checks the one that is connected to."""
        from holdfast.system.egress import EgressRefused  # noqa: PLC0415 - most turns fetch nothing

        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise ToolFailed(f"{url} is no URL: {error}") from None
        if parts.scheme not in _DEFAULT_PORTS or not host:
            raise ToolFailed(f"only http:// and https:// addresses can be fetched, not {url}")
        try:
            await policy.addresses(session_id, host, port or _DEFAULT_PORTS[parts.scheme])
        except EgressRefused as refused:
            raise ToolFailed(str(refused)) from None

    async def _read(self, response: "aiohttp.ClientResponse") -> str:
        from holdfast.core.text.html import decode_page, html_to_text  # noqa: PLC0415 - few pages are

        kind = response.content_type
        if not any(mark in kind for mark in TEXT_TYPES):
            label = web_label(response.url.host or "")
            raise ToolFailed(f"{response.url} is {kind}, which is no text", sources=(label,))
        data = bytearray()
        async for piece in response.content.iter_chunked(65536):
            data += piece
            if len(data) > self._max_bytes:
                break
        text = decode_page(bytes(data[: self._max_bytes]), response.charset)
        if "html" in kind:
            # Two megabytes of markup take a second: not on the loop.
            text = await asyncio.to_thread(html_to_text, text, base=str(response.url))
        return text if response.status < 400 else f"[HTTP {response.status}]\n{text}"

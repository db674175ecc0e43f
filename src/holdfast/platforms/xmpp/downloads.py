"""Downloads: files that people send, which lie at some server under a link (XEP-0066)."""

from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import SplitResult, unquote, urlsplit

import aiohttp

from holdfast.core.errors import NotConnected
from holdfast.core.messages.attachment import Attachment, NoAttachment
from holdfast.platforms.fetched import body_of
from holdfast.platforms.xmpp.stanza import Said
from holdfast.platforms.xmpp.web import Web

_TIMEOUT = aiohttp.ClientTimeout(sock_connect=10.0, sock_read=20.0)


class Downloads:
    """Fetches from servers that are trusted, and from those in the public network: any other link
    could lead to what this machine reaches and its writer does not."""

    def __init__(self, web: Web, *, trusted: Sequence[str], tls: bool, most: int) -> None:
        self._web = web
        self._trusted = tuple(trusted)
        self._tls = tls
        self._most = most  # bytes

    def attached_to(self, said: Said, *, last_try: bool) -> Sequence[Attachment]:
        """None is fetched yet. At the last try, what cannot be fetched is not to be had: whatever
        else is said waits behind it."""
        if not said.url or not self._most:
            return ()
        name = unquote(said.url.partition("?")[0].rpartition("/")[2]) or "file"
        return (Attachment(name=name, fetch=self._fetching(said.url.strip(), last=last_try)),)

    def _fetching(self, url: str, *, last: bool) -> Callable[[], Awaitable[bytes]]:
        async def fetch() -> bytes:
            try:
                return await self._fetch(self._way_to(urlsplit(url)), url)
            except ValueError as error:
                raise NoAttachment(f"it is behind no link that can be followed: {error}") from error
            except (TimeoutError, aiohttp.ClientError) as error:
                told = f"it could not be fetched: {str(error) or type(error).__name__}"
                raise (NoAttachment(told) if last else NotConnected(told)) from error

        return fetch

    def _way_to(self, address: SplitResult) -> aiohttp.ClientSession:
        host = address.hostname or ""
        known = any(host == each or host.endswith(f".{each}") for each in self._trusted)
        schemes = ("https", "http") if known and not self._tls else ("https",)
        if address.scheme not in schemes or not host:
            raise ValueError(f"{address.scheme or 'nothing'} is not {' or '.join(schemes)}")
        return self._web.ours if known else self._web.theirs

    async def _fetch(self, way: aiohttp.ClientSession, url: str) -> bytes:
        async with way.get(url, timeout=_TIMEOUT, allow_redirects=False) as response:
            if 300 <= response.status < 500:
                raise NoAttachment(f"its server does not give it ({response.status})")
            response.raise_for_status()
            return await body_of(response, most=self._most)

"""Downloads: files that people send, which lie at some server under a link (XEP-0066)."""

from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import SplitResult, unquote, urlsplit

import aiohttp

from holdfast.core.errors import NotConnected
from holdfast.core.messages.attachment import Attachment, AttachmentUnavailable
from holdfast.platforms.fetched import read_body
from holdfast.platforms.xmpp.stanza import XmppMessage
from holdfast.platforms.xmpp.web import HttpSessions

_TIMEOUT = aiohttp.ClientTimeout(sock_connect=10.0, sock_read=20.0)


class XmppDownloads:
    """Fetches from servers that are trusted, and from those in the public network: any other link
    could lead to what this machine reaches and its writer does not."""

    def __init__(
        self, sessions: HttpSessions, *, trusted_hosts: Sequence[str], tls: bool, max_bytes: int
    ) -> None:
        self._sessions = sessions
        self._trusted_hosts = tuple(trusted_hosts)
        self._tls = tls
        self._max_bytes = max_bytes  # bytes

    def attachments_of(self, message: XmppMessage, *, last_attempt: bool) -> Sequence[Attachment]:
        """None is fetched yet. At the last try, what cannot be fetched is not to be had: whatever
        else is said waits behind it."""
        if not message.url or not self._max_bytes:
            return ()
        name = unquote(message.url.partition("?")[0].rpartition("/")[2]) or "file"
        return (
            Attachment(
                name=name, fetch=self._make_fetch(message.url.strip(), last_attempt=last_attempt)
            ),
        )

    def _make_fetch(self, url: str, *, last_attempt: bool) -> Callable[[], Awaitable[bytes]]:
        async def fetch() -> bytes:
            try:
                return await self._fetch(self._session_for(urlsplit(url)), url)
            except ValueError as error:
                raise AttachmentUnavailable(
                    f"it is behind no link that can be followed: {error}"
                ) from error
            except (TimeoutError, aiohttp.ClientError) as error:
                told = f"it could not be fetched: {str(error) or type(error).__name__}"
                raise (
                    AttachmentUnavailable(told) if last_attempt else NotConnected(told)
                ) from error

        return fetch

    def _session_for(self, address: SplitResult) -> aiohttp.ClientSession:
        host = address.hostname or ""
        known = any(host == each or host.endswith(f".{each}") for each in self._trusted_hosts)
        schemes = ("https", "http") if known and not self._tls else ("https",)
        if address.scheme not in schemes or not host:
            raise ValueError(f"{address.scheme or 'nothing'} is not {' or '.join(schemes)}")
        return self._sessions.unrestricted if known else self._sessions.public_only

    async def _fetch(self, session: aiohttp.ClientSession, url: str) -> bytes:
        async with session.get(url, timeout=_TIMEOUT, allow_redirects=False) as response:
            if 300 <= response.status < 500:
                raise AttachmentUnavailable(f"its server does not give it ({response.status})")
            response.raise_for_status()
            return await read_body(response, max_bytes=self._max_bytes)

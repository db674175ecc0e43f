"""Downloads: files that people send, which lie at a server of theirs under a link (XEP-0363)."""

from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import SplitResult, unquote, urlsplit

import aiohttp

from holdfast.core.attachment import Attachment, NoAttachment
from holdfast.core.errors import NotConnected
from holdfast.platforms.xmpp.stanza import Said, bare

_PIECE = 64 * 1024
_TIMEOUT = aiohttp.ClientTimeout(sock_connect=10.0, sock_read=20.0)


class Downloads:
    """Fetches from the server of whoever wrote, from ours, and from those that were named, and from
    no other: a link could lead to whatever this machine reaches and its writer does not."""

    def __init__(
        self, http: aiohttp.ClientSession, *, hosts: Sequence[str], tls: bool, most: int
    ) -> None:
        self._http = http
        self._hosts = tuple(hosts)
        self._schemes = ("https",) if tls else ("https", "http")
        self._most = most  # bytes

    def attached_to(self, said: Said, *, writer: str, last_try: bool) -> Sequence[Attachment]:
        """None is fetched yet. At the last try, what cannot be fetched is not to be had: whatever
        else is said waits behind it."""
        if not said.url or not self._most:
            return ()
        name = unquote(urlsplit(said.url).path.rpartition("/")[2]) or "file"
        fetch = self._fetching(said.url.strip(), bare(writer), last=last_try)
        return (Attachment(name=name, fetch=fetch),)

    def _fetching(self, url: str, writer: str, *, last: bool) -> Callable[[], Awaitable[bytes]]:
        async def fetch() -> bytes:
            address = urlsplit(url)
            if not self._may_fetch(address, writer.rpartition("@")[2]):
                raise NoAttachment(
                    f"files of {address.hostname} are not fetched; platforms.xmpp.file_hosts can "
                    "name it"
                )
            try:
                return await self._fetch(url)
            except (TimeoutError, aiohttp.ClientError) as error:
                told = f"it could not be fetched: {str(error) or type(error).__name__}"
                raise (NoAttachment(told) if last else NotConnected(told)) from error

        return fetch

    def _may_fetch(self, address: SplitResult, domain: str) -> bool:
        if address.scheme not in self._schemes or not address.hostname:
            return False
        # The server of a room is not one of the writer's; rooms.example.org is of example.org.
        known = [*self._hosts, domain]
        return any(
            address.hostname == host or address.hostname.endswith(f".{host}")
            for host in known
            if host
        )

    async def _fetch(self, url: str) -> bytes:
        held = bytearray()
        async with self._http.get(url, timeout=_TIMEOUT, allow_redirects=False) as response:
            if 300 <= response.status < 500:
                raise NoAttachment(f"its server does not give it ({response.status})")
            response.raise_for_status()
            async for piece in response.content.iter_chunked(_PIECE):
                held += piece
                if len(held) > self._most:
                    raise NoAttachment(f"it is larger than {self._most // 2**20} MB")
        return bytes(held)

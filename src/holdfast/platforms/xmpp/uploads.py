"""Uploads: files of ours are left at the server, and people are sent the link (XEP-0363).

https://xmpp.org/extensions/xep-0363.html
"""

import asyncio
from collections.abc import AsyncIterator

import aiohttp

from holdfast.core.errors import NotConnected, OutcomeUnknown, Refused
from holdfast.core.messages.outbox import SentFile
from holdfast.platforms.xmpp.stanza import tag
from holdfast.platforms.xmpp.wire import Rejected, Wire, element

_UPLOAD = "urn:xmpp:http:upload:0"
_INFO = "http://jabber.org/protocol/disco#info"
_ITEMS = "http://jabber.org/protocol/disco#items"
_SOON = 5.0  # seconds
_TIMEOUT = aiohttp.ClientTimeout(total=120.0, sock_connect=10.0)
_HEADERS = frozenset({"authorization", "cookie", "expires"})  # that a server may ask for
_KIND = "application/octet-stream"


async def find_service(wire: Wire, domain: str) -> str | None:
    """Who takes files; None: nobody there, or nobody who says so soon: without files an account is
    of use as well. Services are found as in XEP-0030."""
    try:
        async with asyncio.timeout(_SOON):
            addresses = [each async for each in _services(wire, domain)]
            taken = await asyncio.gather(*(_takes_files(wire, each) for each in addresses))
    except TimeoutError:
        return None
    return next((each for each, takes in zip(addresses, taken, strict=True) if takes), None)


async def _takes_files(wire: Wire, address: str) -> bool:
    try:
        answer = await wire.ask(element("query", _INFO), to=address)
    except (Rejected, OutcomeUnknown):
        return False
    features = answer.iterfind(f"{tag('query', _INFO)}/{tag('feature', _INFO)}")
    return any(each.get("var") == _UPLOAD for each in features)


async def _services(wire: Wire, domain: str) -> AsyncIterator[str]:
    yield domain
    try:
        answer = await wire.ask(element("query", _ITEMS), to=domain)
    except (Rejected, OutcomeUnknown):
        return
    for item in answer.iterfind(f"{tag('query', _ITEMS)}/{tag('item', _ITEMS)}"):
        if item.get("jid"):
            yield item.get("jid", "")


class Uploads:
    """Leaves files at one service. Keeps nothing."""

    def __init__(self, wire: Wire, http: aiohttp.ClientSession, *, service: str) -> None:
        self._wire = wire
        self._http = http
        self._service = service

    async def leave(self, file: SentFile) -> str:
        """The link to it. Nobody has seen anything by this, so whatever fails may be tried again:
        raises `NotConnected`, or `Refused` where the server does not take it."""
        try:
            put, headers, get = await self._slot(file)
            async with self._http.put(
                put, data=file.data, headers=headers, timeout=_TIMEOUT, allow_redirects=False
            ) as response:
                if response.status >= 500:
                    raise NotConnected(f"the file was not taken ({response.status})")
                if response.status >= 300:
                    raise Refused(f"{self._service} does not take the file ({response.status})")
        except (OutcomeUnknown, aiohttp.ClientError, TimeoutError) as error:
            raise NotConnected(f"the file was not taken: {error!r}") from error
        return get

    async def _slot(self, file: SentFile) -> tuple[str, dict[str, str], str]:
        size = str(len(file.data))
        request = element("request", _UPLOAD, filename=file.name, size=size)
        request.set("content-type", _KIND)
        answer = await self._wire.ask(request, to=self._service)
        slot = answer.find(tag("slot", _UPLOAD))
        put = None if slot is None else slot.find(tag("put", _UPLOAD))
        get = None if slot is None else slot.find(tag("get", _UPLOAD))
        if put is None or get is None:
            raise Refused(f"{self._service} gave no place for the file")
        headers = {"Content-Type": _KIND}
        for each in put.iterfind(tag("header", _UPLOAD)):
            name, value = each.get("name", ""), each.text or ""
            if name.lower() in _HEADERS:
                headers[name] = value.replace("\r", "").replace("\n", "")
        return put.get("url", ""), headers, get.get("url", "")

"""Uploads: files of ours are left at the server, and people are sent the link (XEP-0363).

https://xmpp.org/extensions/xep-0363.html
"""

import asyncio
from collections.abc import AsyncIterator

import aiohttp

from holdfast.core.errors import NotConnected, OutcomeUnknown, SendRejected
from holdfast.core.messages.outbox import OutboundFile
from holdfast.platforms.xmpp.stanza import tag
from holdfast.platforms.xmpp.wire import StanzaRejected, XmppStream, make_element

_UPLOAD = "urn:xmpp:http:upload:0"
_INFO = "http://jabber.org/protocol/disco#info"
_ITEMS = "http://jabber.org/protocol/disco#items"
_DISCOVERY_TIMEOUT = 5.0  # seconds
_TIMEOUT = aiohttp.ClientTimeout(total=120.0, sock_connect=10.0)
_ALLOWED_HEADERS = frozenset({"authorization", "cookie", "expires"})  # that a server may ask for
_CONTENT_TYPE = "application/octet-stream"


async def find_upload_service(stream: XmppStream, domain: str) -> str | None:
    """Who takes files; None: nobody there, or nobody who says so soon: without files an account is
    of use as well. Services are found as in XEP-0030."""
    try:
        async with asyncio.timeout(_DISCOVERY_TIMEOUT):
            addresses = [each async for each in _discover_services(stream, domain)]
            taken = await asyncio.gather(*(_accepts_uploads(stream, each) for each in addresses))
    except TimeoutError:
        return None
    return next((each for each, takes in zip(addresses, taken, strict=True) if takes), None)


async def _accepts_uploads(stream: XmppStream, address: str) -> bool:
    try:
        answer = await stream.request(make_element("query", _INFO), to=address)
    except (StanzaRejected, OutcomeUnknown):
        return False
    features = answer.iterfind(f"{tag('query', _INFO)}/{tag('feature', _INFO)}")
    return any(each.get("var") == _UPLOAD for each in features)


async def _discover_services(stream: XmppStream, domain: str) -> AsyncIterator[str]:
    yield domain
    try:
        answer = await stream.request(make_element("query", _ITEMS), to=domain)
    except (StanzaRejected, OutcomeUnknown):
        return
    for item in answer.iterfind(f"{tag('query', _ITEMS)}/{tag('item', _ITEMS)}"):
        if item.get("jid"):
            yield item.get("jid", "")


class XmppUploads:
    """Leaves files at one service. Keeps nothing."""

    def __init__(self, stream: XmppStream, http: aiohttp.ClientSession, *, service: str) -> None:
        self._stream = stream
        self._http = http
        self._service = service

    async def upload(self, file: OutboundFile) -> str:
        """The link to it. Nobody has seen anything by this, so whatever fails may be tried again:
        raises `NotConnected`, or `Refused` where the server does not take it."""
        try:
            put, headers, get = await self._request_slot(file)
            async with self._http.put(
                put, data=file.data, headers=headers, timeout=_TIMEOUT, allow_redirects=False
            ) as response:
                if response.status >= 500:
                    raise NotConnected(f"the file was not taken ({response.status})")
                if response.status >= 300:
                    raise SendRejected(
                        f"{self._service} does not take the file ({response.status})"
                    )
        except (OutcomeUnknown, aiohttp.ClientError, TimeoutError) as error:
            raise NotConnected(f"the file was not taken: {error!r}") from error
        return get

    async def _request_slot(self, file: OutboundFile) -> tuple[str, dict[str, str], str]:
        size = str(len(file.data))
        request = make_element("request", _UPLOAD, filename=file.name, size=size)
        request.set("content-type", _CONTENT_TYPE)
        answer = await self._stream.request(request, to=self._service)
        slot = answer.find(tag("slot", _UPLOAD))
        put = None if slot is None else slot.find(tag("put", _UPLOAD))
        get = None if slot is None else slot.find(tag("get", _UPLOAD))
        if put is None or get is None:
            raise SendRejected(f"{self._service} gave no place for the file")
        headers = {"Content-Type": _CONTENT_TYPE}
        for each in put.iterfind(tag("header", _UPLOAD)):
            name, value = each.get("name", ""), each.text or ""
            if name.lower() in _ALLOWED_HEADERS:
                headers[name] = value.replace("\r", "").replace("\n", "")
        return put.get("url", ""), headers, get.get("url", "")

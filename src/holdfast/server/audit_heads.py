"""Sends the head of the audit off the machine: number and hash of its last row.

A head that was stored elsewhere shows later that a row up to it was changed or removed, also if the
whole chain was recalculated: `holdfast audit verify --head`. Imported only where `[audit]` names a
receiver.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import aiohttp
import msgspec

from holdfast.core.config.settings import AuditSettings
from holdfast.core.errors import StoreError
from holdfast.core.people.audit import AuditFilter
from holdfast.core.ports.runtime import Clock, IdFactory
from holdfast.core.ports.store import StoreReader
from holdfast.core.ports.store_queries import ListAudit
from holdfast.core.secrets import Secret
from holdfast.platforms.webhook.signatures import standard_headers

log = logging.getLogger(__name__)

_TIMEOUT = 10.0  # seconds of one post
_SYSLOG_PORT = 514
_SYSLOG_PRIORITY = 10 * 8 + 5  # facility authpriv, severity notice


class AuditHead(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="audit.head"):
    """What a receiver gets. `head` is what `holdfast audit verify --head` takes."""

    gateway: str
    at: float  # when it was sent
    seq: int
    hash: str

    @property
    def head(self) -> str:
        return f"{self.seq}:{self.hash}"


class AuditHeadSender:
    """Owns the time of the next head. It is also sent where nothing is new: a receiver that hears
    nothing for longer than the interval knows that the gateway is down or cut off."""

    def __init__(
        self,
        settings: AuditSettings,
        reads: StoreReader,
        *,
        secret: Secret | None,
        gateway: str,
        clock: Clock,
        new_id: IdFactory,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._settings = settings
        self._reads = reads
        self._secret = secret
        self._gateway = gateway
        self._clock = clock
        self._new_id = new_id
        self._sleep = sleep

    async def run(self) -> None:
        """Runs forever. A head that could not be sent is logged; the next one contains it."""
        while True:
            await self.send()
            await self._sleep(self._settings.interval)

    async def send(self) -> None:
        try:
            newest = await self._reads.read(ListAudit(where=AuditFilter(), limit=1))
        except StoreError as error:
            _log_failure("the store", error)
            return
        if not newest:
            return
        head = AuditHead(
            gateway=self._gateway, at=self._clock.now(), seq=newest[0].seq, hash=newest[0].hash
        )
        if self._settings.syslog:
            try:
                # A name is looked up, and a local socket may be full.
                await asyncio.to_thread(_send_syslog, self._settings.syslog, head)
            except OSError as error:
                _log_failure(self._settings.syslog, error)
        if self._settings.webhook:
            try:
                await self._post(head)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                _log_failure(self._settings.webhook, error)

    async def _post(self, head: AuditHead) -> None:
        assert self._secret is not None, "checked with the configuration"
        body = msgspec.json.encode(head)
        headers = standard_headers(
            self._secret, message_id=self._new_id("head"), timestamp=head.at, body=body
        )
        headers["Content-Type"] = "application/json"
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT)
        async with (
            aiohttp.ClientSession(timeout=timeout) as http,
            http.post(
                self._settings.webhook, data=body, headers=headers, allow_redirects=False
            ) as response,
        ):
            if response.status >= 300:
                raise aiohttp.ClientError(f"it answered {response.status}")


def _send_syslog(target: str, head: AuditHead) -> None:
    """One RFC 5424 message. Syslog neither confirms it nor proves its sender."""
    message = f"<{_SYSLOG_PRIORITY}>1 - {head.gateway} holdfast - audit-head - {head.head}".encode()
    parts = urlsplit(target)
    if parts.scheme == "unix":
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as local:
            local.settimeout(_TIMEOUT)
            local.sendto(message, parts.path)
        return
    address = (parts.hostname or "", parts.port or _SYSLOG_PORT)
    family, kind, protocol, _, found = socket.getaddrinfo(*address, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as remote:
        remote.sendto(message, found)


def _log_failure(target: str, error: Exception) -> None:
    log.warning(
        "Could not send the head of the audit to %s: %s; the next one is tried in its turn",
        target,
        error,
        extra={"action": "audit_head_not_sent"},
    )

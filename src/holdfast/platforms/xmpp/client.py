"""The connection to an XMPP server, by slixmpp: encryption, login, stream management.

Importing this module imports the library: import it lazily, in a thread. Stanzas are read and
written by this platform itself, in order, because none may overtake another.
"""

import asyncio
import hashlib
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from xml.etree.ElementTree import Element

from slixmpp import ClientXMPP, Iq, Message, Presence
from slixmpp.exceptions import IqError, IqTimeout
from slixmpp.util.sasl.mechanisms import SCRAM
from slixmpp.xmlstream.handler import Callback
from slixmpp.xmlstream.matcher import MatchXPath

from holdfast.core.errors import (
    AccountDisconnected,
    AccountInUse,
    ConnectError,
    ConnectRefused,
    NotConnected,
    OutcomeUnknown,
)
from holdfast.core.secrets import Secret
from holdfast.platforms.xmpp.archive import MAM
from holdfast.platforms.xmpp.events import StanzaRejected, bare_jid, parse_error, tag
from holdfast.platforms.xmpp.plugin import XmppSettings

# Below WARNING the library logs whole stanzas, including the password.
logging.getLogger("slixmpp").setLevel(logging.WARNING)
# The reason of a refused login is reported by `login_error`.
logging.getLogger("slixmpp.features.feature_mechanisms").setLevel(logging.CRITICAL)

_CLOSE_TIMEOUT = 1.0  # seconds for a server to close its side
_ACK_REQUEST = "<r xmlns='urn:xmpp:sm:3'/>"
_NO_ACK_WINDOW = 2**31  # stanzas: we request acks ourselves, after each message
# https://www.rfc-editor.org/rfc/rfc6120#section-6.5.10
_TEMPORARY_FAILURE = "temporary-auth-failure"


def _fast_pbkdf2(mechanism: SCRAM, text: bytes, salt: bytes, iterations: int) -> bytes:
    """RFC 5802, Hi. The library does ten thousand iterations in Python, which blocks the event
    loop; this does the same forty times as fast."""
    name = mechanism.hash_name.replace("SHA-", "SHA")
    return hashlib.pbkdf2_hmac(name, bytes(text), salt, iterations)


SCRAM.Hi = _fast_pbkdf2  # type: ignore[assignment,method-assign]


def login_error(jid: str, failures: Sequence[str], *, encrypted: bool, table: str) -> ConnectError:
    """`failures` are the server's answers to each login mechanism that was tried; `table` is the
    configuration table of the account."""
    if _TEMPORARY_FAILURE in failures:
        return AccountDisconnected(
            "the server of {jid} cannot check passwords at the moment", jid=jid
        )
    if failures:
        return ConnectRefused(
            "the server rejects the login of {jid} ({failure}): the account does not "
            "exist, or its password is wrong",
            jid=jid,
            failure=failures[0],
            table=table,
            remedy="Set {table}.jid and {table}.password to those of an existing account.",
        )
    if not encrypted:
        return ConnectRefused(
            "the server of {jid} offers no encryption, which is required",
            jid=jid,
            table=table,
            remedy="Enable TLS at the server; for a server on this machine, set {table}.host = "
            '"127.0.0.1" and {table}.tls = false.',
        )
    return ConnectRefused("the server of {jid} offers no supported login mechanism", jid=jid)


def stream_error(condition: str, text: str, settings: XmppSettings, *, table: str) -> ConnectError:
    """https://www.rfc-editor.org/rfc/rfc6120#section-4.9.3"""
    description = f"{condition} ({text})" if text else condition
    if condition == "conflict":
        return AccountInUse(
            "another program connected as {jid}/{resource}, so the server closed this connection",
            jid=settings.jid,
            resource=settings.resource,
        )
    if condition == "host-unknown":
        return ConnectRefused(
            "the server does not serve the domain of {jid}",
            jid=settings.jid,
            table=table,
            remedy="Correct {table}.jid or {table}.host.",
        )
    return AccountDisconnected(
        "the server closed the connection: {description}", description=description
    )


def certificate_error(jid: str, error: Exception, *, table: str) -> ConnectError:
    """Not permanent: the server may renew its certificate at any time."""
    return AccountDisconnected(
        "the certificate of the server of {jid} cannot be verified: {error}. If it is "
        "signed by your own authority, set {table}.ca_file",
        jid=jid,
        error=error,
        table=table,
    )


class XmppClient(ClientXMPP):
    """Owns one connection, and is not reused. `on_message`, `on_presence`, `on_ack` and
    `on_activity` are called with each message, with each presence, with the id of each message that
    the server has acknowledged, and for all received data."""

    def __init__(
        self,
        settings: XmppSettings,
        password: Secret,
        *,
        resource: str,
        context: ssl.SSLContext,
        timeout: float,
        table: str,
    ) -> None:
        address = f"{settings.jid}/{resource}" if resource else settings.jid
        super().__init__(address, password.reveal(), ssl_context=context)
        self.on_message: Callable[[Element], None] = _ignore
        self.on_presence: Callable[[Element], None] = _ignore
        self.on_ack: Callable[[str], None] = _ignore
        self.on_activity: Callable[[], None] = _ignore_activity
        self.ended: asyncio.Future[ConnectError] = self.loop.create_future()
        self._settings = settings
        self._timeout = timeout  # seconds for a response
        self._table = table  # the configuration table of the account
        self._ready: asyncio.Future[None] = self.loop.create_future()
        self._end_reason: ConnectError | None = None
        self._login_failures: list[str] = []  # by mechanism
        self._connect_failure: object = "no server was found"
        self._archive_results: dict[str, list[Element]] = {}  # by query id
        self._configure(settings)
        self._register_handlers()

    def _configure(self, settings: XmppSettings) -> None:
        self.enable_direct_tls = self.enable_starttls = settings.tls
        self.enable_plaintext = not settings.tls
        self.roster.auto_authorize = None  # type: ignore[assignment]  # the platform answers subscriptions
        if not settings.tls:
            login = {"unencrypted_scram": True, "unencrypted_plain": True}
            self.plugin["feature_mechanisms"].config.update(login)
        self.register_plugin("xep_0198", {"allow_resume": False, "window": _NO_ACK_WINDOW})

    def _register_handlers(self) -> None:
        for kind, handle in (("message", self._on_message), ("presence", self._on_presence)):
            self.register_handler(Callback(f"platform {kind}", MatchXPath(tag(kind)), handle))
        for event, handler in (
            ("stream_negotiated", self._on_negotiated),
            ("disconnected", self._on_disconnected),
            ("connection_failed", self._on_connect_failed),
            ("failed_auth", self._on_auth_failed),
            ("failed_all_auth", self._on_auth_exhausted),
            ("stream_error", self._on_stream_error),
            ("ssl_invalid_chain", self._on_bad_certificate),
            ("stanza_acked", self._on_acked),
        ):
            self.add_event_handler(event, handler)

    @asynccontextmanager
    async def open_session(self) -> AsyncIterator[None]:
        """Logs in, without sending a presence. Raises a `ConnectError`."""
        try:
            await self._open_transport()
            await _wait_first(self._ready, self.ended)
            if self.ended.done():
                raise self.ended.result()
            yield
        finally:
            await self._close()

    async def _open_transport(self) -> None:
        host = self._settings.host or None
        retry = await self.connect(host, self._settings.port if host else None)
        if retry is not None and not self.ended.done():
            where = f"{host}:{self._settings.port}" if host else self._settings.jid
            raise AccountDisconnected(
                "{where} cannot be reached: {connect_failure}",
                where=where,
                connect_failure=self._connect_failure,
            )

    async def _close(self) -> None:
        self.cancel_connection_attempt()
        try:
            if self.transport is not None:
                await self.disconnect(wait=_CLOSE_TIMEOUT, ignore_send_queue=True)
        finally:
            self.abort()
            for name in list(self.scheduled_events):
                self.cancel_schedule(name)
            if self._run_out_filters is not None:
                self._run_out_filters.cancel()

    @property
    def has_acks(self) -> bool:
        return "stream_management" in self.features

    def post_message(self, message: Element) -> None:
        self._send_stanza(Message(self, xml=message))  # type: ignore[no-untyped-call]
        self._request_ack()

    def post_presence(self, presence: Element) -> None:
        self._send_stanza(Presence(self, xml=presence))

    async def request(
        self, payload: Element, *, to: str | None = None, is_set: bool = False
    ) -> Element:
        iq = self.Iq(stype="set" if is_set else "get", sto=to)
        iq.append(payload)
        answer = await self._await_iq(iq, to or "the server")
        return answer.xml

    async def search_archive(
        self, query: Element, *, to: str | None = None
    ) -> tuple[Sequence[Element], Element]:
        query_id = self.new_id()
        query.set("queryid", query_id)
        found = self._archive_results[query_id] = []
        try:
            return found, await self.request(query, to=to, is_set=True)
        finally:
            del self._archive_results[query_id]

    async def _await_iq(self, iq: Iq, recipient: str) -> Iq:
        self._require_connected()
        response: asyncio.Future[Iq] = iq.send(timeout=self._timeout)  # type: ignore[no-untyped-call]
        self._request_ack()
        await _wait_first(response, self.ended)
        if not response.done():
            response.cancel()
            raise NotConnected(
                "the connection was lost before {recipient} responded", recipient=recipient
            )
        try:
            return response.result()
        except IqError as error:
            why = parse_error(error.iq.xml)
            raise StanzaRejected(
                "{recipient} refused: {description}",
                recipient=recipient,
                description=why.description,
                error=why,
            ) from error
        except IqTimeout as error:
            raise OutcomeUnknown(
                "{recipient} did not respond within {timeout:.0f} s",
                recipient=recipient,
                timeout=self._timeout,
            ) from error

    def _send_stanza(self, stanza: Message | Presence) -> None:
        self._require_connected()
        self.send(stanza)

    def _request_ack(self) -> None:
        """Sent after each stanza: the library keeps unacknowledged stanzas."""
        if self.has_acks:
            self.send(_ACK_REQUEST)

    def _require_connected(self) -> None:
        if self.ended.done() or not self._ready.done():
            raise NotConnected("the account is not connected; nothing was sent")

    def data_received(self, data: bytes | str) -> None:
        super().data_received(data)
        self.on_activity()

    def _on_message(self, stanza: Any) -> None:
        result = stanza.xml.find(tag("result", MAM))
        if result is None:
            self.on_message(stanza.xml)
        elif result.get("queryid") in self._archive_results:  # only the archive knows the id
            self._archive_results[result.get("queryid")].append(result)

    def _on_presence(self, stanza: Any) -> None:
        self.on_presence(stanza.xml)

    def _on_acked(self, stanza: Any) -> None:
        if isinstance(stanza, Message):
            self.on_ack(stanza["id"])

    def _on_negotiated(self, _: Any) -> None:
        if not self._ready.done():
            self._ready.set_result(None)

    def _on_connect_failed(self, error: Any) -> None:
        self._connect_failure = error

    def _on_auth_failed(self, stanza: Any) -> None:
        self._login_failures.append(stanza["condition"])

    def _on_auth_exhausted(self, _: Any) -> None:
        encrypted = self.transport is not None and self.transport.get_extra_info("ssl_object")
        self._end_reason = login_error(
            bare_jid(self.requested_jid.full),
            self._login_failures,
            encrypted=bool(encrypted),
            table=self._table,
        )

    def _on_stream_error(self, stanza: Any) -> None:
        self._end_reason = stream_error(
            stanza["condition"], stanza["text"], self._settings, table=self._table
        )

    def _on_bad_certificate(self, error: Any) -> None:
        self._end_reason = certificate_error(self._settings.jid, error, table=self._table)
        self.abort()

    def _on_disconnected(self, reason: Any) -> None:
        if isinstance(reason, ssl.SSLCertVerificationError):
            self._on_bad_certificate(reason)
        if not self.ended.done():
            detail = f": {reason}" if reason else ""
            self.ended.set_result(
                self._end_reason
                or AccountDisconnected("the server closed the connection{detail}", detail=detail)
            )


async def _wait_first(*futures: asyncio.Future[Any]) -> None:
    """Returns when one of them is done. Cancels none."""
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)


def _ignore(_: object) -> None:
    """The callback until one is set."""


def _ignore_activity() -> None:
    """The callback until one is set."""

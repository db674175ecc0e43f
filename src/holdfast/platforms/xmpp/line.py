"""The line: one connection to an XMPP server, held by slixmpp.

The library is imported by whoever opens a line. It negotiates encryption, login and stream
management; what is said over the line is read and written by this door itself, stanza by stanza
and in order, for nothing may be taken out of turn.
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

from holdfast.core.errors import ConnectError, LineLost, NotConnected, OutcomeUnknown
from holdfast.core.secret import Secret
from holdfast.platforms.xmpp.archive import MAM
from holdfast.platforms.xmpp.endings import of_login, of_stream, untrusted
from holdfast.platforms.xmpp.plugin import XmppSettings
from holdfast.platforms.xmpp.stanza import bare, rejection, tag
from holdfast.platforms.xmpp.wire import Rejected

# Below that the library writes down whole stanzas, and the password among them.
logging.getLogger("slixmpp").setLevel(logging.WARNING)
# What the server said to a login is told as the reason why there is no line.
logging.getLogger("slixmpp.features.feature_mechanisms").setLevel(logging.CRITICAL)

_FAREWELL = 1.0  # seconds for a server to close its side


def _stretched(mechanism: SCRAM, text: bytes, salt: bytes, iterations: int) -> bytes:
    """RFC 5802, Hi: the library counts to ten thousand in Python, and the loop would serve nobody
    for as long; this does the same forty times as fast."""
    name = mechanism.hash_name.replace("SHA-", "SHA")
    return hashlib.pbkdf2_hmac(name, bytes(text), salt, iterations)


SCRAM.Hi = _stretched  # type: ignore[assignment,method-assign]
_SEE_WHAT_IS_TAKEN = "<r xmlns='urn:xmpp:sm:3'/>"
_NEVER = 2**31  # stanzas: we ask for an ack ourselves, behind what it is about


class Line(ClientXMPP):
    """Owns one connection, and serves for that one alone. `heard`, `seen`, `taken` and `alive`
    are told each message, each presence, the id of each message that the server has taken, and
    every sign of life."""

    def __init__(
        self,
        settings: XmppSettings,
        password: Secret,
        *,
        resource: str,
        context: ssl.SSLContext,
        patience: float,
        table: str,
    ) -> None:
        address = f"{settings.jid}/{resource}" if resource else settings.jid
        super().__init__(address, password.reveal(), ssl_context=context)
        self.heard: Callable[[Element], None] = _nobody
        self.seen: Callable[[Element], None] = _nobody
        self.taken: Callable[[str], None] = _nobody
        self.alive: Callable[[], None] = _no_matter
        self.over: asyncio.Future[ConnectError] = self.loop.create_future()
        self._settings = settings
        self._patience = patience  # seconds for an answer
        self._table = table  # where the configuration speaks of the account
        self._ready: asyncio.Future[None] = self.loop.create_future()
        self._fault: ConnectError | None = None
        self._refusals: list[str] = []  # of the ways to log in
        self._unreachable: object = "no server was found"
        self._found: dict[str, list[Element]] = {}  # by questions to archives
        self._set_up(settings)
        self._listen()

    def _set_up(self, settings: XmppSettings) -> None:
        self.enable_direct_tls = self.enable_starttls = settings.tls
        self.enable_plaintext = not settings.tls
        self.roster.auto_authorize = None  # type: ignore[assignment]  # the door answers that
        if not settings.tls:
            login = {"unencrypted_scram": True, "unencrypted_plain": True}
            self.plugin["feature_mechanisms"].config.update(login)
        self.register_plugin("xep_0198", {"allow_resume": False, "window": _NEVER})

    def _listen(self) -> None:
        for kind, hear in (("message", self._message), ("presence", self._presence)):
            self.register_handler(Callback(f"door {kind}", MatchXPath(tag(kind)), hear))
        for event, told in (
            ("stream_negotiated", self._negotiated),
            ("disconnected", self._disconnected),
            ("connection_failed", self._missed),
            ("failed_auth", self._refused),
            ("failed_all_auth", self._locked_out),
            ("stream_error", self._complained),
            ("ssl_invalid_chain", self._mistrusted),
            ("stanza_acked", self._acked),
        ):
            self.add_event_handler(event, told)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Logged in, and shown to nobody. Raises a `ConnectError`."""
        try:
            await self._reach()
            await _first(self._ready, self.over)
            if self.over.done():
                raise self.over.result()
            yield
        finally:
            await self._close()

    async def _reach(self) -> None:
        host = self._settings.host or None
        again = await self.connect(host, self._settings.port if host else None)
        if again is not None and not self.over.done():
            where = f"{host}:{self._settings.port}" if host else self._settings.jid
            raise LineLost(f"{where} cannot be reached: {self._unreachable}")

    async def _close(self) -> None:
        self.cancel_connection_attempt()
        try:
            if self.transport is not None:
                await self.disconnect(wait=_FAREWELL, ignore_send_queue=True)
        finally:
            self.abort()
            for name in list(self.scheduled_events):
                self.cancel_schedule(name)
            if self._run_out_filters is not None:
                self._run_out_filters.cancel()

    @property
    def acks(self) -> bool:
        return "stream_management" in self.features

    def say(self, message: Element) -> None:
        self._put(Message(self, xml=message))  # type: ignore[no-untyped-call]
        self._see_what_is_taken()

    def appear(self, presence: Element) -> None:
        self._put(Presence(self, xml=presence))

    async def ask(
        self, payload: Element, *, to: str | None = None, change: bool = False
    ) -> Element:
        iq = self.Iq(stype="set" if change else "get", sto=to)
        iq.append(payload)
        answer = await self._answer(iq, to or "the server")
        return answer.xml

    async def search(
        self, query: Element, *, to: str | None = None
    ) -> tuple[Sequence[Element], Element]:
        name = self.new_id()
        query.set("queryid", name)
        found = self._found[name] = []
        try:
            return found, await self.ask(query, to=to, change=True)
        finally:
            del self._found[name]

    async def _answer(self, iq: Iq, whom: str) -> Iq:
        self._need_line()
        asked: asyncio.Future[Iq] = iq.send(timeout=self._patience)  # type: ignore[no-untyped-call]
        self._see_what_is_taken()
        await _first(asked, self.over)
        if not asked.done():
            asked.cancel()
            raise NotConnected(f"the line broke before {whom} answered")
        try:
            return asked.result()
        except IqError as error:
            why = rejection(error.iq.xml)
            raise Rejected(f"{whom} said no: {why.words}", why=why) from error
        except IqTimeout as error:
            told = f"{whom} gave no answer within {self._patience:.0f} s"
            raise OutcomeUnknown(told) from error

    def _put(self, stanza: Message | Presence) -> None:
        self._need_line()
        self.send(stanza)

    def _see_what_is_taken(self) -> None:
        """Behind whatever was said: until the server has answered this, the library keeps that."""
        if self.acks:
            self.send(_SEE_WHAT_IS_TAKEN)

    def _need_line(self) -> None:
        if self.over.done() or not self._ready.done():
            raise NotConnected("the account is not connected; nothing was sent")

    def data_received(self, data: bytes | str) -> None:
        super().data_received(data)
        self.alive()

    def _message(self, stanza: Any) -> None:
        result = stanza.xml.find(tag("result", MAM))
        if result is None:
            self.heard(stanza.xml)
        elif result.get("queryid") in self._found:  # a name that only whom we asked has heard
            self._found[result.get("queryid")].append(result)

    def _presence(self, stanza: Any) -> None:
        self.seen(stanza.xml)

    def _acked(self, stanza: Any) -> None:
        if isinstance(stanza, Message):
            self.taken(stanza["id"])

    def _negotiated(self, _: Any) -> None:
        if not self._ready.done():
            self._ready.set_result(None)

    def _missed(self, error: Any) -> None:
        self._unreachable = error

    def _refused(self, stanza: Any) -> None:
        self._refusals.append(stanza["condition"])

    def _locked_out(self, _: Any) -> None:
        encrypted = self.transport is not None and self.transport.get_extra_info("ssl_object")
        self._fault = of_login(
            bare(self.requested_jid.full),
            self._refusals,
            encrypted=bool(encrypted),
            table=self._table,
        )

    def _complained(self, stanza: Any) -> None:
        self._fault = of_stream(
            stanza["condition"], stanza["text"], self._settings, table=self._table
        )

    def _mistrusted(self, error: Any) -> None:
        self._fault = untrusted(self._settings.jid, error, table=self._table)
        self.abort()

    def _disconnected(self, reason: Any) -> None:
        if isinstance(reason, ssl.SSLCertVerificationError):
            self._mistrusted(reason)
        if not self.over.done():
            told = f": {reason}" if reason else ""
            self.over.set_result(self._fault or LineLost(f"the server closed the line{told}"))


async def _first(*futures: asyncio.Future[Any]) -> None:
    """Returns when one of them is done. None is cancelled."""
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)


def _nobody(what: object) -> None:
    """Who is told before somebody listens."""


def _no_matter() -> None:
    """The same."""

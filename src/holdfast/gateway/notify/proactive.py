"""Sends messages and files to chats unasked."""

import msgspec

from holdfast.core.errors import SendRejected
from holdfast.core.ids import DeliveryId, SessionId, TurnId
from holdfast.core.messages.outbox import (
    Address,
    DeliveryKind,
    NewDelivery,
    PendingFile,
    ProactiveDelivery,
    SendInitiator,
    proactive_note,
)
from holdfast.core.messages.source import ChatType, Source, build_session_key
from holdfast.core.messages.transcript import NoteMessage
from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import AuditEntry, AuditKind
from holdfast.core.ports.capabilities import Capabilities
from holdfast.core.ports.runtime import Clock
from holdfast.core.ports.store import Store
from holdfast.core.ports.store_queries import GetDelivery, GetRouteSession
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.gateway.agents.session_notes import SessionNotes
from holdfast.gateway.outbound.files import OutgoingFiles
from holdfast.gateway.redaction import Redaction

_MAX_CAPTION = 500  # characters under a file: what every platform takes there


class Undeliverable(SendRejected):
    """It can never be delivered to that chat; the text says why, `param` names the cause."""

    def __init__(self, message: str, *, param: str, **values: object) -> None:
        super().__init__(message, **values)
        self.param = param


class ProactiveSendRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A message to send unasked. `session_id` and `turn_id`: of the turn that sends it."""

    id: DeliveryId
    to: Address
    text: str
    kind: DeliveryKind = DeliveryKind.MESSAGE
    file: PendingFile | None = None
    initiator: SendInitiator = SendInitiator.OWNER
    session_id: SessionId | None = None
    turn_id: TurnId | None = None


class ProactiveSender:
    """Adds a row to the outbox, and a note to the conversation that the chat has, so that the agent
    there knows what people answer."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        platforms: PlatformRegistry,
        notes: SessionNotes,
        outgoing_files: OutgoingFiles,
        redact: Redaction,
    ) -> None:
        self._store = store
        self._clock = clock
        self._platforms = platforms
        self._notes = notes
        self._outgoing_files = outgoing_files
        self._redact = redact

    def capabilities(self, address: Address) -> Capabilities:
        return self._platforms.capabilities(address)

    async def was_queued(self, delivery_id: DeliveryId) -> bool:
        """Whether a delivery with this id is or was in the outbox."""
        return await self._store.read(GetDelivery(delivery_id=delivery_id)) is not None

    async def check(self, message: ProactiveSendRequest) -> None:
        """Raises `Undeliverable` if it is already known that it cannot be delivered."""
        if message.file is None:
            return
        capabilities = self._platforms.capabilities(message.to)
        if not capabilities.attachments_out:
            raise Undeliverable(
                "{platform} accepts no files from this gateway",
                platform=message.to.platform,
                param="file",
            )
        if len(message.text) > _MAX_CAPTION:
            raise Undeliverable(
                "a caption can have {limit} characters: send the text as a separate message, and "
                "then the file",
                limit=_MAX_CAPTION,
                param="text",
            )
        try:
            await self._outgoing_files.check(message.file, max_bytes=capabilities.max_file)
        except SendRejected as error:
            raise Undeliverable(str(error), param="file") from None

    async def enqueue(self, message: ProactiveSendRequest) -> bool:
        """Queue a message; returns when that is durable. Idempotent; False: it was queued before.

        The commit sends it, also if the caller is cancelled meanwhile.
        """
        session_id = await self._chat_session(message.to)
        other_session = session_id is not None and session_id != message.session_id
        note = self._note(message) if other_session else None
        new = NewDelivery(
            id=message.id,
            address=message.to,
            kind=message.kind,
            text=message.text,
            session_id=session_id if other_session else message.session_id,
            turn_id=None if other_session else message.turn_id,
            file=message.file,
        )
        proactive = ProactiveDelivery(
            delivery=new, note=note, initiator=message.initiator, at=self._clock.now()
        )
        return await self._notes.write(proactive, audit=_audit_entry(proactive))

    def _note(self, message: ProactiveSendRequest) -> NoteMessage:
        file = "" if message.file is None else message.file.path.rpartition("/")[2]
        return proactive_note(message.initiator, self._redact(message.text), file=file)

    async def _chat_session(self, to: Address) -> SessionId | None:
        """The session that the whole chat shares. If each person of a group has their own session,
        there is none: people quote the message that they answer."""
        for kind in ChatType:
            source = Source(
                platform=to.platform,
                account=to.account,
                chat_id=to.chat_id,
                chat_type=kind,
                thread_id=to.thread_id,
                user_id="",
            )
            found = await self._store.read(
                GetRouteSession(key=build_session_key(source, False, False))
            )
            if found is not None:
                return found
        return None


def _audit_entry(proactive: ProactiveDelivery) -> AuditEntry | None:
    """None: an agent sends it, and the audit row of its tool call records it."""
    if proactive.initiator is not SendInitiator.OWNER:
        return None
    new = proactive.delivery
    return AuditEntry(
        kind=AuditKind.MESSAGE_SENT,
        actor=OPERATOR,
        at=proactive.at,
        session_id=new.session_id,
        subject=f"{new.address.platform}:{new.address.account}:{new.address.chat_id}",
        words={"text": new.text or ""} if new.session_id is not None else {},
    )

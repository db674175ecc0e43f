"""Streaming: which turns show what they do as they do it, and how what was shown ends with them."""

import msgspec

from holdfast.core.crash_points import Crash
from holdfast.core.ids import DeliveryId, SessionId, TurnId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.outbox import Address, Begun, DeliveryKind, DeliveryState, NewDelivery
from holdfast.core.messages.source import ChatType, Source
from holdfast.core.ports.journal import Journal
from holdfast.core.ports.protocols import Clock, NewId
from holdfast.core.turns.turn import EndTurn
from holdfast.gateway.accounts.registry import Doors
from holdfast.gateway.live_settings import InForce
from holdfast.gateway.outbound.delivery import Delivery
from holdfast.gateway.outbound.doing import Doing
from holdfast.gateway.outbound.quiet_chats import Quiet
from holdfast.gateway.outbound.replies import address_of
from holdfast.gateway.outbound.reply_stream import ReplyStream
from holdfast.gateway.outbound.typist import Typist

_CUT = "({reason})"


class Streaming:
    """Makes the streams and typists of turns; keeps none of them."""

    def __init__(
        self,
        in_force: InForce,
        doors: Doors,
        delivery: Delivery,
        *,
        journal: Journal,
        clock: Clock,
        new_id: NewId,
        crash: Crash,
        quiet: Quiet,
    ) -> None:
        self._in_force = in_force
        self._quiet = quiet
        self._doors = doors
        self._delivery = delivery
        self._journal = journal
        self._clock = clock
        self._new_id = new_id
        self._crash = crash

    def of(
        self, row: InboxRow, *, session_id: SessionId, turn_id: TurnId, begun: Begun | None
    ) -> ReplyStream | None:
        """None: the answer to `row` is sent when it is whole. One that was begun goes on, and ends
        as it must, also where nothing more is shown of it."""
        source = row.inbound.source
        can = self._doors.capabilities_of(source.platform, source.account)
        account = self._in_force.settings.account(source.platform, source.account)
        wanted = account is None or account.stream
        shows = can.edit and wanted and not self._quiet.at(source)
        # What a job says may be meant for nobody, which is known when all of it is said.
        if begun is None and (not shows or row.inbound.run is not None):
            return None
        stream = self._delivery.stream(begun.id) if begun else None
        if stream is None:
            new = NewDelivery(
                id=begun.id if begun else DeliveryId(self._new_id("dlv")),
                address=address_of(row),
                kind=DeliveryKind.REPLY,
                text=None,
                session_id=session_id,
                turn_id=turn_id,
                state=DeliveryState.STREAMING,
            )
            stream = ReplyStream(
                new,
                interval=can.interval_in(source.chat_type),
                show=self._delivery.show,
                journal=self._journal,
                clock=self._clock,
                crash=self._crash,
                doing=self._doing(source) if account is None or account.progress else None,
                begun=begun,
            )
        stream.reopen(muted=not shows)
        return stream

    def typist(self, row: InboxRow) -> Typist | None:
        """None: nobody there could see that an answer to `row` is being written."""
        source = row.inbound.source
        can = self._doors.capabilities_of(source.platform, source.account)
        if not can.typing or row.inbound.run is not None or self._quiet.at(source):
            return None
        return Typist(address_of(row), show=self._delivery.show)

    def _doing(self, source: Source) -> Doing:
        return Doing(private=source.chat_type is ChatType.DM)


def ended(end: EndTurn, begun: Begun | None, row: InboxRow) -> EndTurn:
    """The end of a turn, with what it began to show brought to its last words: the answer that the
    turn owes to `row`, or, where it owes none, what was shown with the reason."""
    if begun is None:
        return end
    address = address_of(row)
    owed = list(end.deliveries)
    for number, each in enumerate(owed):
        if each.kind is DeliveryKind.REPLY and each.address == address:
            owed[number] = msgspec.structs.replace(each, id=begun.id, begun=begun)
            break
    else:
        owed.insert(0, left_over(end, begun, address))
    return msgspec.structs.replace(end, deliveries=tuple(owed))


def left_over(end: EndTurn, begun: Begun, address: Address) -> NewDelivery:
    """What stands in the chat and will never be an answer says so, in its own place."""
    reason = _CUT.format(reason=end.reason)
    seen = bool(begun.parts)
    return NewDelivery(
        id=begun.id,
        address=address,
        kind=DeliveryKind.NOTICE,
        text=f"{begun.words}\n\n{reason}" if begun.words else reason,
        session_id=end.session_id,
        turn_id=end.turn_id,
        state=DeliveryState.PENDING if seen else DeliveryState.FAILED,
        error="" if seen else "its turn ended before anything of it was shown",
        begun=begun,
    )

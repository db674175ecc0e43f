"""Builds the writes that a gateway makes for one conversation."""

import itertools
from typing import Any

from holdfast.core.ids import DeliveryId, PrincipalId, SessionId, SessionKey, TurnId
from holdfast.core.messages.inbox import Accepted, Inbound, InboxEnd, InboxState
from holdfast.core.messages.outbox import Address, DeliveryKind, NewDelivery
from holdfast.core.messages.source import Source
from holdfast.core.messages.transcript import UserMessage
from holdfast.core.ports.store import Store
from holdfast.core.ports.store_commands import AcceptMessage
from holdfast.core.turns.turn import BeginTurn, EndTurn, TurnRowState

SESSION, TURN, DELIVERY = SessionId("s"), TurnId("t"), DeliveryId("d")
ROUTE = SessionKey("sim:default:dm:c:")
ADDRESS = Address(platform="sim", account="default", chat_id="c")


class StoreChat:
    """One conversation with a store: makes the writes that a gateway would make."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.numbers = itertools.count(1)

    async def say(self, text: str = "hi", **more: Any) -> Accepted:
        number = str(next(self.numbers))
        inbound = Inbound(
            source=Source(platform="sim", chat_id="c", user_id="u"),
            event_id=more.pop("event_id", number),
            message_id=number,
            text=text,
            **more,
        )
        return await self.store.write(
            AcceptMessage(inbound=inbound, route=ROUTE, principal=PrincipalId("p"), at=1.0)
        )

    async def begin_turn(
        self, *rows: Accepted, turn: str = "t", session: str = "s", **more: Any
    ) -> None:
        await self.store.write(
            BeginTurn(
                turn_id=TurnId(turn),
                session_id=SessionId(session),
                route=more.pop("route", ROUTE),
                inbox_ids=tuple(accepted.row.id for accepted in rows),
                messages=tuple(UserMessage(text=row.row.inbound.text) for row in rows),
                prompt=more.pop("prompt", "be kind"),
                at=more.pop("at", 2.0),
                **more,
            )
        )

    def turn_end(
        self, *rows: Accepted, turn: str = "t", session: str = "s", **more: Any
    ) -> EndTurn:
        state = more.pop("state", InboxState.ANSWERED)
        ends = tuple(InboxEnd(inbox_id=row.row.id, state=state) for row in rows)
        return EndTurn(
            turn_id=TurnId(turn),
            session_id=SessionId(session),
            state=more.pop("turn_state", TurnRowState.ANSWERED),
            inbox_ends=more.pop("inbox_ends", ends),
            at=3.0,
            **more,
        )

    def reply(
        self, row: Accepted | None, *, id: str = "d", turn: str = "t", **more: Any
    ) -> NewDelivery:
        return NewDelivery(
            id=DeliveryId(id),
            address=ADDRESS,
            kind=more.pop("kind", DeliveryKind.REPLY),
            text=more.pop("text", None),
            session_id=SESSION,
            turn_id=TurnId(turn),
            inbox_id=row.row.id if row else None,
            **more,
        )

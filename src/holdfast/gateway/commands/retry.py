"""/retry: have the last message answered again, in place of the answer it got."""

from collections.abc import Awaitable, Sequence

import msgspec

from holdfast.core.ids import SessionId
from holdfast.core.messages.exchanges import Exchange, exchanges
from holdfast.core.messages.inbox import Inbound, InboxEnd, InboxRow, InboxState
from holdfast.core.messages.message import UserMessage
from holdfast.core.messages.source import speaker_of
from holdfast.core.sessions.session import Again, CommandEffect, Undo
from holdfast.gateway.commands.alone import alone
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.commands.reply import answer, settle
from holdfast.gateway.services import House
from holdfast.gateway.turns.lanes import Lanes


class Retry:
    """One commit takes the last exchange back, hands its message in anew, and merges the command
    into that: cut at any instant, it is done once or not at all."""

    name = "retry"

    def __init__(self, house: House, lanes: Lanes) -> None:
        self._house = house
        self._lanes = lanes

    def begin(self, asked: Asked) -> Awaitable[None]:
        return alone(self._house, self._lanes, asked, self._again)

    async def _again(self, asked: Asked, session_id: SessionId) -> None:
        house, row = self._house, asked.row
        said = exchanges(await house.store.transcript(session_id))
        if why := _refusal(said, row):
            await answer(house, row, why)
            return
        last = said[-1]
        settled = await settle(
            house,
            CommandEffect(
                inbox_ends=(InboxEnd(inbox_id=row.id, state=InboxState.MERGED),),
                session_id=session_id,
                route=row.route,
                undo=Undo(session_id=session_id, from_seq=last.from_seq),
                again=Again(inbound=_inbound(row, last.said), principal=row.principal),
                at=house.clock.now(),
            ),
            kept=lambda _: house.cache.drop(session_id),
        )
        assert settled.again is not None, "it was asked for"
        self._lanes.admit(settled.again, known=session_id)


def _refusal(said: Sequence[Exchange], row: InboxRow) -> str:
    if not said:
        return "There is nothing to say again."
    speakers = {message.speaker for message in said[-1].said}
    if speakers - {None, speaker_of(row.inbound.source)}:
        return "The last message was somebody else's: only they can have it answered again."
    return ""


def _inbound(row: InboxRow, said: Sequence[UserMessage]) -> Inbound:
    return msgspec.structs.replace(
        row.inbound,
        event_id=f"holdfast/retry/{row.id}",
        text="\n\n".join(message.text for message in said if message.text),
        images=tuple(image for message in said for image in message.images),
        documents="\n\n".join(message.documents for message in said if message.documents),
        mergeable=False,
        commands=False,
        cursor=None,
    )

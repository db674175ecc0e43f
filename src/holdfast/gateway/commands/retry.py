"""/retry: have the last message answered again, in place of the answer it got."""

from collections.abc import Awaitable, Sequence

import msgspec

from holdfast.core.ids import SessionId
from holdfast.core.messages.exchanges import Exchange, split_exchanges
from holdfast.core.messages.inbox import Inbound, InboxEnd, InboxRow, InboxState
from holdfast.core.messages.message import UserMessage
from holdfast.core.messages.source import speaker_name
from holdfast.core.sessions.session import CommandEffect, Resubmission, UndoEffect
from holdfast.gateway.commands.alone import run_exclusively
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reply import commit_effect, send_reply
from holdfast.gateway.services import Services
from holdfast.gateway.turns.lanes import Lanes


class RetryCommand:
    """One commit takes the last exchange back, hands its message in anew, and merges the command
    into that: cut at any instant, it is done once or not at all."""

    name = "retry"

    def __init__(self, services: Services, lanes: Lanes) -> None:
        self._services = services
        self._lanes = lanes

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        return run_exclusively(self._services, self._lanes, request, self._resubmit)

    async def _resubmit(self, request: CommandRequest, session_id: SessionId) -> None:
        house, row = self._services, request.row
        said = split_exchanges(await house.store.transcript(session_id))
        if why := _retry_refusal(said, row):
            await send_reply(house, row, why)
            return
        last = said[-1]
        settled = await commit_effect(
            house,
            CommandEffect(
                inbox_ends=(InboxEnd(inbox_id=row.id, state=InboxState.MERGED),),
                session_id=session_id,
                route=row.route,
                undo=UndoEffect(session_id=session_id, from_seq=last.from_seq),
                resubmit=Resubmission(
                    inbound=_retry_message(row, last.user_messages), principal=row.principal
                ),
                at=house.clock.now(),
            ),
            on_committed=lambda _: house.cache.drop(session_id),
        )
        assert settled.resubmitted is not None, "it was asked for"
        self._lanes.admit(settled.resubmitted, known=session_id)


def _retry_refusal(past_exchanges: Sequence[Exchange], row: InboxRow) -> str:
    if not past_exchanges:
        return "There is nothing to say again."
    speakers = {message.speaker for message in past_exchanges[-1].user_messages}
    if speakers - {None, speaker_name(row.inbound.source)}:
        return "The last message was somebody else's: only they can have it answered again."
    return ""


def _retry_message(row: InboxRow, user_messages: Sequence[UserMessage]) -> Inbound:
    return msgspec.structs.replace(
        row.inbound,
        event_id=f"holdfast/retry/{row.id}",
        text="\n\n".join(message.text for message in user_messages if message.text),
        images=tuple(image for message in user_messages for image in message.images),
        documents="\n\n".join(message.documents for message in user_messages if message.documents),
        mergeable=False,
        commands=False,
        cursor=None,
    )

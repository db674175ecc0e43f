"""Commands that change the history of a conversation: /undo, /retry, /compact."""

from collections.abc import Awaitable, Sequence

import msgspec

from holdfast.agent.agent import Agent
from holdfast.agent.compaction import CompactionResult, compact, redact_record
from holdfast.core.commands import COMMANDS_BY_NAME
from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import Inbound, InboxEnd, InboxRow, InboxState
from holdfast.core.messages.source import speaker_name
from holdfast.core.messages.transcript import Exchange, UserMessage, split_exchanges
from holdfast.core.ports.store_commands import AddAuxiliaryUsage
from holdfast.core.ports.store_queries import GetTranscript
from holdfast.core.sessions.session import CommandEffect, Resubmission, UndoEffect, truncate_title
from holdfast.core.turns.compaction import compaction_point
from holdfast.core.turns.model import AuxiliaryFailed, AuxiliaryTask
from holdfast.core.turns.turn import NO_USAGE
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reply import commit_effect, prepare_effect, send_reply
from holdfast.gateway.commands.sessions import run_exclusively
from holdfast.gateway.services import Services
from holdfast.gateway.turns.lanes import Lanes

SUMMARIES_OFF = (
    "Nothing is summarised here: the demo cannot, or `summaries` is off under [auxiliary] in "
    "holdfast.toml."
)
TOO_LITTLE = "There is too little to summarise yet; nothing was changed."


class UndoCommand:
    """/undo: take back the last exchanges. They stay in the transcript, where people can read them,
    but the model does not see them any more."""

    name = "undo"

    def __init__(self, services: Services, lanes: Lanes) -> None:
        self._services = services
        self._lanes = lanes

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        if _exchange_count(request.argument) is None:
            why = f"{request.argument!r} is no number of exchanges."
            return send_reply(
                self._services, request.row, COMMANDS_BY_NAME[self.name].usage_error(why)
            )
        return run_exclusively(self._services, self._lanes, request, self._take_back)

    async def _take_back(self, request: CommandRequest, session_id: SessionId) -> None:
        services, count = self._services, _exchange_count(request.argument) or 1
        undone = split_exchanges(await services.store.read(GetTranscript(session_id=session_id)))[
            -count:
        ]
        if not undone:
            await send_reply(services, request.row, "There is nothing to take back.")
            return
        undo = UndoEffect(session_id=session_id, from_seq=undone[0].from_seq)
        effect = prepare_effect(services, request.row, _undone_text(undone), undo=undo)
        await commit_effect(
            services, effect, on_committed=lambda _: services.cache.drop(session_id)
        )


def _exchange_count(argument: str) -> int | None:
    """The number of exchanges; None: not a number. Only nine digits are read: int() of very long
    ones raises."""
    if not argument:
        return 1
    number = int(argument[:9]) if argument.isdecimal() else 0
    return number or None


def _undone_text(undone: list[Exchange]) -> str:
    words = " ".join(message.text for message in undone[0].user_messages)
    since = (
        f"everything since “{truncate_title(words)}”"
        if len(undone) > 1
        else f"“{truncate_title(words)}”"
    )
    return (
        f"Taken back: {since}. The agent does not know of it any more; what its tools did "
        "meanwhile stays done."
    )


class RetryCommand:
    """/retry: answer the last message again. One commit takes back the last exchange, resubmits its
    message, and merges the command into that: after a crash it is done once or not at all."""

    name = "retry"

    def __init__(self, services: Services, lanes: Lanes) -> None:
        self._services = services
        self._lanes = lanes

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        return run_exclusively(self._services, self._lanes, request, self._resubmit)

    async def _resubmit(self, request: CommandRequest, session_id: SessionId) -> None:
        services, row = self._services, request.row
        exchanges = split_exchanges(await services.store.read(GetTranscript(session_id=session_id)))
        if why := _retry_refusal(exchanges, row):
            await send_reply(services, row, why)
            return
        last = exchanges[-1]
        outcome = await commit_effect(
            services,
            CommandEffect(
                inbox_ends=(InboxEnd(inbox_id=row.id, state=InboxState.MERGED),),
                session_id=session_id,
                route=row.route,
                undo=UndoEffect(session_id=session_id, from_seq=last.from_seq),
                resubmit=Resubmission(
                    inbound=_retry_message(row, last.user_messages), principal=row.principal
                ),
                at=services.clock.now(),
            ),
            on_committed=lambda _: services.cache.drop(session_id),
        )
        assert outcome.resubmitted is not None, "the effect asked for it"
        self._lanes.admit(outcome.resubmitted, known=session_id)


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


class CompactCommand:
    """/compact: summarise the older part of the conversation now. The record covers a number of
    messages from the start of the transcript, so it runs exclusively: an /undo in between would
    change what that number means."""

    name = "compact"

    def __init__(self, services: Services, lanes: Lanes) -> None:
        self._services = services
        self._lanes = lanes

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        if not self._services.auxiliary.is_enabled(AuxiliaryTask.SUMMARY):
            return send_reply(self._services, request.row, SUMMARIES_OFF)
        if request.session_id is None:
            return send_reply(self._services, request.row, TOO_LITTLE)
        return run_exclusively(self._services, self._lanes, request, self._run)

    async def _run(self, request: CommandRequest, session_id: SessionId) -> None:
        services = self._services
        agent = await services.agent_factory.build(
            session_id, signature=services.agent_factory.signature_for(request.row), fresh=False
        )
        try:
            await self._compact(request, agent)
        finally:
            agent.release_clients()

    async def _compact(self, request: CommandRequest, agent: Agent) -> None:
        services, context = self._services, agent.window
        # The person wants it shorter now, however much of the window is free.
        cut = compaction_point(
            agent.messages, keep_tokens=min(context.keep_tokens, context.used // 4)
        )
        if not cut:
            await send_reply(services, request.row, TOO_LITTLE)
            return
        await services.memory.pre_compact(agent.session_id, agent.messages[:cut])
        try:
            made = await compact(agent, services.auxiliary, cut=cut, focus=request.argument)
        except AuxiliaryFailed as error:
            text = f"The summary could not be made, and nothing was changed: {error}"
            await send_reply(services, request.row, text)
            if error.usage != NO_USAGE:
                await services.store.write(
                    AddAuxiliaryUsage(
                        session_id=agent.session_id, task=AuxiliaryTask.SUMMARY, usage=error.usage
                    )
                )
            return
        effect = prepare_effect(
            services,
            request.row,
            _summary_text(made, cut, left=len(agent.messages) - cut),
            compaction=redact_record(made.record, services.redact),
            compaction_usage=made.usage,
        )
        await commit_effect(
            services, effect, on_committed=lambda _: services.cache.drop(agent.session_id)
        )


def _summary_text(made: CompactionResult, cut: int, *, left: int) -> str:
    return (
        f"Summarised {cut} messages; each request is about {made.saved_tokens:,} tokens shorter "
        f"from now on. The last {left} stay as they were said, and the whole history stays "
        "readable."
    )

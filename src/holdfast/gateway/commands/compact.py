"""/compact: summarise the older part of the conversation now."""

from collections.abc import Awaitable

from holdfast.agent.agent import Agent
from holdfast.agent.compaction import CompactionResult, compact, redact_record
from holdfast.core.ids import SessionId
from holdfast.core.turns.auxiliary import AuxiliaryFailed, AuxiliaryTask
from holdfast.core.turns.compaction import compaction_point
from holdfast.core.turns.turn import NO_USAGE
from holdfast.gateway.commands.alone import run_exclusively
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reply import commit_effect, prepare_effect, send_reply
from holdfast.gateway.services import Services
from holdfast.gateway.turns.lanes import Lanes

SUMMARIES_OFF = (
    "Nothing is summarised here: the demo cannot, or `summaries` is off under [auxiliary] in "
    "holdfast.toml."
)
TOO_LITTLE = "There is too little to summarise yet; nothing was changed."


class CompactCommand:
    """Its record covers a number of messages from the beginning of the log. So it has the session
    to itself: what is taken back meanwhile would shift what that number means."""

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
        house = self._services
        agent = await house.agent_factory.build(
            session_id, signature=house.agent_factory.signature_for(request.row), fresh=False
        )
        try:
            await self._compact(request, agent)
        finally:
            agent.release_clients()

    async def _compact(self, request: CommandRequest, agent: Agent) -> None:
        house, context = self._services, agent.window
        # Whoever asks wants it short now, however much of the window is free.
        cut = compaction_point(
            agent.messages, keep_tokens=min(context.keep_tokens, context.used // 4)
        )
        if not cut:
            await send_reply(house, request.row, TOO_LITTLE)
            return
        await house.memory.pre_compact(agent.session_id, agent.messages[:cut])
        try:
            made = await compact(agent, house.auxiliary, cut=cut, focus=request.argument)
        except AuxiliaryFailed as error:
            text = f"The summary could not be made, and nothing was changed: {error}"
            await send_reply(house, request.row, text)
            if error.usage != NO_USAGE:
                await house.store.add_auxiliary_usage(
                    agent.session_id, task=AuxiliaryTask.SUMMARY, usage=error.usage
                )
            return
        effect = prepare_effect(
            house,
            request.row,
            _summary_text(made, cut, left=len(agent.messages) - cut),
            compaction=redact_record(made.record, house.redact),
            compaction_usage=made.usage,
        )
        await commit_effect(
            house, effect, on_committed=lambda _: house.cache.drop(agent.session_id)
        )


def _summary_text(made: CompactionResult, cut: int, *, left: int) -> str:
    return (
        f"Summarised {cut} messages; each request is about {made.saved_tokens:,} tokens shorter from "
        f"now on. The last {left} stay as they were said, and the whole history stays readable."
    )

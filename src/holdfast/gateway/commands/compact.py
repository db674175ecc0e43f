"""/compact: summarise the older part of the conversation now."""

from collections.abc import Awaitable

from holdfast.agent.agent import Agent
from holdfast.agent.compaction import Compaction, compact, redacted
from holdfast.core.ids import SessionId
from holdfast.core.turns.auxiliary import Errand, ErrandFailed
from holdfast.core.turns.compaction import cut_at
from holdfast.core.turns.turn import NO_USAGE
from holdfast.gateway.commands.alone import alone
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.commands.reply import answer, prepare, settle
from holdfast.gateway.services import House
from holdfast.gateway.turns.lanes import Lanes

OFF = (
    "Nothing is summarised here: the demo cannot, or `summaries` is off under [auxiliary] in "
    "holdfast.toml."
)
TOO_LITTLE = "There is too little to summarise yet; nothing was changed."


class Compact:
    """Its record covers a number of messages from the beginning of the log. So it has the session
    to itself: what is taken back meanwhile would shift what that number means."""

    name = "compact"

    def __init__(self, house: House, lanes: Lanes) -> None:
        self._house = house
        self._lanes = lanes

    def begin(self, asked: Asked) -> Awaitable[None]:
        if not self._house.auxiliary.wants(Errand.SUMMARY):
            return answer(self._house, asked.row, OFF)
        if asked.session_id is None:
            return answer(self._house, asked.row, TOO_LITTLE)
        return alone(self._house, self._lanes, asked, self._carry_out)

    async def _carry_out(self, asked: Asked, session_id: SessionId) -> None:
        house = self._house
        agent = await house.agents.build(
            session_id, signature=house.agents.signature_for(asked.row), fresh=False
        )
        try:
            await self._compact(asked, agent)
        finally:
            agent.release_clients()

    async def _compact(self, asked: Asked, agent: Agent) -> None:
        house, context = self._house, agent.context
        # Whoever asks wants it short now, however much of the window is free.
        cut = cut_at(agent.messages, keep=min(context.keep, context.used // 4))
        if not cut:
            await answer(house, asked.row, TOO_LITTLE)
            return
        await house.memory.pre_compact(agent.session_id, agent.messages[:cut])
        try:
            made = await compact(agent, house.auxiliary, cut=cut, focus=asked.argument)
        except ErrandFailed as error:
            text = f"The summary could not be made, and nothing was changed: {error}"
            await answer(house, asked.row, text)
            if error.usage != NO_USAGE:
                await house.store.count_auxiliary(
                    agent.session_id, errand=Errand.SUMMARY, usage=error.usage
                )
            return
        effect = prepare(
            house,
            asked.row,
            _saved(made, cut, left=len(agent.messages) - cut),
            compaction=redacted(made.record, house.redact),
            compaction_usage=made.usage,
        )
        await settle(house, effect, kept=lambda _: house.cache.drop(agent.session_id))


def _saved(made: Compaction, cut: int, *, left: int) -> str:
    return (
        f"Summarised {cut} messages; each request is about {made.spared:,} tokens shorter from "
        f"now on. The last {left} stay as they were said, and the whole history stays readable."
    )

"""/stop: end the running turn for good, without the agent's help."""

import logging
from collections.abc import Awaitable, Sequence

from holdfast.core.errors import StoreError
from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.sessions.session import CommandEffect
from holdfast.core.turns.subagent import Child
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.commands.reply import answer, answer_to, nothing, prepare, settle
from holdfast.gateway.services import House
from holdfast.gateway.sessions.insisting import SET_ASIDE, Insisting, Seen
from holdfast.gateway.turns.endings import superseded
from holdfast.gateway.turns.lanes import Lanes

log = logging.getLogger(__name__)


class Stop:
    name = "stop"

    def __init__(self, house: House, lanes: Lanes, insisting: Insisting) -> None:
        self._house = house
        self._lanes = lanes
        self._insisting = insisting

    def begin(self, asked: Asked) -> Awaitable[None]:
        everything = asked.argument.lower() == "all"
        at_work = self._house.children.in_background(asked.session_id) if asked.session_id else []
        remark = _remark(at_work, everything=everything)
        idle = "" if everything and at_work else "Nothing is running. "
        seen = self._seen(asked)
        stopped = self._stop_turn(asked, done=f"Stopped. {remark}", idle=f"{idle}{remark}")
        stopped = self._with_background(stopped, asked) if everything else stopped
        return self._until_it_takes(stopped, seen, asked.row)

    def _seen(self, asked: Asked) -> Seen | None:
        if asked.session_id is None:
            return None
        return self._insisting.stopping(asked.session_id, at=asked.row.accepted_at)

    async def _until_it_takes(
        self, stopped: Awaitable[None], seen: Seen | None, row: InboxRow
    ) -> None:
        """F9: who has to insist is told what that leads to. The command is done before that, so
        that a store which fails then has not kept it from anything."""
        await stopped
        try:
            if seen is not None and await seen() and not self._house.replies.fetched(row):
                await self._tell(row)
        except StoreError as error:
            log.error("A stop was not seen to its end: %s", error, extra={"action": "stop"})

    async def _tell(self, row: InboxRow) -> None:
        notice = self._house.replies.notice(row, SET_ASIDE, session_id=row.session_id)
        effect = CommandEffect(inbox_ends=(), deliveries=(notice,), at=self._house.clock.now())
        await settle(self._house, effect)

    async def _with_background(self, stopped: Awaitable[None], asked: Asked) -> None:
        if asked.session_id is not None:
            await self._house.children.stop_background(asked.session_id)
        await stopped

    def _stop_turn(self, asked: Asked, *, done: str, idle: str) -> Awaitable[None]:
        done, idle = done.strip(), idle.strip()
        lane = self._lanes.get(asked.session_id) if asked.session_id else None
        if lane is None:
            return answer(self._house, asked.row, idle)
        waiting = lane.drop_waiting()
        end, reply = answer_to(self._house, asked.row, done)
        ends = (*superseded(waiting), end)
        if lane.stop(ends, [reply]):
            return nothing()  # the row ends in the commit that ends the turn
        if not waiting:
            return answer(self._house, asked.row, idle)
        effect = prepare(self._house, asked.row, done, inbox_ends=ends, deliveries=(reply,))
        return self._drop(waiting, lane.session_id, effect)

    async def _drop(
        self, waiting: Sequence[InboxRow], session_id: SessionId, effect: CommandEffect
    ) -> None:
        try:
            await settle(self._house, effect)
        except StoreError:
            self._lanes.give_back(waiting, session_id)
            raise


def _remark(at_work: Sequence[Child], *, everything: bool) -> str:
    """What of the background was stopped too, or goes on."""
    if not at_work:
        return ""
    listed = "; ".join(child.title for child in at_work)
    if everything:
        return f"Stopped in the background: {listed}."
    return f"In the background there still is: {listed}. /stop all ends that too."

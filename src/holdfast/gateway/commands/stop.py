"""/stop: end the running turn for good, without the agent's help."""

import logging
from collections.abc import Awaitable, Sequence

from holdfast.core.errors import StoreError
from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.sessions.session import CommandEffect
from holdfast.core.turns.subagent import Subagent
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reply import (
    build_reply,
    commit_effect,
    no_effect,
    prepare_effect,
    send_reply,
)
from holdfast.gateway.services import Services
from holdfast.gateway.sessions.insisting import SUSPENDED_NOTICE, CheckStopped, ForceStop
from holdfast.gateway.turns.endings import superseded_ends
from holdfast.gateway.turns.lanes import Lanes

log = logging.getLogger(__name__)


class StopCommand:
    name = "stop"

    def __init__(self, services: Services, lanes: Lanes, force_stop: ForceStop) -> None:
        self._services = services
        self._lanes = lanes
        self._force_stop = force_stop

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        everything = request.argument.lower() == "all"
        at_work = (
            self._services.subagents.in_background(request.session_id) if request.session_id else []
        )
        remark = _background_text(at_work, everything=everything)
        idle = "" if everything and at_work else "Nothing is running. "
        seen = self._stop_check(request)
        stopped = self._stop_turn(request, done=f"Stopped. {remark}", idle=f"{idle}{remark}")
        stopped = self._stop_background_too(stopped, request) if everything else stopped
        return self._stop_and_check(stopped, seen, request.row)

    def _stop_check(self, request: CommandRequest) -> CheckStopped | None:
        if request.session_id is None:
            return None
        return self._force_stop.before_stop(request.session_id, at=request.row.accepted_at)

    async def _stop_and_check(
        self, stopped: Awaitable[None], check: CheckStopped | None, row: InboxRow
    ) -> None:
        """F9: who has to insist is told what that leads to. The command is done before that, so
        that a store which fails then has not kept it from anything."""
        await stopped
        try:
            if (
                check is not None
                and await check()
                and not self._services.delivery_factory.is_fetched(row)
            ):
                await self._send_suspended_notice(row)
        except StoreError as error:
            log.error(
                "A stop was not seen to its end: %s", error, extra={"action": "stop_check_failed"}
            )

    async def _send_suspended_notice(self, row: InboxRow) -> None:
        notice = self._services.delivery_factory.notice(
            row, SUSPENDED_NOTICE, session_id=row.session_id
        )
        effect = CommandEffect(inbox_ends=(), deliveries=(notice,), at=self._services.clock.now())
        await commit_effect(self._services, effect)

    async def _stop_background_too(self, stopped: Awaitable[None], request: CommandRequest) -> None:
        if request.session_id is not None:
            await self._services.subagents.stop_background(request.session_id)
        await stopped

    def _stop_turn(self, request: CommandRequest, *, done: str, idle: str) -> Awaitable[None]:
        done, idle = done.strip(), idle.strip()
        lane = self._lanes.get(request.session_id) if request.session_id else None
        if lane is None:
            return send_reply(self._services, request.row, idle)
        waiting = lane.drop_waiting_messages()
        end, reply = build_reply(self._services, request.row, done)
        ends = (*superseded_ends(waiting), end)
        if lane.stop(ends, [reply]):
            return no_effect()  # the row ends in the commit that ends the turn
        if not waiting:
            return send_reply(self._services, request.row, idle)
        effect = prepare_effect(
            self._services, request.row, done, inbox_ends=ends, deliveries=(reply,)
        )
        return self._drop(waiting, lane.session_id, effect)

    async def _drop(
        self, waiting: Sequence[InboxRow], session_id: SessionId, effect: CommandEffect
    ) -> None:
        try:
            await commit_effect(self._services, effect)
        except StoreError:
            self._lanes.readmit(waiting, session_id)
            raise


def _background_text(subagents: Sequence[Subagent], *, everything: bool) -> str:
    """What of the background was stopped too, or goes on."""
    if not subagents:
        return ""
    listed = "; ".join(child.title for child in subagents)
    if everything:
        return f"Stopped in the background: {listed}."
    return f"In the background there still is: {listed}. /stop all ends that too."

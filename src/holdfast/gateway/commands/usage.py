"""/usage: how many tokens were used by this turn, in this conversation, and in all."""

from collections.abc import Awaitable

from holdfast.core.ids import SessionId
from holdfast.core.turns.turn import Usage as Tokens
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reach import dm_principal
from holdfast.gateway.commands.reply import send_reply
from holdfast.gateway.services import Services
from holdfast.gateway.turns.lanes import Lanes


class UsageCommand:
    name = "usage"

    def __init__(self, services: Services, lanes: Lanes) -> None:
        self._services = services
        self._lanes = lanes

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        return self._reply(request)

    async def _reply(self, request: CommandRequest) -> None:
        store, row = self._services.store, request.row
        running = self._running_usage(request.session_id)
        told = await self._session_lines(request.session_id, running) if request.session_id else []
        whole = await store.usage_in_reach(route=row.route, principal=dm_principal(row))
        where = "All your conversations" if dm_principal(row) else "All conversations in this place"
        told.append(f"{where}: {format_tokens(whole + (running or Tokens()))}")
        await send_reply(self._services, row, "\n".join(told))

    async def _session_lines(self, session_id: SessionId, running: Tokens | None) -> list[str]:
        store = self._services.store
        last = await store.last_turn(session_id)
        told = []
        if running is not None:
            told.append(f"This turn, so far: {format_tokens(running)}")
        elif last is not None:
            told.append(f"The last turn: {format_tokens(last.usage)}")
        children = await store.subagents_usage(session_id)
        whole = await store.session_usage(session_id) + children + (running or Tokens())
        told.append(f"This conversation: {format_tokens(whole)}")
        if children != Tokens():
            told.append(f"Of that, its child agents: {format_tokens(children)}")
        if beside := await store.auxiliary_usage(session_id):
            total = sum(beside.values(), Tokens())
            told.append(
                f"Beside it, for its {' and '.join(sorted(beside))}: {format_tokens(total)}"
            )
        return told

    def _running_usage(self, session_id: SessionId | None) -> Tokens | None:
        """Of the running turn, which the log has only when it ends."""
        lane = self._lanes.get(session_id) if session_id else None
        return (
            lane.running_turn.usage if lane is not None and lane.running_turn is not None else None
        )


def format_tokens(usage: Tokens) -> str:
    cached = f" ({usage.cached_tokens:,} of them cached)" if usage.cached_tokens else ""
    thought = f" ({usage.reasoning_tokens:,} of them thought)" if usage.reasoning_tokens else ""
    return f"{usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out{thought}"

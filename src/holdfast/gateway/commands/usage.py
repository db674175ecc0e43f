"""/usage: how many tokens were used by this turn, in this conversation, and in all."""

from collections.abc import Awaitable

from holdfast.core.ids import SessionId
from holdfast.core.turns.turn import Usage as Tokens
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.commands.reach import person_of
from holdfast.gateway.commands.reply import answer
from holdfast.gateway.services import House
from holdfast.gateway.turns.lanes import Lanes


class Usage:
    name = "usage"

    def __init__(self, house: House, lanes: Lanes) -> None:
        self._house = house
        self._lanes = lanes

    def begin(self, asked: Asked) -> Awaitable[None]:
        return self._tell(asked)

    async def _tell(self, asked: Asked) -> None:
        store, row = self._house.store, asked.row
        running = self._running(asked.session_id)
        told = await self._of_session(asked.session_id, running) if asked.session_id else []
        whole = await store.reached_usage(route=row.route, principal=person_of(row))
        where = "All your conversations" if person_of(row) else "All conversations in this place"
        told.append(f"{where}: {tokens(whole + (running or Tokens()))}")
        await answer(self._house, row, "\n".join(told))

    async def _of_session(self, session_id: SessionId, running: Tokens | None) -> list[str]:
        store = self._house.store
        last = await store.last_turn(session_id)
        told = []
        if running is not None:
            told.append(f"This turn, so far: {tokens(running)}")
        elif last is not None:
            told.append(f"The last turn: {tokens(last.usage)}")
        children = await store.descendants_usage(session_id)
        whole = await store.session_usage(session_id) + children + (running or Tokens())
        told.append(f"This conversation: {tokens(whole)}")
        if children != Tokens():
            told.append(f"Of that, its child agents: {tokens(children)}")
        if beside := await store.auxiliary_usage(session_id):
            total = sum(beside.values(), Tokens())
            told.append(f"Beside it, for its {' and '.join(sorted(beside))}: {tokens(total)}")
        return told

    def _running(self, session_id: SessionId | None) -> Tokens | None:
        """Of the running turn, which the log has only when it ends."""
        lane = self._lanes.get(session_id) if session_id else None
        return lane.turn.usage if lane is not None and lane.turn is not None else None


def tokens(usage: Tokens) -> str:
    cached = f" ({usage.cached_tokens:,} of them cached)" if usage.cached_tokens else ""
    thought = f" ({usage.reasoning_tokens:,} of them thought)" if usage.reasoning_tokens else ""
    return f"{usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out{thought}"

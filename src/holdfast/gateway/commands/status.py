"""/status: what the gateway and this session are doing."""

from collections.abc import Iterator

from holdfast.core.ports.protocols import Lifecycle
from holdfast.core.turns.subagent import ChildKind
from holdfast.core.turns.turn import LaneState
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.commands.reply import answer
from holdfast.gateway.services import House
from holdfast.gateway.turns.lanes import Lanes

_KINDS = {ChildKind.WAITED: "waited for", ChildKind.BACKGROUND: "in the background"}


class Status:
    name = "status"

    def __init__(self, house: House, lanes: Lanes, *, lifecycle: Lifecycle | None) -> None:
        self._house = house
        self._lanes = lanes
        self._lifecycle = lifecycle

    async def begin(self, asked: Asked) -> None:
        row = await self._house.store.session(asked.session_id) if asked.session_id else None
        chosen = row.model_override if row else None
        model = f"{chosen} (chosen here)" if chosen else self._house.agents.model_name
        await answer(self._house, asked.row, self._text(asked, model))

    def _text(self, asked: Asked, model: str) -> str:
        lane = self._lanes.get(asked.session_id) if asked.session_id else None
        here = f"{lane.state}, {lane.queued} queued" if lane else "idle"
        running = self._lanes.count(LaneState.RUNNING)
        return "\n".join(
            (
                f"Session: {asked.session_id or 'not begun yet'} ({here})",
                *self._children(asked),
                f"Model: {model}",
                f"Gateway: turns running: {running}, agents cached: {len(self._house.cache)}",
                *self._going(),
            )
        )

    def _going(self) -> Iterator[str]:
        """Whether it goes away, or is about to."""
        if self._lifecycle is None:
            return
        if (order := self._lifecycle.order) is not None:
            yield "It is restarting now." if order.kind.restarts else "It is shutting down now."
        elif self._lifecycle.waiting is not None:
            yield "A restart waits until no turn runs."

    def _children(self, asked: Asked) -> Iterator[str]:
        if asked.session_id is None:
            return
        at_work = self._house.children.at_work(asked.session_id)
        for child in at_work:
            yield f"Child agent ({_KINDS[child.kind]}): {child.title}"

"""/status: what the gateway and this session are doing."""

from collections.abc import Awaitable, Iterator

from holdfast.core.turn import LaneState
from holdfast.gateway.commands.answer import answer
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.house import House
from holdfast.gateway.lanes import Lanes


class Status:
    name = "status"

    def __init__(self, house: House, lanes: Lanes) -> None:
        self._house = house
        self._lanes = lanes

    def begin(self, asked: Asked) -> Awaitable[None]:
        return answer(self._house, asked.row, self._text(asked))

    def _text(self, asked: Asked) -> str:
        lane = self._lanes.get(asked.session_id) if asked.session_id else None
        here = f"{lane.state}, {lane.queued} queued" if lane else "idle"
        running = self._lanes.count(LaneState.RUNNING)
        return "\n".join(
            (
                f"Session: {asked.session_id or 'not begun yet'} ({here})",
                *self._children(asked),
                f"Model: {self._house.agents.model_name}",
                f"Gateway: {running} turns running, {len(self._house.cache)} agents cached",
            )
        )

    def _children(self, asked: Asked) -> Iterator[str]:
        if asked.session_id is None:
            return
        at_work = self._house.children.at_work(asked.session_id)
        for child in at_work:
            yield f"Child agent ({child.kind}): {child.title}"

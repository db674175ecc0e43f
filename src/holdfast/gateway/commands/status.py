"""/status: what the gateway and this session are doing."""

from collections.abc import Iterator

from holdfast.core.ports.protocols import Lifecycle
from holdfast.core.turns.subagent import SubagentKind
from holdfast.core.turns.turn import LaneState
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reply import send_reply
from holdfast.gateway.services import Services
from holdfast.gateway.turns.lanes import Lanes

_KIND_TEXTS = {SubagentKind.FOREGROUND: "waited for", SubagentKind.BACKGROUND: "in the background"}


class StatusCommand:
    name = "status"

    def __init__(self, services: Services, lanes: Lanes, *, lifecycle: Lifecycle | None) -> None:
        self._services = services
        self._lanes = lanes
        self._lifecycle = lifecycle

    async def begin(self, request: CommandRequest) -> None:
        row = await self._services.store.session(request.session_id) if request.session_id else None
        chosen = row.model_override if row else None
        model = f"{chosen} (chosen here)" if chosen else self._services.agent_factory.model_name
        await send_reply(self._services, request.row, self._text(request, model))

    def _text(self, request: CommandRequest, model: str) -> str:
        lane = self._lanes.get(request.session_id) if request.session_id else None
        here = f"{lane.state}, {lane.queued} queued" if lane else "idle"
        running = self._lanes.count(LaneState.RUNNING)
        return "\n".join(
            (
                f"Session: {request.session_id or 'not begun yet'} ({here})",
                *self._subagent_lines(request),
                f"Model: {model}",
                f"Gateway: turns running: {running}, agents cached: {len(self._services.cache)}",
                *self._stop_lines(),
            )
        )

    def _stop_lines(self) -> Iterator[str]:
        """Whether it goes away, or is about to."""
        if self._lifecycle is None:
            return
        if (order := self._lifecycle.stop_order) is not None:
            yield "It is restarting now." if order.kind.restarts else "It is shutting down now."
        elif self._lifecycle.pending_restart is not None:
            yield "A restart waits until no turn runs."

    def _subagent_lines(self, request: CommandRequest) -> Iterator[str]:
        if request.session_id is None:
            return
        at_work = self._services.subagents.of_session(request.session_id)
        for child in at_work:
            yield f"Child agent ({_KIND_TEXTS[child.kind]}): {child.title}"

"""/fork: go on in a copy of this conversation, and leave it as it is."""

from collections.abc import Awaitable

from holdfast.core.ids import SessionId
from holdfast.core.sessions.session import CommandOutcome
from holdfast.core.sessions.session import ForkEffect as Copy
from holdfast.core.sessions.title import truncate_title
from holdfast.gateway.commands.alone import NOTHING_YET, run_exclusively
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reach import session_title
from holdfast.gateway.commands.reply import commit_effect, prepare_effect, send_reply
from holdfast.gateway.services import Services
from holdfast.gateway.turns.lanes import Lanes
from holdfast.gateway.turns.opening import session_owner


class ForkCommand:
    name = "fork"

    def __init__(self, services: Services, lanes: Lanes) -> None:
        self._services = services
        self._lanes = lanes

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        return run_exclusively(self._services, self._lanes, request, self._copy)

    async def _copy(self, request: CommandRequest, session_id: SessionId) -> None:
        house, lanes, route = self._services, self._lanes, request.row.route
        session = await house.store.session(session_id)
        if session is None or not session.messages:
            await send_reply(house, request.row, NOTHING_YET)
            return
        copy = Copy(
            of=session_id,
            session_id=SessionId(house.new_id("s")),
            title=truncate_title(request.argument or f"{session_title(session)} (fork)"),
            principal=session_owner(request.row, house.settings.sessions),
        )

        def pointed(_: CommandOutcome) -> None:
            for row in lanes.take_waiting(session_id, route):
                lanes.admit(row, known=copy.session_id)
            house.feeds.session_changed(copy.session_id)

        text = f"You are now in a copy: {copy.title}\n/resume goes back to the original."
        effect = prepare_effect(house, request.row, text, route=route, fork=copy)
        await commit_effect(house, effect, on_committed=pointed)

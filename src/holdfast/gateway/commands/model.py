"""/model: say which model answers here, or choose another for this session."""

from collections.abc import Awaitable

from holdfast.core.ids import SessionId
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reply import send_reply
from holdfast.gateway.services import Services
from holdfast.gateway.sessions.resolver import SessionStore


class ModelCommand:
    name = "model"

    def __init__(self, services: Services, sessions: SessionStore) -> None:
        self._services = services
        self._sessions = sessions

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        return self._choose(request) if request.argument else self._show(request)

    async def _show(self, request: CommandRequest) -> None:
        row = await self._services.store.session(request.session_id) if request.session_id else None
        chosen = row.model_override if row else None
        model = self._services.agent_factory.model
        found = f"{model.name} ({model.provider}): {model.why}"
        text = f"{chosen} (chosen here)" if chosen else found
        await send_reply(self._services, request.row, f"The model is {text}.")

    async def _choose(self, request: CommandRequest) -> None:
        house, name = self._services, request.argument
        default = name.lower() == "default"
        session_id = request.session_id or SessionId(house.new_id("s"))
        await send_reply(
            house,
            request.row,
            f"From the next message on, {house.agent_factory.model_name if default else name} answers.",
            session_id=session_id,
            route=request.row.route,
            opening=self._sessions.reset_for(request),
            model_override="" if default else name,
        )
        house.cache.drop(session_id)

"""/busy: say what a message does to a running turn, or choose it for this session."""

from collections.abc import Awaitable, Mapping

from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import BusyMode
from holdfast.core.people.commands import COMMANDS_BY_NAME
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reply import send_reply
from holdfast.gateway.services import Services
from holdfast.gateway.sessions.resolver import SessionStore

DEFAULT = "default"
_MEANINGS: Mapping[BusyMode, str] = {
    BusyMode.INTERRUPT: "a new message interrupts it, and both are answered together",
    BusyMode.QUEUE: "a new message waits, and is answered after it",
    BusyMode.STEER: "a new message reaches it at its next step",
}


class BusyCommand:
    name = "busy"

    def __init__(self, services: Services, sessions: SessionStore) -> None:
        self._services = services
        self._sessions = sessions

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        word = request.argument.lower()
        if not word:
            return self._show(request)
        if word == DEFAULT:
            return self._choose(request, None)
        if word in _MEANINGS:
            return self._choose(request, BusyMode(word))
        spec = COMMANDS_BY_NAME[self.name]
        return send_reply(
            self._services, request.row, spec.usage_error(f"There is no mode {request.argument!r}.")
        )

    async def _show(self, request: CommandRequest) -> None:
        session_id = request.session_id
        chosen = await self._services.store.busy_mode(session_id) if session_id else None
        await send_reply(self._services, request.row, self._text(request, chosen))

    async def _choose(self, request: CommandRequest, mode: BusyMode | None) -> None:
        session_id = request.session_id or SessionId(self._services.new_id("s"))
        await send_reply(
            self._services,
            request.row,
            self._text(request, mode),
            session_id=session_id,
            route=request.row.route,
            opening=self._sessions.reset_for(request),
            busy_mode="" if mode is None else mode.value,
        )

    def _text(self, request: CommandRequest, chosen: BusyMode | None) -> str:
        mode = chosen or self._services.busy_mode(request.row.inbound.source)
        whence = "chosen here" if chosen else "the default"
        return f"While the agent works, {_MEANINGS[mode]} ({mode}, {whence})."

"""/sessions: the conversations that can be gone back to."""

from collections.abc import Awaitable

from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reach import MAX_SHOWN, list_conversations, session_lines
from holdfast.gateway.commands.reply import send_reply
from holdfast.gateway.services import Services


class SessionsCommand:
    name = "sessions"

    def __init__(self, services: Services) -> None:
        self._services = services

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        return self._list(request)

    async def _list(self, request: CommandRequest) -> None:
        house, current = self._services, request.session_id
        found = await list_conversations(house, request.row, current=current)
        if not found:
            await send_reply(house, request.row, "There are no conversations yet.")
            return
        shown = session_lines(found[:MAX_SHOWN], current=current, now=house.clock.now())
        more = [f"… and {len(found) - MAX_SHOWN} older ones."] if len(found) > MAX_SHOWN else []
        last = "/resume N goes back to one; /resume TITLE finds it by its title."
        await send_reply(house, request.row, "\n".join([*shown, *more, last]))

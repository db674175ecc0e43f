"""/title: say what this conversation is called, or call it something else."""

from collections.abc import Awaitable

from holdfast.core.sessions.title import truncate_title
from holdfast.gateway.commands.alone import NOTHING_YET
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reach import session_title
from holdfast.gateway.commands.reply import send_reply
from holdfast.gateway.services import Services


class TitleCommand:
    name = "title"

    def __init__(self, services: Services) -> None:
        self._services = services

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        return self._run(request)

    async def _run(self, request: CommandRequest) -> None:
        house, row = self._services, request.row
        session = await house.store.session(request.session_id) if request.session_id else None
        if session is None:
            await send_reply(house, row, NOTHING_YET)
            return
        title = truncate_title("".join(c if c.isprintable() else " " for c in request.argument))
        if not title:
            await send_reply(house, row, f"This conversation is called: {session_title(session)}")
            return
        await send_reply(house, row, f"This conversation is now called: {title}", title=title)

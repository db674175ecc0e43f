"""/title: say what this conversation is called, or call it something else."""

from collections.abc import Awaitable

from holdfast.core.sessions.title import shortened
from holdfast.gateway.commands.alone import NOTHING_YET
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.commands.reach import named
from holdfast.gateway.commands.reply import answer
from holdfast.gateway.services import House


class Title:
    name = "title"

    def __init__(self, house: House) -> None:
        self._house = house

    def begin(self, asked: Asked) -> Awaitable[None]:
        return self._carry_out(asked)

    async def _carry_out(self, asked: Asked) -> None:
        house, row = self._house, asked.row
        session = await house.store.session(asked.session_id) if asked.session_id else None
        if session is None:
            await answer(house, row, NOTHING_YET)
            return
        title = shortened("".join(c if c.isprintable() else " " for c in asked.argument))
        if not title:
            await answer(house, row, f"This conversation is called: {named(session)}")
            return
        await answer(house, row, f"This conversation is now called: {title}", title=title)

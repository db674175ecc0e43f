"""/sessions: the conversations that can be gone back to."""

from collections.abc import Awaitable

from holdfast.gateway.commands.command import Asked
from holdfast.gateway.commands.reach import SHOWN, conversations, lines
from holdfast.gateway.commands.reply import answer
from holdfast.gateway.services import House


class Sessions:
    name = "sessions"

    def __init__(self, house: House) -> None:
        self._house = house

    def begin(self, asked: Asked) -> Awaitable[None]:
        return self._list(asked)

    async def _list(self, asked: Asked) -> None:
        house, current = self._house, asked.session_id
        found = await conversations(house, asked.row, current=current)
        if not found:
            await answer(house, asked.row, "There are no conversations yet.")
            return
        shown = lines(found[:SHOWN], current=current, now=house.clock.now())
        more = [f"… and {len(found) - SHOWN} older ones."] if len(found) > SHOWN else []
        last = "/resume N goes back to one; /resume TITLE finds it by its title."
        await answer(house, asked.row, "\n".join([*shown, *more, last]))

"""/undo: take back the last exchanges, as if they had not been said."""

from collections.abc import Awaitable

from holdfast.core.ids import SessionId
from holdfast.core.messages.exchanges import Exchange, exchanges
from holdfast.core.people.commands import BY_NAME
from holdfast.core.sessions.session import Undo as TakingBack
from holdfast.core.sessions.title import shortened
from holdfast.gateway.commands.alone import alone
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.commands.reply import answer, prepare, settle
from holdfast.gateway.services import House
from holdfast.gateway.turns.lanes import Lanes


class Undo:
    """What is taken back stays in the log, where people can read it, and no model does."""

    name = "undo"

    def __init__(self, house: House, lanes: Lanes) -> None:
        self._house = house
        self._lanes = lanes

    def begin(self, asked: Asked) -> Awaitable[None]:
        if _number(asked.argument) is None:
            why = f"{asked.argument!r} is no number of exchanges."
            return answer(self._house, asked.row, BY_NAME[self.name].misused(why))
        return alone(self._house, self._lanes, asked, self._take_back)

    async def _take_back(self, asked: Asked, session_id: SessionId) -> None:
        house, number = self._house, _number(asked.argument) or 1
        taken = exchanges(await house.store.transcript(session_id))[-number:]
        if not taken:
            await answer(house, asked.row, "There is nothing to take back.")
            return
        undo = TakingBack(session_id=session_id, from_seq=taken[0].from_seq)
        effect = prepare(house, asked.row, _told(taken), undo=undo)
        await settle(house, effect, kept=lambda _: house.cache.drop(session_id))


def _number(argument: str) -> int | None:
    """How many are meant; None: that is no number. No length of digits is too long to read."""
    if not argument:
        return 1
    number = int(argument[:9]) if argument.isdecimal() else 0
    return number or None


def _told(taken: list[Exchange]) -> str:
    words = " ".join(message.text for message in taken[0].said)
    since = f"everything since “{shortened(words)}”" if len(taken) > 1 else f"“{shortened(words)}”"
    return (
        f"Taken back: {since}. The agent does not know of it any more; what its tools did "
        "meanwhile stays done."
    )

"""/busy: say what a message does to a running turn, or choose it for this session."""

from collections.abc import Awaitable, Mapping

from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import BusyMode
from holdfast.core.people.commands import BY_NAME
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.commands.reply import answer
from holdfast.gateway.services import House
from holdfast.gateway.sessions.resolver import SessionStore

DEFAULT = "default"
_MEANINGS: Mapping[BusyMode, str] = {
    BusyMode.INTERRUPT: "a new message interrupts it, and both are answered together",
    BusyMode.QUEUE: "a new message waits, and is answered after it",
    BusyMode.STEER: "a new message reaches it at its next step",
}


class Busy:
    name = "busy"

    def __init__(self, house: House, sessions: SessionStore) -> None:
        self._house = house
        self._sessions = sessions

    def begin(self, asked: Asked) -> Awaitable[None]:
        word = asked.argument.lower()
        if not word:
            return self._show(asked)
        if word == DEFAULT:
            return self._choose(asked, None)
        if word in _MEANINGS:
            return self._choose(asked, BusyMode(word))
        spec = BY_NAME[self.name]
        return answer(self._house, asked.row, spec.misused(f"There is no mode {asked.argument!r}."))

    async def _show(self, asked: Asked) -> None:
        session_id = asked.session_id
        chosen = await self._house.store.busy_mode(session_id) if session_id else None
        await answer(self._house, asked.row, self._text(asked, chosen))

    async def _choose(self, asked: Asked, mode: BusyMode | None) -> None:
        session_id = asked.session_id or SessionId(self._house.new_id("s"))
        await answer(
            self._house,
            asked.row,
            self._text(asked, mode),
            session_id=session_id,
            route=asked.row.route,
            opening=self._sessions.opening_for(asked),
            busy_mode="" if mode is None else mode.value,
        )

    def _text(self, asked: Asked, chosen: BusyMode | None) -> str:
        mode = chosen or self._house.busy_mode(asked.row.inbound.source)
        whence = "chosen here" if chosen else "the default"
        return f"While the agent works, {_MEANINGS[mode]} ({mode}, {whence})."

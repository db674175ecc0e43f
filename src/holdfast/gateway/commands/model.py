"""/model: say which model answers here, or choose another for this session."""

from collections.abc import Awaitable

from holdfast.core.ids import SessionId
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.commands.reply import answer
from holdfast.gateway.services import House
from holdfast.gateway.sessions.resolver import SessionStore


class Model:
    name = "model"

    def __init__(self, house: House, sessions: SessionStore) -> None:
        self._house = house
        self._sessions = sessions

    def begin(self, asked: Asked) -> Awaitable[None]:
        return self._choose(asked) if asked.argument else self._show(asked)

    async def _show(self, asked: Asked) -> None:
        row = await self._house.store.session(asked.session_id) if asked.session_id else None
        chosen = row.model_override if row else None
        model = self._house.agents.model
        found = f"{model.name} ({model.provider}): {model.why}"
        text = f"{chosen} (chosen here)" if chosen else found
        await answer(self._house, asked.row, f"The model is {text}.")

    async def _choose(self, asked: Asked) -> None:
        house, name = self._house, asked.argument
        default = name.lower() == "default"
        session_id = asked.session_id or SessionId(house.new_id("s"))
        await answer(
            house,
            asked.row,
            f"From the next message on, {house.agents.model_name if default else name} answers.",
            session_id=session_id,
            route=asked.row.route,
            opening=self._sessions.opening_for(asked),
            model_override="" if default else name,
        )
        house.cache.drop(session_id)

"""/fork: go on in a copy of this conversation, and leave it as it is."""

from collections.abc import Awaitable

from holdfast.core.ids import SessionId
from holdfast.core.sessions.session import Fork as Copy
from holdfast.core.sessions.session import Settled
from holdfast.core.sessions.title import shortened
from holdfast.gateway.commands.alone import NOTHING_YET, alone
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.commands.reach import named
from holdfast.gateway.commands.reply import answer, prepare, settle
from holdfast.gateway.services import House
from holdfast.gateway.turns.lanes import Lanes
from holdfast.gateway.turns.opening import owner_of


class Fork:
    name = "fork"

    def __init__(self, house: House, lanes: Lanes) -> None:
        self._house = house
        self._lanes = lanes

    def begin(self, asked: Asked) -> Awaitable[None]:
        return alone(self._house, self._lanes, asked, self._copy)

    async def _copy(self, asked: Asked, session_id: SessionId) -> None:
        house, lanes, route = self._house, self._lanes, asked.row.route
        session = await house.store.session(session_id)
        if session is None or not session.messages:
            await answer(house, asked.row, NOTHING_YET)
            return
        copy = Copy(
            of=session_id,
            session_id=SessionId(house.new_id("s")),
            title=shortened(asked.argument or f"{named(session)} (fork)"),
            principal=owner_of(asked.row, house.settings.sessions),
        )

        def pointed(_: Settled) -> None:
            for row in lanes.take_back(session_id, route):
                lanes.admit(row, known=copy.session_id)
            house.feeds.changed(copy.session_id)

        text = f"You are now in a copy: {copy.title}\n/resume goes back to the original."
        effect = prepare(house, asked.row, text, route=route, fork=copy)
        await settle(house, effect, kept=pointed)

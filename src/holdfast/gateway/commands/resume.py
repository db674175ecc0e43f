"""/resume: go back to an earlier conversation; the one that is left is kept."""

from collections.abc import Awaitable, Sequence

from holdfast.core.ids import SessionId
from holdfast.core.sessions.session import SessionRow, Settled
from holdfast.gateway.commands.alone import alone
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.commands.reach import SHOWN, conversations, lines, named, person_of
from holdfast.gateway.commands.reply import answer, prepare, settle
from holdfast.gateway.services import House
from holdfast.gateway.turns.lanes import Lanes

NONE_EARLIER = "There is no earlier conversation to go back to."


class Resume:
    """A person reaches their own conversations, and those of the place they speak in."""

    name = "resume"

    def __init__(self, house: House, lanes: Lanes) -> None:
        self._house = house
        self._lanes = lanes

    def begin(self, asked: Asked) -> Awaitable[None]:
        if asked.session_id is None:
            return self._go_back(asked, None)
        # What is said from now on waits, and goes where the route points when this is done.
        return alone(self._house, self._lanes, asked, self._go_back)

    async def _go_back(self, asked: Asked, current: SessionId | None) -> None:
        found = await self._found(asked, current)
        if isinstance(found, str):
            await answer(self._house, asked.row, found)
        elif found.id == current:
            await answer(self._house, asked.row, f"You are in it already: {named(found)}")
        else:
            await self._point(asked, current, found)

    async def _found(self, asked: Asked, current: SessionId | None) -> SessionRow | str:
        """The session that is meant, or why there is none."""
        listed = await conversations(self._house, asked.row, current=current)
        wanted = asked.argument
        if not wanted:
            return await self._last(asked, current, listed)
        if wanted.isdecimal() and 1 <= int(wanted[:9]) <= len(listed):
            return listed[int(wanted[:9]) - 1]
        row = asked.row
        by_id = await self._house.store.reaches(
            SessionId(wanted), route=row.route, principal=person_of(row)
        )
        return by_id or self._titled(wanted, listed, current)

    async def _last(
        self, asked: Asked, current: SessionId | None, listed: Sequence[SessionRow]
    ) -> SessionRow | str:
        """The one whose place the present one took, else the last that was active before it."""
        here = await self._house.store.session(current) if current else None
        others = [each for each in listed if each.id != current]
        before = [each for each in others if here is not None and each.id == here.previous]
        return next(iter([*before, *others]), NONE_EARLIER)

    def _titled(
        self, wanted: str, listed: Sequence[SessionRow], current: SessionId | None
    ) -> SessionRow | str:
        words = wanted.casefold()
        exact = [each for each in listed if each.title.casefold() == words]
        fitting = exact or [each for each in listed if words in each.title.casefold()]
        if len(fitting) == 1:
            return fitting[0]
        if not fitting:
            return f"None of your conversations is {wanted!r}. /sessions lists them."
        now, places = self._house.clock.now(), {row.id: n for n, row in enumerate(listed, 1)}
        shown = [
            lines([each], current=current, now=now, first=places[each.id])[0]
            for each in fitting[:SHOWN]
        ]
        return "\n".join(["Which one? /resume N goes back to it.", *shown])

    async def _point(self, asked: Asked, left: SessionId | None, to: SessionRow) -> None:
        lanes, route = self._lanes, asked.row.route
        text = f"Back in: {named(to)}"
        if left is not None:
            text += "\nThe conversation you left is kept: /resume goes back to it as well."

        def pointed(_: Settled) -> None:
            for row in lanes.take_back(left, route) if left else ():
                lanes.admit(row, known=to.id)
            self._house.feeds.changed(to.id)

        effect = prepare(self._house, asked.row, text, route=route, resume=to.id)
        await settle(self._house, effect, kept=pointed)

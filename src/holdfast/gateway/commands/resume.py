"""/resume: go back to an earlier conversation; the one that is left is kept."""

from collections.abc import Awaitable, Sequence

from holdfast.core.ids import SessionId
from holdfast.core.sessions.session import CommandOutcome, SessionRow
from holdfast.gateway.commands.alone import run_exclusively
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reach import (
    MAX_SHOWN,
    dm_principal,
    list_conversations,
    session_lines,
    session_title,
)
from holdfast.gateway.commands.reply import commit_effect, prepare_effect, send_reply
from holdfast.gateway.services import Services
from holdfast.gateway.turns.lanes import Lanes

NONE_EARLIER = "There is no earlier conversation to go back to."


class ResumeCommand:
    """A person reaches their own conversations, and those of the place they speak in."""

    name = "resume"

    def __init__(self, services: Services, lanes: Lanes) -> None:
        self._services = services
        self._lanes = lanes

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        if request.session_id is None:
            return self._go_back(request, None)
        # What is said from now on waits, and goes where the route points when this is done.
        return run_exclusively(self._services, self._lanes, request, self._go_back)

    async def _go_back(self, request: CommandRequest, current: SessionId | None) -> None:
        found = await self._find(request, current)
        if isinstance(found, str):
            await send_reply(self._services, request.row, found)
        elif found.id == current:
            await send_reply(
                self._services, request.row, f"You are in it already: {session_title(found)}"
            )
        else:
            await self._switch(request, current, found)

    async def _find(self, request: CommandRequest, current: SessionId | None) -> SessionRow | str:
        """The session that is meant, or why there is none."""
        listed = await list_conversations(self._services, request.row, current=current)
        wanted = request.argument
        if not wanted:
            return await self._previous(request, current, listed)
        if wanted.isdecimal() and 1 <= int(wanted[:9]) <= len(listed):
            return listed[int(wanted[:9]) - 1]
        row = request.row
        by_id = await self._services.store.session_in_reach(
            SessionId(wanted), route=row.route, principal=dm_principal(row)
        )
        return by_id or self._find_by_title(wanted, listed, current)

    async def _previous(
        self, request: CommandRequest, current: SessionId | None, listed: Sequence[SessionRow]
    ) -> SessionRow | str:
        """The one whose place the present one took, else the last that was active before it."""
        here = await self._services.store.session(current) if current else None
        others = [each for each in listed if each.id != current]
        before = [each for each in others if here is not None and each.id == here.previous]
        return next(iter([*before, *others]), NONE_EARLIER)

    def _find_by_title(
        self, title: str, listed: Sequence[SessionRow], current: SessionId | None
    ) -> SessionRow | str:
        words = title.casefold()
        exact = [each for each in listed if each.title.casefold() == words]
        fitting = exact or [each for each in listed if words in each.title.casefold()]
        if len(fitting) == 1:
            return fitting[0]
        if not fitting:
            return f"None of your conversations is {title!r}. /sessions lists them."
        now, places = self._services.clock.now(), {row.id: n for n, row in enumerate(listed, 1)}
        shown = [
            session_lines([each], current=current, now=now, first=places[each.id])[0]
            for each in fitting[:MAX_SHOWN]
        ]
        return "\n".join(["Which one? /resume N goes back to it.", *shown])

    async def _switch(
        self, request: CommandRequest, left: SessionId | None, to: SessionRow
    ) -> None:
        lanes, route = self._lanes, request.row.route
        text = f"Back in: {session_title(to)}"
        if left is not None:
            text += "\nThe conversation you left is kept: /resume goes back to it as well."

        def pointed(_: CommandOutcome) -> None:
            for row in lanes.take_waiting(left, route) if left else ():
                lanes.admit(row, known=to.id)
            self._services.feeds.session_changed(to.id)

        effect = prepare_effect(self._services, request.row, text, route=route, resume=to.id)
        await commit_effect(self._services, effect, on_committed=pointed)

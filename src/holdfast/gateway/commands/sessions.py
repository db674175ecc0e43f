"""Commands about conversations: /new, /sessions, /resume, /fork, /title, /search."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from datetime import datetime

from holdfast.core.errors import StoreError
from holdfast.core.ids import InboxId, PrincipalId, SessionId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.source import ChatType
from holdfast.core.people.audit import actor_of
from holdfast.core.sessions.search import SearchMatch, SearchQuery, search_scope
from holdfast.core.sessions.session import CommandEffect, CommandOutcome, SessionRow, truncate_title
from holdfast.core.sessions.session import ForkEffect as Copy
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reply import build_reply, commit_effect, prepare_effect, send_reply
from holdfast.gateway.services import Services
from holdfast.gateway.turns.endings import superseded_ends
from holdfast.gateway.turns.lane import LanePause
from holdfast.gateway.turns.lanes import Lanes
from holdfast.gateway.turns.transcript_notes import session_owner

# MERGED holdfast.gateway.commands.alone: Having a session to oneself: for commands that change what was said in it.
NOTHING_YET = "Nothing has been said in this conversation yet."
BUSY = (
    "This cannot be done while the agent works on something: wait for its answer, or /stop it "
    "first."
)

CarryOut = Callable[[CommandRequest, SessionId], Awaitable[None]]


def run_exclusively(
    services: Services, lanes: Lanes, request: CommandRequest, carry_out: CarryOut
) -> Awaitable[None]:
    """Carry a command out with no turn of its session under way, nor any that begins meanwhile:
    what is said from this instant on waits until it is done."""
    if request.session_id is None:
        return send_reply(services, request.row, NOTHING_YET)
    barrier = lanes.pause_lane(request.session_id)
    if barrier is None:
        return send_reply(services, request.row, BUSY)
    return _run_while_paused(barrier, request, request.session_id, carry_out)


async def _run_while_paused(
    pause: LanePause, request: CommandRequest, session_id: SessionId, carry_out: CarryOut
) -> None:
    try:
        await pause.wait_until_held()
        await carry_out(request, session_id)
    finally:
        pause.release()


# MERGED holdfast.gateway.commands.reach: Which sessions somebody reaches from where they speak, and how those are shown to them.
MAX_SHOWN = 10
_READ_LIMIT = 200
_UNITS = ((86400, "day"), (3600, "hour"), (60, "minute"))


def dm_principal(row: InboxRow) -> PrincipalId | None:
    """In a chat of two, whose every session may be shown there. Where others read along, None:
    only what was said in that very place is."""
    return row.principal if row.inbound.source.chat_type is ChatType.DM else None


async def list_conversations(
    services: Services, row: InboxRow, *, current: SessionId | None, limit: int = _READ_LIMIT
) -> list[SessionRow]:
    """The last active first; those in which nothing was ever said are not worth a line."""
    found = await services.store.sessions_in_reach(
        route=row.route, principal=dm_principal(row), limit=limit
    )
    return [each for each in found if each.messages or each.id == current]


def session_lines(
    rows: Iterable[SessionRow], *, current: SessionId | None, now: float, first: int = 1
) -> list[str]:
    return [
        f"{number}. {session_title(row)} - {_message_count(row)}, {format_ago(now - row.active_at)}"
        + (" (you are here)" if row.id == current else "")
        for number, row in enumerate(rows, first)
    ]


def session_title(row: SessionRow) -> str:
    return row.title or "(no title)"


def _message_count(row: SessionRow) -> str:
    return f"{row.messages} message{'s' if row.messages != 1 else ''}"


def format_ago(seconds: float) -> str:
    for size, unit in _UNITS:
        count = int(seconds // size)
        if count >= 1:
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"


# MERGED holdfast.gateway.commands.new: /new: leave this conversation and begin another.
CloseSession = Callable[[SessionId], Awaitable[None]]


class NewCommand:
    name = "new"

    def __init__(
        self,
        services: Services,
        lanes: Lanes,
        *,
        close: CloseSession,
        running_commands: Callable[[], Collection[InboxId]],
    ) -> None:
        self._services = services
        self._lanes = lanes
        self._close = close
        self._running_commands = running_commands  # the commands that are being carried out

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        house, row, old = self._services, request.row, request.session_id
        fresh = SessionId(house.new_id("s"))
        # Now, not when the commit is through: what is said after /new belongs to the new session.
        pointed = self._lanes.point_route(row.route, fresh)
        lane = self._lanes.get(old) if old else None
        waiting: list[InboxRow] = []
        if lane is not None:
            waiting = lane.drop_waiting_messages()
            lane.stop([], [], by=actor_of(row.inbound))
        end, reply = build_reply(house, row, "A new conversation begins.")
        effect = CommandEffect(
            inbox_ends=(*superseded_ends(waiting), end),
            deliveries=(reply,),
            at=house.clock.now(),
            session_id=old,
            route=row.route,
            new_session=fresh,
            supersede_before=row.id,
            # A command that came first and still reads is answered, not taken for a message.
            keep=tuple(self._running_commands()),
        )
        return self._finish(effect, old, pointed, waiting)

    async def _finish(
        self,
        effect: CommandEffect,
        old: SessionId | None,
        settle_route: Callable[..., None],
        waiting: Sequence[InboxRow],
    ) -> None:
        try:
            await commit_effect(self._services, effect)
        except StoreError:
            settle_route(undo=True)
            if old:
                self._lanes.readmit(waiting, old)
            raise
        settle_route()
        if old:
            await self._close(old)


# MERGED holdfast.gateway.commands.sessions: /sessions: the conversations that can be gone back to.
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


# MERGED holdfast.gateway.commands.resume: /resume: go back to an earlier conversation; the one that is left is kept.
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


# MERGED holdfast.gateway.commands.fork: /fork: go on in a copy of this conversation, and leave it as it is.
class ForkCommand:
    name = "fork"

    def __init__(self, services: Services, lanes: Lanes) -> None:
        self._services = services
        self._lanes = lanes

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        return run_exclusively(self._services, self._lanes, request, self._copy)

    async def _copy(self, request: CommandRequest, session_id: SessionId) -> None:
        house, lanes, route = self._services, self._lanes, request.row.route
        session = await house.store.session(session_id)
        if session is None or not session.messages:
            await send_reply(house, request.row, NOTHING_YET)
            return
        copy = Copy(
            of=session_id,
            session_id=SessionId(house.new_id("s")),
            title=truncate_title(request.argument or f"{session_title(session)} (fork)"),
            principal=session_owner(request.row, house.settings.sessions),
        )

        def pointed(_: CommandOutcome) -> None:
            for row in lanes.take_waiting(session_id, route):
                lanes.admit(row, known=copy.session_id)
            house.feeds.session_changed(copy.session_id)

        text = f"You are now in a copy: {copy.title}\n/resume goes back to the original."
        effect = prepare_effect(house, request.row, text, route=route, fork=copy)
        await commit_effect(house, effect, on_committed=pointed)


# MERGED holdfast.gateway.commands.title: /title: say what this conversation is called, or call it something else.
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


# MERGED holdfast.gateway.commands.search: /search: where something was said, in the conversations that this chat may see.
_MAX_RESULTS = 8


class SearchCommand:
    name = "search"

    def __init__(self, services: Services) -> None:
        self._services = services

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        return self._run(request)

    async def _run(self, request: CommandRequest) -> None:
        await send_reply(self._services, request.row, await self._text(request))

    async def _text(self, request: CommandRequest) -> str:
        if not request.argument:
            return 'Say what to look for: /search WORDS. "Quotes" keep words together.'
        row = request.row
        visible = search_scope(row.route, row.principal)
        query = SearchQuery(words=request.argument, limit=_MAX_RESULTS, scope=visible)
        try:
            found = await self._services.store.search(query)
        except StoreError as error:
            # The search has a file of its own: its trouble is an answer, and no reason to wait
            # until the gateway is started again.
            return f"The search does not work just now: {error}"
        if not found:
            return "Nothing was found. All words must be there; the beginning of one is enough."
        return "\n".join(
            _result_line(each, here=each.session.id == request.session_id) for each in found
        )


def _result_line(found: SearchMatch, *, here: bool) -> str:
    day = datetime.fromtimestamp(found.created_at).strftime("%Y-%m-%d")
    where = "here" if here else f"{found.session.title or found.session.id} ({found.session.id})"
    return f"{day} · {where}: {found.snippet}"

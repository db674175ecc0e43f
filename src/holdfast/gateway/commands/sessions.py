"""Commands about conversations: /new, /sessions, /resume, /fork, /title, /search.

Also what other commands share: exclusive access to a session, and which sessions a chat may see.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from datetime import datetime

from holdfast.core.errors import StoreError
from holdfast.core.ids import InboxId, PrincipalId, SessionId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.source import ChatType
from holdfast.core.people.audit import actor_of
from holdfast.core.ports.store_queries import GetSession, GetVisibleSession, ListVisibleSessions
from holdfast.core.sessions.search import SearchMatch, SearchQuery, search_scope
from holdfast.core.sessions.session import (
    CommandEffect,
    CommandOutcome,
    ForkEffect,
    SessionRow,
    truncate_title,
)
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reply import build_reply, commit_effect, prepare_effect, send_reply
from holdfast.gateway.services import Services
from holdfast.gateway.turns.endings import superseded_ends
from holdfast.gateway.turns.lane import LanePause
from holdfast.gateway.turns.lanes import Lanes
from holdfast.gateway.turns.transcript_notes import session_owner

MAX_SHOWN = 10
_READ_LIMIT = 200
_MAX_RESULTS = 8
_UNITS = ((86400, "day"), (3600, "hour"), (60, "minute"))
NONE_EARLIER = "There is no earlier conversation to go back to."
NOTHING_YET = "Nothing has been said in this conversation yet."
BUSY = (
    "This cannot be done while the agent works on something: wait for its answer, or /stop it "
    "first."
)

RunCommand = Callable[[CommandRequest, SessionId], Awaitable[None]]
CloseSession = Callable[[SessionId], Awaitable[None]]


def run_exclusively(
    services: Services, lanes: Lanes, request: CommandRequest, run: RunCommand
) -> Awaitable[None]:
    """Run a command while no turn of its session runs or begins: messages that arrive from now on
    wait until it is done."""
    if request.session_id is None:
        return send_reply(services, request.row, NOTHING_YET)
    pause = lanes.pause_lane(request.session_id)
    if pause is None:
        return send_reply(services, request.row, BUSY)
    return _run_while_paused(pause, request, request.session_id, run)


async def _run_while_paused(
    pause: LanePause, request: CommandRequest, session_id: SessionId, run: RunCommand
) -> None:
    try:
        await pause.wait_until_paused()
        await run(request, session_id)
    finally:
        pause.release()


def dm_principal(row: InboxRow) -> PrincipalId | None:
    """The person of a direct chat, whose sessions may all be shown there; None in a group: only the
    sessions of that chat may be shown."""
    return row.principal if row.inbound.source.chat_type is ChatType.DM else None


async def list_conversations(
    services: Services, row: InboxRow, *, current: SessionId | None, limit: int = _READ_LIMIT
) -> list[SessionRow]:
    """The last active first, without empty ones."""
    found = await services.store.read(
        ListVisibleSessions(route=row.route, principal=dm_principal(row), limit=limit)
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


class NewCommand:
    """/new: leave this conversation and begin another."""

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
        self._running_commands = running_commands

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        services, row, old = self._services, request.row, request.session_id
        fresh = SessionId(services.new_id("s"))
        # Now, not after the commit: what is said after /new belongs to the new session.
        settle_route = self._lanes.point_route(row.route, fresh)
        lane = self._lanes.get(old) if old else None
        waiting: list[InboxRow] = []
        if lane is not None:
            waiting = lane.drop_waiting_messages()
            lane.stop([], [], by=actor_of(row.inbound))
        end, reply = build_reply(services, row, "A new conversation begins.")
        effect = CommandEffect(
            inbox_ends=(*superseded_ends(waiting), end),
            deliveries=(reply,),
            at=services.clock.now(),
            session_id=old,
            route=row.route,
            new_session=fresh,
            supersede_before=row.id,
            # A command that came before and still runs is answered, not taken for a message.
            keep=tuple(self._running_commands()),
        )
        return self._finish(effect, old, settle_route, waiting)

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


class SessionsCommand:
    """/sessions: list the conversations that can be resumed."""

    name = "sessions"

    def __init__(self, services: Services) -> None:
        self._services = services

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        return self._list(request)

    async def _list(self, request: CommandRequest) -> None:
        services, current = self._services, request.session_id
        found = await list_conversations(services, request.row, current=current)
        if not found:
            await send_reply(services, request.row, "There are no conversations yet.")
            return
        shown = session_lines(found[:MAX_SHOWN], current=current, now=services.clock.now())
        more = [f"… and {len(found) - MAX_SHOWN} older ones."] if len(found) > MAX_SHOWN else []
        last = "/resume N goes back to one; /resume TITLE finds it by its title."
        await send_reply(services, request.row, "\n".join([*shown, *more, last]))


class ResumeCommand:
    """/resume: go back to an earlier conversation; the current one is kept. In a direct chat people
    can resume all their own conversations, in a group those of the group."""

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
        """The requested session, or why there is none."""
        listed = await list_conversations(self._services, request.row, current=current)
        target = request.argument
        if not target:
            return await self._previous(request, current, listed)
        if target.isdecimal() and 1 <= int(target[:9]) <= len(listed):
            return listed[int(target[:9]) - 1]
        row = request.row
        by_id = await self._services.store.read(
            GetVisibleSession(
                session_id=SessionId(target), route=row.route, principal=dm_principal(row)
            )
        )
        return by_id or self._find_by_title(target, listed, current)

    async def _previous(
        self, request: CommandRequest, current: SessionId | None, listed: Sequence[SessionRow]
    ) -> SessionRow | str:
        """The session that the current one replaced, else the last active one before it."""
        here = await self._services.store.read(GetSession(session_id=current)) if current else None
        others = [each for each in listed if each.id != current]
        before = [each for each in others if here is not None and each.id == here.previous]
        return next(iter([*before, *others]), NONE_EARLIER)

    def _find_by_title(
        self, title: str, listed: Sequence[SessionRow], current: SessionId | None
    ) -> SessionRow | str:
        words = title.casefold()
        exact = [each for each in listed if each.title.casefold() == words]
        matches = exact or [each for each in listed if words in each.title.casefold()]
        if len(matches) == 1:
            return matches[0]
        if not matches:
            return f"None of your conversations is {title!r}. /sessions lists them."
        now, numbers = self._services.clock.now(), {row.id: n for n, row in enumerate(listed, 1)}
        shown = [
            session_lines([each], current=current, now=now, first=numbers[each.id])[0]
            for each in matches[:MAX_SHOWN]
        ]
        return "\n".join(["Which one? /resume N goes back to it.", *shown])

    async def _switch(
        self, request: CommandRequest, left: SessionId | None, to: SessionRow
    ) -> None:
        lanes, route = self._lanes, request.row.route
        text = f"Back in: {session_title(to)}"
        if left is not None:
            text += "\nThe conversation you left is kept: /resume goes back to it as well."

        def move_waiting(_: CommandOutcome) -> None:
            for row in lanes.take_waiting(left, route) if left else ():
                lanes.admit(row, known=to.id)
            self._services.feeds.session_changed(to.id)

        effect = prepare_effect(self._services, request.row, text, route=route, resume=to.id)
        await commit_effect(self._services, effect, on_committed=move_waiting)


class ForkCommand:
    """/fork: continue in a copy of this conversation, and leave the original as it is."""

    name = "fork"

    def __init__(self, services: Services, lanes: Lanes) -> None:
        self._services = services
        self._lanes = lanes

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        return run_exclusively(self._services, self._lanes, request, self._copy)

    async def _copy(self, request: CommandRequest, session_id: SessionId) -> None:
        services, lanes, route = self._services, self._lanes, request.row.route
        session = await services.store.read(GetSession(session_id=session_id))
        if session is None or not session.messages:
            await send_reply(services, request.row, NOTHING_YET)
            return
        copy = ForkEffect(
            of=session_id,
            session_id=SessionId(services.new_id("s")),
            title=truncate_title(request.argument or f"{session_title(session)} (fork)"),
            principal=session_owner(request.row, services.settings.sessions),
        )

        def move_waiting(_: CommandOutcome) -> None:
            for row in lanes.take_waiting(session_id, route):
                lanes.admit(row, known=copy.session_id)
            services.feeds.session_changed(copy.session_id)

        text = f"You are now in a copy: {copy.title}\n/resume goes back to the original."
        effect = prepare_effect(services, request.row, text, route=route, fork=copy)
        await commit_effect(services, effect, on_committed=move_waiting)


class TitleCommand:
    """/title: show the title of this conversation, or change it."""

    name = "title"

    def __init__(self, services: Services) -> None:
        self._services = services

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        return self._run(request)

    async def _run(self, request: CommandRequest) -> None:
        services, row = self._services, request.row
        session = (
            await services.store.read(GetSession(session_id=request.session_id))
            if request.session_id
            else None
        )
        if session is None:
            await send_reply(services, row, NOTHING_YET)
            return
        title = truncate_title("".join(c if c.isprintable() else " " for c in request.argument))
        if not title:
            await send_reply(
                services, row, f"This conversation is called: {session_title(session)}"
            )
            return
        await send_reply(services, row, f"This conversation is now called: {title}", title=title)


class SearchCommand:
    """/search: find text in the conversations that this chat may see."""

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
            found = await self._services.store.read(query)
        except StoreError as error:
            # The search index is a file of its own: its failure is the answer, and no reason to
            # keep the command waiting for the store.
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

"""Commands about conversations: /new, /sessions, /resume, /fork, /title, /search; and those that
change the history of one: /undo, /retry, /compact.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime

import msgspec

from holdfast.agent.agent import Agent
from holdfast.agent.compaction import CompactionResult, compact, redact_record
from holdfast.core.commands import COMMANDS_BY_NAME, CommandRequest
from holdfast.core.errors import StoreError
from holdfast.core.ids import PrincipalId, SessionId
from holdfast.core.messages.inbox import Inbound, InboxEnd, InboxRow, InboxState
from holdfast.core.messages.source import ChatType, speaker_name
from holdfast.core.messages.transcript import Exchange, UserMessage, split_exchanges
from holdfast.core.people.audit import actor_of
from holdfast.core.ports.store_commands import AddAuxiliaryUsage
from holdfast.core.ports.store_queries import (
    GetSession,
    GetTranscript,
    GetVisibleSession,
    ListVisibleSessions,
)
from holdfast.core.sessions.search import SearchMatch, SearchQuery, search_scope
from holdfast.core.sessions.session import (
    CommandEffect,
    ForkEffect,
    Resubmission,
    SessionRow,
    UndoEffect,
    truncate_title,
)
from holdfast.core.turns.compaction import compaction_point
from holdfast.core.turns.model import AuxiliaryFailed, AuxiliaryTask
from holdfast.core.turns.turn import NO_USAGE
from holdfast.gateway.commands.context import HistoryContext, ReplyContext, SessionContext
from holdfast.gateway.commands.reply import build_reply, prepare_effect, send_reply
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
SUMMARIES_OFF = (
    "Nothing is summarised here: the demo cannot, or `summaries` is off under [auxiliary] in "
    "holdfast.toml."
)
TOO_LITTLE = "There is too little to summarise yet; nothing was changed."

RunInSession = Callable[[SessionId], Awaitable[None]]


def _run_exclusively(
    replies: ReplyContext, lanes: Lanes, request: CommandRequest, run: RunInSession
) -> Awaitable[None]:
    """Run a command while no turn of its session runs or begins: messages that arrive from now on
    wait until it is done."""
    if request.session_id is None:
        return send_reply(replies, request.row, NOTHING_YET)
    pause = lanes.pause_lane(request.session_id)
    if pause is None:
        return send_reply(replies, request.row, BUSY)
    return _run_while_paused(pause, request.session_id, run)


async def _run_while_paused(pause: LanePause, session_id: SessionId, run: RunInSession) -> None:
    try:
        await pause.wait_until_paused()
        await run(session_id)
    finally:
        pause.release()


def cmd_new(context: SessionContext, request: CommandRequest) -> Awaitable[None]:
    """Leave this conversation and begin another."""
    lanes, row, old = context.lanes, request.row, request.session_id
    fresh = SessionId(context.runtime.new_id("s"))
    # Now, not after the commit: what is said after /new belongs to the new session.
    settle_route: Callable[..., None] = lanes.point_route(row.route, fresh)
    lane = lanes.get(old) if old else None
    waiting: list[InboxRow] = []
    if lane is not None:
        waiting = lane.drop_waiting_messages()
        lane.stop([], [], by=actor_of(row.inbound))
    end, reply = build_reply(context.replies, row, "A new conversation begins.")
    effect = CommandEffect(
        inbox_ends=(*superseded_ends(waiting), end),
        deliveries=(reply,),
        at=context.runtime.clock.now(),
        session_id=old,
        route=row.route,
        new_session=fresh,
        supersede_before=row.id,
        # A command that came before and still runs is answered, not taken for a message.
        keep=request.running,
    )

    async def finish() -> None:
        try:
            await context.replies.effects.commit(effect)
        except StoreError:
            settle_route(undo=True)
            if old:
                lanes.readmit(waiting, old)
            raise
        settle_route()
        if old:
            await context.close(old)

    return finish()


async def cmd_sessions(context: SessionContext, request: CommandRequest) -> None:
    """List the conversations that can be resumed."""
    current = request.session_id
    found = await _list_conversations(context, request.row, current=current)
    if not found:
        await send_reply(context.replies, request.row, "There are no conversations yet.")
        return
    shown = _session_lines(found[:MAX_SHOWN], current=current, now=context.runtime.clock.now())
    more = [f"… and {len(found) - MAX_SHOWN} older ones."] if len(found) > MAX_SHOWN else []
    last = "/resume N goes back to one; /resume TITLE finds it by its title."
    await send_reply(context.replies, request.row, "\n".join([*shown, *more, last]))


def cmd_resume(context: SessionContext, request: CommandRequest) -> Awaitable[None]:
    """Go back to an earlier conversation; the current one is kept. In a direct chat people can
    resume all their own conversations, in a group those of the group."""
    if request.session_id is None:
        return _go_back(context, request, None)
    # What is said from now on waits, and goes where the route points when this is done.
    return _run_exclusively(
        context.replies, context.lanes, request, lambda current: _go_back(context, request, current)
    )


async def _go_back(
    context: SessionContext, request: CommandRequest, current: SessionId | None
) -> None:
    found = await _find_session(context, request, current)
    if isinstance(found, str):
        await send_reply(context.replies, request.row, found)
    elif found.id == current:
        text = f"You are in it already: {_session_title(found)}"
        await send_reply(context.replies, request.row, text)
    else:
        await _switch_session(context, request, left=current, to=found)


async def _find_session(
    context: SessionContext, request: CommandRequest, current: SessionId | None
) -> SessionRow | str:
    """The requested session, or why there is none."""
    row, target = request.row, request.argument
    listed = await _list_conversations(context, row, current=current)
    if not target:
        # The session that the current one replaced, else the last active one before it.
        here = await context.store.read(GetSession(session_id=current)) if current else None
        others = [each for each in listed if each.id != current]
        before = [each for each in others if here is not None and each.id == here.previous]
        return next(iter([*before, *others]), NONE_EARLIER)
    if target.isdecimal() and 1 <= int(target[:9]) <= len(listed):
        return listed[int(target[:9]) - 1]
    by_id = await context.store.read(
        GetVisibleSession(
            session_id=SessionId(target), route=row.route, principal=dm_principal(row)
        )
    )
    return by_id or _find_by_title(target, listed, current=current, now=context.runtime.clock.now())


def _find_by_title(
    title: str, listed: Sequence[SessionRow], *, current: SessionId | None, now: float
) -> SessionRow | str:
    words = title.casefold()
    exact = [each for each in listed if each.title.casefold() == words]
    matches = exact or [each for each in listed if words in each.title.casefold()]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        return f"None of your conversations is {title!r}. /sessions lists them."
    numbers = {row.id: n for n, row in enumerate(listed, 1)}
    shown = [
        _session_lines([each], current=current, now=now, first=numbers[each.id])[0]
        for each in matches[:MAX_SHOWN]
    ]
    return "\n".join(["Which one? /resume N goes back to it.", *shown])


async def _switch_session(
    context: SessionContext, request: CommandRequest, *, left: SessionId | None, to: SessionRow
) -> None:
    text = f"Back in: {_session_title(to)}"
    if left is not None:
        text += "\nThe conversation you left is kept: /resume goes back to it as well."
    route = request.row.route
    effect = prepare_effect(context.replies, request.row, text, route=route, resume=to.id)
    await context.replies.effects.commit(
        effect,
        on_committed=lambda _: _move_waiting(context, request, left=left, to=to.id),
    )


def _move_waiting(
    context: SessionContext, request: CommandRequest, *, left: SessionId | None, to: SessionId
) -> None:
    """What waits in the session that was left follows to the one that the route points to now."""
    lanes = context.lanes
    for row in lanes.take_waiting(left, request.row.route) if left else ():
        lanes.admit(row, known=to)


def cmd_fork(context: SessionContext, request: CommandRequest) -> Awaitable[None]:
    """Continue in a copy of this conversation, and leave the original as it is."""

    async def copy(session_id: SessionId) -> None:
        row = request.row
        session = await context.store.read(GetSession(session_id=session_id))
        if session is None or not session.messages:
            await send_reply(context.replies, row, NOTHING_YET)
            return
        fork = ForkEffect(
            of=session_id,
            session_id=SessionId(context.runtime.new_id("s")),
            title=truncate_title(request.argument or f"{_session_title(session)} (fork)"),
            principal=session_owner(row, context.live_settings.current.sessions),
        )
        text = f"You are now in a copy: {fork.title}\n/resume goes back to the original."
        effect = prepare_effect(context.replies, row, text, route=row.route, fork=fork)
        await context.replies.effects.commit(
            effect,
            on_committed=lambda _: _move_waiting(
                context, request, left=session_id, to=fork.session_id
            ),
        )

    return _run_exclusively(context.replies, context.lanes, request, copy)


async def cmd_title(context: SessionContext, request: CommandRequest) -> None:
    """Show the title of this conversation, or change it."""
    replies, row = context.replies, request.row
    session = (
        await context.store.read(GetSession(session_id=request.session_id))
        if request.session_id
        else None
    )
    if session is None:
        await send_reply(replies, row, NOTHING_YET)
        return
    title = truncate_title("".join(c if c.isprintable() else " " for c in request.argument))
    if not title:
        await send_reply(replies, row, f"This conversation is called: {_session_title(session)}")
        return
    await send_reply(replies, row, f"This conversation is now called: {title}", title=title)


async def cmd_search(context: SessionContext, request: CommandRequest) -> None:
    """Find text in the conversations that this chat may see."""
    await send_reply(context.replies, request.row, await _search_text(context, request))


async def _search_text(context: SessionContext, request: CommandRequest) -> str:
    if not request.argument:
        return 'Say what to look for: /search WORDS. "Quotes" keep words together.'
    row = request.row
    visible = search_scope(row.route, row.principal)
    query = SearchQuery(words=request.argument, limit=_MAX_RESULTS, scope=visible)
    try:
        found = await context.store.read(query)
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


def dm_principal(row: InboxRow) -> PrincipalId | None:
    """The person of a direct chat, whose sessions may all be shown there; None in a group: only the
    sessions of that chat may be shown."""
    return row.principal if row.inbound.source.chat_type is ChatType.DM else None


async def _list_conversations(
    context: SessionContext, row: InboxRow, *, current: SessionId | None
) -> list[SessionRow]:
    """The last active first, without empty ones."""
    found = await context.store.read(
        ListVisibleSessions(route=row.route, principal=dm_principal(row), limit=_READ_LIMIT)
    )
    return [each for each in found if each.messages or each.id == current]


def _session_lines(
    rows: Iterable[SessionRow], *, current: SessionId | None, now: float, first: int = 1
) -> list[str]:
    return [
        f"{number}. {_session_title(row)} - {_message_count(row)}, "
        + _format_ago(now - row.active_at)
        + (" (you are here)" if row.id == current else "")
        for number, row in enumerate(rows, first)
    ]


def _session_title(row: SessionRow) -> str:
    return row.title or "(no title)"


def _message_count(row: SessionRow) -> str:
    return f"{row.messages} message{'s' if row.messages != 1 else ''}"


def _format_ago(seconds: float) -> str:
    for size, unit in _UNITS:
        count = int(seconds // size)
        if count >= 1:
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"


def cmd_undo(context: HistoryContext, request: CommandRequest) -> Awaitable[None]:
    """Take back the last exchanges. They stay in the transcript, where people can read them, but
    the model does not see them any more."""
    replies, row, count = context.replies, request.row, _exchange_count(request.argument)
    if count is None:
        why = f"{request.argument!r} is no number of exchanges."
        return send_reply(replies, row, COMMANDS_BY_NAME["undo"].usage_error(why))

    async def take_back(session_id: SessionId) -> None:
        undone = split_exchanges(await context.store.read(GetTranscript(session_id=session_id)))[
            -count:
        ]
        if not undone:
            await send_reply(replies, row, "There is nothing to take back.")
            return
        undo = UndoEffect(session_id=session_id, from_seq=undone[0].from_seq)
        effect = prepare_effect(replies, row, _undone_text(undone), undo=undo)
        await replies.effects.commit(effect, on_committed=lambda _: context.agents.drop(session_id))

    return _run_exclusively(replies, context.lanes, request, take_back)


def _exchange_count(argument: str) -> int | None:
    """The number of exchanges; None: not a number. Only nine digits are read: int() of very long
    ones raises."""
    if not argument:
        return 1
    number = int(argument[:9]) if argument.isdecimal() else 0
    return number or None


def _undone_text(undone: list[Exchange]) -> str:
    words = " ".join(message.text for message in undone[0].user_messages)
    since = (
        f"everything since “{truncate_title(words)}”"
        if len(undone) > 1
        else f"“{truncate_title(words)}”"
    )
    return (
        f"Taken back: {since}. The agent does not know of it any more; what its tools did "
        "meanwhile stays done."
    )


def cmd_retry(context: HistoryContext, request: CommandRequest) -> Awaitable[None]:
    """Answer the last message again. One commit takes back the last exchange, resubmits its
    message, and merges the command into that: after a crash it is done once or not at all."""

    async def resubmit(session_id: SessionId) -> None:
        row = request.row
        exchanges = split_exchanges(await context.store.read(GetTranscript(session_id=session_id)))
        if why := _retry_refusal(exchanges, row):
            await send_reply(context.replies, row, why)
            return
        last = exchanges[-1]
        outcome = await context.replies.effects.commit(
            CommandEffect(
                inbox_ends=(InboxEnd(inbox_id=row.id, state=InboxState.MERGED),),
                session_id=session_id,
                route=row.route,
                undo=UndoEffect(session_id=session_id, from_seq=last.from_seq),
                resubmit=Resubmission(
                    inbound=_retry_message(row, last.user_messages), principal=row.principal
                ),
                at=context.replies.clock.now(),
            ),
            on_committed=lambda _: context.agents.drop(session_id),
        )
        assert outcome.resubmitted is not None, "the effect asked for it"
        context.lanes.admit(outcome.resubmitted, known=session_id)

    return _run_exclusively(context.replies, context.lanes, request, resubmit)


def _retry_refusal(past_exchanges: Sequence[Exchange], row: InboxRow) -> str:
    if not past_exchanges:
        return "There is nothing to say again."
    speakers = {message.speaker for message in past_exchanges[-1].user_messages}
    if speakers - {None, speaker_name(row.inbound.source)}:
        return "The last message was somebody else's: only they can have it answered again."
    return ""


def _retry_message(row: InboxRow, user_messages: Sequence[UserMessage]) -> Inbound:
    return msgspec.structs.replace(
        row.inbound,
        event_id=f"holdfast/retry/{row.id}",
        text="\n\n".join(message.text for message in user_messages if message.text),
        images=tuple(image for message in user_messages for image in message.images),
        documents="\n\n".join(message.documents for message in user_messages if message.documents),
        mergeable=False,
        commands=False,
        cursor=None,
    )


def cmd_compact(context: HistoryContext, request: CommandRequest) -> Awaitable[None]:
    """Summarise the older part of the conversation now. The record covers a number of messages from
    the start of the transcript, so it runs exclusively: an /undo in between would change what that
    number means."""
    if not context.auxiliary.is_enabled(AuxiliaryTask.SUMMARY):
        return send_reply(context.replies, request.row, SUMMARIES_OFF)
    if request.session_id is None:
        return send_reply(context.replies, request.row, TOO_LITTLE)

    async def run(session_id: SessionId) -> None:
        agent = await context.agents.build_beside(session_id, request.row)
        try:
            await _compact(context, request, agent)
        finally:
            agent.release_clients()

    return _run_exclusively(context.replies, context.lanes, request, run)


async def _compact(context: HistoryContext, request: CommandRequest, agent: Agent) -> None:
    replies, window = context.replies, agent.window
    # The person wants it shorter now, however much of the window is free.
    cut = compaction_point(agent.messages, keep_tokens=min(window.keep_tokens, window.used // 4))
    if not cut:
        await send_reply(replies, request.row, TOO_LITTLE)
        return
    await context.agents.memory.pre_compact(agent.session_id, agent.messages[:cut])
    try:
        made = await compact(agent, context.auxiliary, cut=cut, focus=request.argument)
    except AuxiliaryFailed as error:
        text = f"The summary could not be made, and nothing was changed: {error}"
        await send_reply(replies, request.row, text)
        if error.usage != NO_USAGE:
            await context.store.write(
                AddAuxiliaryUsage(
                    session_id=agent.session_id, task=AuxiliaryTask.SUMMARY, usage=error.usage
                )
            )
        return
    effect = prepare_effect(
        replies,
        request.row,
        _summary_text(made, cut, left=len(agent.messages) - cut),
        compaction=redact_record(made.record, context.redact),
        compaction_usage=made.usage,
    )
    await replies.effects.commit(
        effect, on_committed=lambda _: context.agents.drop(agent.session_id)
    )


def _summary_text(made: CompactionResult, cut: int, *, left: int) -> str:
    return (
        f"Summarised {cut} messages; each request is about {made.saved_tokens:,} tokens shorter "
        f"from now on. The last {left} stay as they were said, and the whole history stays "
        "readable."
    )

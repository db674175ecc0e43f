"""Commands about conversations: /new, /sessions, /resume, /fork, /title, /search; and those that
change the history of one: /undo, /retry, /compact.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence

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
from holdfast.core.text.locale_format import format_date, format_number
from holdfast.core.text.translation import N_, _, _n
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
NONE_EARLIER = N_("There is no earlier conversation to go back to.")
NOTHING_YET = N_("This conversation has no messages yet.")
BUSY = N_(
    "This is not possible while the agent is working. Wait for its answer, or send /stop first."
)
SUMMARIES_OFF = N_(
    "Summaries are not available: the demo model cannot make them, or `summaries` is off under "
    "[auxiliary] in holdfast.toml."
)
TOO_LITTLE = N_("There is too little to summarise yet; nothing was changed.")

RunInSession = Callable[[SessionId], Awaitable[None]]


def _run_exclusively(
    replies: ReplyContext, lanes: Lanes, request: CommandRequest, run: RunInSession
) -> Awaitable[None]:
    """Run a command while no turn of its session runs or begins: messages that arrive from now on
    wait until it is done."""
    if request.session_id is None:
        return send_reply(replies, request.row, _(NOTHING_YET))
    pause = lanes.pause_lane(request.session_id)
    if pause is None:
        return send_reply(replies, request.row, _(BUSY))
    return _run_while_paused(pause, request.session_id, run)


async def _run_while_paused(pause: LanePause, session_id: SessionId, run: RunInSession) -> None:
    try:
        await pause.wait_until_paused()
        await run(session_id)
    finally:
        pause.release()


def cmd_new(context: SessionContext, request: CommandRequest) -> Awaitable[None]:
    """Leave this conversation and start another."""
    lanes, row, old = context.lanes, request.row, request.session_id
    fresh = SessionId(context.runtime.new_id("s"))
    # Now, not after the commit: what is said after /new belongs to the new session.
    settle_route: Callable[..., None] = lanes.point_route(row.route, fresh)
    lane = lanes.get(old) if old else None
    waiting: list[InboxRow] = []
    if lane is not None:
        waiting = lane.drop_waiting_messages()
        lane.stop([], [], by=actor_of(row.inbound))
    end, reply = build_reply(context.replies, row, _("A new conversation begins."))
    effect = CommandEffect(
        inbox_ends=(*superseded_ends(waiting), end),
        source=row.inbound.source,
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
        await send_reply(context.replies, request.row, _("There are no conversations yet."))
        return
    shown = _session_lines(found[:MAX_SHOWN], current=current, now=context.runtime.clock.now())
    if (older := len(found) - MAX_SHOWN) > 0:
        text = _n("… and {n} older one.", "… and {n} older ones.", older)
        shown.append(text.format(n=older))
    shown.append(
        _("{by_number} goes back to one; {by_title} finds it by its title.").format(
            by_number="/resume N", by_title="/resume TITLE"
        )
    )
    await send_reply(context.replies, request.row, "\n".join(shown))


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
        text = _("You are already in this conversation: {title}").format(
            title=_session_title(found)
        )
        await send_reply(context.replies, request.row, text)
    else:
        await _switch_session(context, request, left=current, to=found)


async def _find_session(
    context: SessionContext, request: CommandRequest, current: SessionId | None
) -> SessionRow | str:
    """The requested session, or the reply that there is none."""
    row, target = request.row, request.argument
    listed = await _list_conversations(context, row, current=current)
    if not target:
        # The session that the current one replaced, else the last active one before it.
        here = await context.store.read(GetSession(session_id=current)) if current else None
        others = [each for each in listed if each.id != current]
        before = [each for each in others if here is not None and each.id == here.previous]
        return next(iter([*before, *others]), _(NONE_EARLIER))
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
        return _("You have no conversation {title!r}. /sessions lists yours.").format(title=title)
    numbers = {row.id: n for n, row in enumerate(listed, 1)}
    shown = [
        _session_lines([each], current=current, now=now, first=numbers[each.id])[0]
        for each in matches[:MAX_SHOWN]
    ]
    which = _("Which one? {command} goes back to it.").format(command="/resume N")
    return "\n".join([which, *shown])


async def _switch_session(
    context: SessionContext, request: CommandRequest, *, left: SessionId | None, to: SessionRow
) -> None:
    text = _("You are back in: {title}").format(title=_session_title(to))
    if left is not None:
        text += "\n" + _("The conversation that you left is kept; /resume goes back to it.")
    route = request.row.route
    effect = prepare_effect(context.replies, request.row, text, route=route, resume=to.id)
    await context.replies.effects.commit(
        effect,
        on_committed=lambda _outcome: _move_waiting(context, request, left=left, to=to.id),
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
            await send_reply(context.replies, row, _(NOTHING_YET))
            return
        fork = ForkEffect(
            of=session_id,
            session_id=SessionId(context.runtime.new_id("s")),
            title=truncate_title(
                request.argument or _("{title} (fork)").format(title=_session_title(session))
            ),
            principal=session_owner(row, context.live_settings.current.sessions),
        )
        text = _("You are now in a copy: {title}\n/resume goes back to the original.").format(
            title=fork.title
        )
        effect = prepare_effect(context.replies, row, text, route=row.route, fork=fork)
        await context.replies.effects.commit(
            effect,
            on_committed=lambda _outcome: _move_waiting(
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
        await send_reply(replies, row, _(NOTHING_YET))
        return
    title = truncate_title("".join(c if c.isprintable() else " " for c in request.argument))
    if not title:
        text = _("Title of this conversation: {title}").format(title=_session_title(session))
        await send_reply(replies, row, text)
        return
    text = _("This conversation is now called: {title}").format(title=title)
    await send_reply(replies, row, text, title=title)


async def cmd_search(context: SessionContext, request: CommandRequest) -> None:
    """Search the conversations that this chat may see."""
    await send_reply(context.replies, request.row, await _search_text(context, request))


async def _search_text(context: SessionContext, request: CommandRequest) -> str:
    if not request.argument:
        return _("Give the words to look for: {command}. Quotes keep words together.").format(
            command="/search WORDS"
        )
    row = request.row
    visible = search_scope(row.route, row.principal)
    query = SearchQuery(words=request.argument, limit=_MAX_RESULTS, scope=visible)
    try:
        found = await context.store.read(query)
    except StoreError as error:
        # The search index is a file of its own: its failure is the reply, and the command does
        # not wait for the store.
        return _("The search does not work at the moment: {reason}").format(
            reason=error.for_person()
        )
    if not found:
        return _("Nothing found. All words must match; the beginning of a word is enough.")
    return "\n".join(
        _result_line(each, here=each.session.id == request.session_id) for each in found
    )


def _result_line(found: SearchMatch, *, here: bool) -> str:
    day, session = format_date(found.created_at), found.session
    where = _("here") if here else f"{session.title or session.id} ({session.id})"
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
        f"{number}. {_session_summary(row, current=current, now=now)}"
        for number, row in enumerate(rows, first)
    ]


def _session_summary(row: SessionRow, *, current: SessionId | None, now: float) -> str:
    count = _n("{n} message", "{n} messages", row.messages).format(n=row.messages)
    text = _("{title} - {messages}, {ago}").format(
        title=_session_title(row), messages=count, ago=_format_ago(now - row.active_at)
    )
    return f"{text} {_('(you are here)')}" if row.id == current else text


def _session_title(row: SessionRow) -> str:
    return row.title or _("(no title)")


def _format_ago(seconds: float) -> str:
    if seconds >= 86400:
        n = int(seconds // 86400)
        return _n("{n} day ago", "{n} days ago", n).format(n=n)
    if seconds >= 3600:
        n = int(seconds // 3600)
        return _n("{n} hour ago", "{n} hours ago", n).format(n=n)
    if seconds >= 60:
        n = int(seconds // 60)
        return _n("{n} minute ago", "{n} minutes ago", n).format(n=n)
    return _("just now")


def cmd_undo(context: HistoryContext, request: CommandRequest) -> Awaitable[None]:
    """Take back the last exchanges. They stay in the transcript for people, but the model does not
    see them any more."""
    replies, row, count = context.replies, request.row, _exchange_count(request.argument)
    if count is None:
        wrong = COMMANDS_BY_NAME["undo"].unknown_argument(request.argument)
        return send_reply(replies, row, wrong)

    async def take_back(session_id: SessionId) -> None:
        undone = split_exchanges(await context.store.read(GetTranscript(session_id=session_id)))[
            -count:
        ]
        if not undone:
            await send_reply(replies, row, _("There is nothing to take back."))
            return
        undo = UndoEffect(session_id=session_id, from_seq=undone[0].from_seq)
        effect = prepare_effect(replies, row, _undone_text(undone), undo=undo)
        await replies.effects.commit(
            effect, on_committed=lambda _outcome: context.agents.drop(session_id)
        )

    return _run_exclusively(replies, context.lanes, request, take_back)


def _exchange_count(argument: str) -> int | None:
    """The number of exchanges; None: not a number. Only nine digits are read: int() of very long
    ones raises."""
    if not argument:
        return 1
    number = int(argument[:9]) if argument.isdecimal() else 0
    return number or None


def _undone_text(undone: list[Exchange]) -> str:
    words = truncate_title(" ".join(message.text for message in undone[0].user_messages))
    if len(undone) > 1:
        taken_back = _("Taken back: everything since “{text}”.")
    else:
        taken_back = _("Taken back: “{text}”.")
    remark = _("The agent no longer sees it, but what its tools did is not undone.")
    return f"{taken_back.format(text=words)} {remark}"


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
        await context.replies.effects.commit(
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
            on_committed=lambda _outcome: context.agents.drop(session_id),
        )

    return _run_exclusively(context.replies, context.lanes, request, resubmit)


def _retry_refusal(past_exchanges: Sequence[Exchange], row: InboxRow) -> str:
    if not past_exchanges:
        return _("There is no message to answer again.")
    speakers = {message.speaker for message in past_exchanges[-1].user_messages}
    if speakers - {None, speaker_name(row.inbound.source)}:
        return _("The last message is from someone else; only that person can use /retry on it.")
    return ""


def _retry_message(row: InboxRow, user_messages: Sequence[UserMessage]) -> Inbound:
    return msgspec.structs.replace(
        row.inbound,
        event_id=f"holdfast/retry/{row.id}",
        text="\n\n".join(message.text for message in user_messages if message.text),
        images=tuple(image for message in user_messages for image in message.images),
        documents="\n\n".join(message.documents for message in user_messages if message.documents),
        sources=tuple(
            dict.fromkeys(
                source
                for message in user_messages
                if message.external
                for source in message.sources
            )
        ),
        mergeable=False,
        commands=False,
        cursor=None,
    )


def cmd_compact(context: HistoryContext, request: CommandRequest) -> Awaitable[None]:
    """Summarise the older part of the conversation now. The record covers a number of messages from
    the start of the transcript, so it runs exclusively: an /undo in between would change what that
    number means."""
    if not context.auxiliary.is_enabled(AuxiliaryTask.SUMMARY):
        return send_reply(context.replies, request.row, _(SUMMARIES_OFF))
    if request.session_id is None:
        return send_reply(context.replies, request.row, _(TOO_LITTLE))

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
        await send_reply(replies, request.row, _(TOO_LITTLE))
        return
    await context.agents.memory.pre_compact(agent.session_id, agent.messages[:cut])
    try:
        made = await compact(agent, context.auxiliary, cut=cut, focus=request.argument)
    except AuxiliaryFailed as error:
        text = _("The summary failed, and nothing was changed: {reason}").format(
            reason=error.for_person()
        )
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
        effect, on_committed=lambda _outcome: context.agents.drop(agent.session_id)
    )


def _summary_text(made: CompactionResult, cut: int, *, left: int) -> str:
    return " ".join(
        [
            _n("Summarised {n} message.", "Summarised {n} messages.", cut).format(n=cut),
            _("Each request to the model is now about {tokens} tokens shorter.").format(
                tokens=format_number(made.saved_tokens)
            ),
            _n(
                "The last {n} stays unchanged, and you can still read the whole history.",
                "The last {n} stay unchanged, and you can still read the whole history.",
                left,
            ).format(n=left),
        ]
    )

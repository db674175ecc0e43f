"""What the gateway writes into a transcript: messages of people, results of interrupted calls, and
system notes about interruptions and new sessions."""

from collections.abc import Collection, Mapping, Sequence

from holdfast.agent.agent import Agent
from holdfast.core.config.settings import SessionSettings
from holdfast.core.ids import CallId, PrincipalId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.source import (
    attached_names,
    format_quote,
    is_shared,
    sanitise_name,
    speaker_name,
)
from holdfast.core.messages.transcript import (
    Message,
    NoteMessage,
    ToolMessage,
    ToolOutcome,
    UserMessage,
)
from holdfast.core.sessions.reset import ResetReason, SessionReset
from holdfast.core.text.translation import N_, _
from holdfast.core.turns.external import fence_external, source_label
from holdfast.core.turns.projection import open_calls
from holdfast.core.turns.stop import TurnExitReason
from holdfast.core.turns.subagent import DELEGATE_TOOL, INTERNAL_PLATFORM
from holdfast.core.turns.tool import ReplayClass

CANCELLED_TEXT = "Cancelled while it ran. It may have had an effect."
NOT_STARTED_TEXT = "Not started."


def transcript_message(row: InboxRow, *, shared: bool) -> UserMessage | NoteMessage:
    """Convert a message to its form in the transcript: a person's message, or a note of the
    gateway."""
    if row.inbound.note:
        return NoteMessage(text=row.inbound.text, sources=row.inbound.sources)
    return user_message(row, shared=shared)


def user_message(row: InboxRow, *, shared: bool) -> UserMessage:
    """`shared`: several people speak in the session."""
    inbound, sources = row.inbound, list(row.inbound.sources)
    quote = inbound.quoted
    quoted = None if quote is None else format_quote(quote)
    if quote is not None and quoted and not quote.ours and quote.user_id != inbound.source.user_id:
        author = sanitise_name(quote.user_name, quote.user_id) or ""
        label = source_label("quoted message", author and f"of {author}")
        quoted = fence_external(quoted, (label,))
        sources.append(label)
    sources += [source_label("attached file", name) for name in attached_names(inbound.text)]
    if inbound.images or inbound.documents:
        sources = sources or [source_label("attached file")]
    return UserMessage(
        text=inbound.text,
        images=inbound.images,
        speaker=speaker_name(inbound.source),
        quoted=quoted,
        documents=inbound.documents or None,
        sources=tuple(dict.fromkeys(sources)),
        external=bool(inbound.sources),
        author=row.principal if shared and inbound.subagent is None else None,
    )


def interrupted_call_results(
    messages: Sequence[Message], started: Collection[CallId]
) -> tuple[ToolMessage, ...]:
    """A result for each call of the last reply that has none, depending on whether the call had
    started. Providers require a result for each call."""
    return tuple(
        ToolMessage(
            call_id=call.id,
            name=call.name,
            text=CANCELLED_TEXT if call.id in started else NOT_STARTED_TEXT,
            outcome=ToolOutcome.CANCELLED if call.id in started else ToolOutcome.NOT_STARTED,
        )
        for call in open_calls(messages)
    )


_INTERRUPTED = (
    "[System note: {what} cut the last turn. The history above is "
    "intact. Look at the latest tool results first, then finish what was asked.]"
)
# For a turn without a mark: a person may have stopped it and want something else now.
UNANSWERED_RESULTS_NOTE = NoteMessage(
    text="[System note: the last turn ended after the tool results above, before you replied to "
    "them. Take them into account where they matter.]"
)


def interruption_note(reason: str | None) -> NoteMessage:
    """The note that tells the model what interrupted the last turn, by the reason that its session
    was marked with. None means a restart."""
    match reason:
        case None | TurnExitReason.RESTART_TIMEOUT:
            what = "a gateway restart"
        case TurnExitReason.SHUTDOWN_TIMEOUT:
            what = "a gateway shutdown"
        case _:
            what = "an interruption"
    return NoteMessage(text=_INTERRUPTED.format(what=what))


# What people and the model read when a new session replaced the last one automatically.
_RESET_NOTICES: Mapping[ResetReason, str] = {
    ResetReason.SUSPENDED: N_(
        "The last conversation here was suspended because it could not continue, so this is a "
        "fresh conversation. The last one is kept: return to it with /resume, or list all with "
        "/sessions."
    ),
    ResetReason.IDLE: N_(
        "There was no message here for a while, so this is a fresh conversation. The last one "
        "is kept: return to it with /resume, or list all with /sessions."
    ),
    ResetReason.DAILY: N_(
        "The last conversation here was on an earlier day, so this is a fresh conversation. The "
        "last one is kept: return to it with /resume, or list all with /sessions."
    ),
}
_RESET_REASONS: Mapping[ResetReason, str] = {
    ResetReason.SUSPENDED: "The last conversation here was suspended because it could not continue",
    ResetReason.IDLE: "There was no message here for a while",
    ResetReason.DAILY: "The last conversation here was on an earlier day",
}


def new_session_notice(reset: SessionReset) -> str:
    return _(_RESET_NOTICES[reset.reason])


def new_session_note(reset: SessionReset) -> NoteMessage:
    return NoteMessage(
        text=f"[System note: {_RESET_REASONS[reset.reason]}, so this is a fresh conversation, "
        "and its user was notified. You see nothing of the last one; the user can return "
        "to it with /resume.]"
    )


def session_owner(row: InboxRow, settings: SessionSettings) -> PrincipalId | None:
    """The owner of the session of this message; None if it belongs to several people or to the
    gateway itself."""
    source = row.inbound.source
    shared = is_shared(source, settings.group_sessions_per_user, settings.thread_sessions_per_user)
    return None if shared or source.platform == INTERNAL_PLATFORM else row.principal


def all_calls_detachable(agent: Agent, started: Collection[CallId]) -> bool:
    """Whether a successor can attach to every running call, so that all of them survive a
    restart."""
    running = [call for call in open_calls(agent.messages) if call.id in started]
    return bool(running) and all(_is_attachable(agent, call.name) for call in running)


def results_of_cancelled_calls(
    agent: Agent, started: Collection[CallId], *, detached: bool
) -> list[ToolMessage]:
    """The results of running calls that this process ends. With `detached`, calls that a successor
    can attach to keep running and get none."""
    return [
        result
        for result in interrupted_call_results(agent.messages, started)
        if result.outcome is ToolOutcome.CANCELLED
        # Subagents have rows of their own: they resume in the successor, and so does the call that
        # waits for them.
        and result.name != DELEGATE_TOOL
        and not (detached and _is_attachable(agent, result.name))
    ]


def _is_attachable(agent: Agent, name: str) -> bool:
    tool = agent.toolbox.by_name.get(name)
    return tool is not None and tool.replay is ReplayClass.ATTACH

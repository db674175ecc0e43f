"""What the audit says of commands: which changed something, and which were refused."""

import apsw
import msgspec

from holdfast.core.messages.inbox import InboxState
from holdfast.core.people.audit import REFUSED, AuditEntry, AuditKind
from holdfast.core.sessions.session import CommandEffect
from holdfast.store.sqlite.writes import audit

# Of what a command may do, all that is a change and has no row of its own kind.
AUDITED_EFFECTS = frozenset(
    {
        "new_session",
        "model_override",
        "title",
        "resume",
        "fork",
        "undo",
        "again",
        "compaction",
        "busy_mode",
        "home",
        "no_home",
        "quiet",
        "job",
        "new_job",
        "runs",
        "skip",
        "notes",
        "sent_off",
    }
)
_MAX_COMMAND_NAME = 40  # characters of a name


def record_command(cursor: apsw.Cursor, effect: CommandEffect) -> None:
    """A row for a command that changes something, or that its sender may not give."""
    if effect.by:
        _record_dropped(cursor, effect)
    if not effect.inbox_ends:
        return
    own = effect.inbox_ends[-1]
    if own.state is InboxState.REFUSED:
        _record_command_row(cursor, effect, AuditKind.COMMAND_REFUSED, outcome=REFUSED)
    elif _has_audited_effect(effect):
        _record_command_row(cursor, effect, AuditKind.COMMAND, outcome=own.state.value)


def _has_audited_effect(effect: CommandEffect) -> bool:
    fields = msgspec.structs.asdict(effect)
    return any(fields[name] is not None for name in AUDITED_EFFECTS)


def _record_command_row(
    cursor: apsw.Cursor, effect: CommandEffect, kind: AuditKind, *, outcome: str
) -> None:
    actor, text = audit.message_author(cursor, effect.inbox_ends[-1].inbox_id)
    session_id = effect.session_id or effect.new_session
    name, _, _ = text.strip().partition(" ")
    audit.record(
        cursor,
        AuditEntry(
            kind=kind,
            actor=actor,
            at=effect.at,
            session_id=session_id,
            # Whatever is no command was carried out as one: an answer to a question.
            subject=name[:_MAX_COMMAND_NAME] if name.startswith("/") else "",
            outcome=outcome,
            facts=_command_facts(effect),
            # In no session yet there is nothing that they would be forgotten with.
            words={"text": text} if kind is AuditKind.COMMAND and session_id is not None else {},
        ),
    )


def _command_facts(effect: CommandEffect) -> dict[str, str | int | float | bool | None]:
    """Where a chat goes on from now on."""
    fork = effect.fork.session_id if effect.fork is not None else None
    to = effect.new_session or effect.resume or fork
    return {} if to is None else {"to": to}


def _record_dropped(cursor: apsw.Cursor, effect: CommandEffect) -> None:
    """Somebody outside of the chat ended what waited there, and nothing ran."""
    audit.record(
        cursor,
        AuditEntry(
            kind=AuditKind.TURN_STOPPED,
            actor=effect.by,
            at=effect.at,
            session_id=effect.session_id,
            facts={"dropped": len(effect.inbox_ends)},
        ),
    )

"""The text and the buttons by which an approval is asked for in a chat."""

import re
from collections.abc import Sequence

from holdfast.core.messages.outbox import Button
from holdfast.core.people.approval import Approval, ApprovalScope

_MAX_COMMAND = 1200  # characters of a command; the page shows all of it
_HOURS, _MINUTES = 2 * 3600, 120


def approval_text(approvals: Sequence[Approval], *, at: float) -> str:
    """What is asked together, in one message."""
    wait = format_duration(approvals[0].deadline - at)
    if len(approvals) == 1:
        (only,) = approvals
        return f"May this run? {_command_block(only)}\n\n{_how_to_answer(only)} I wait for {wait}."
    asked = "\n\n".join(f"{each.number}. {_command_block(each)}" for each in approvals)
    first = approvals[0].number
    return (
        f"May these run?\n\n{asked}\n\nAnswer each by its number, as /approve {first} or "
        f"/deny {first}, or all of them with /approve all or /deny all. I wait for {wait}."
    )


def approval_buttons(approvals: Sequence[Approval]) -> tuple[Button, ...]:
    """The same as buttons. They name the row, so that a late click finds what it meant."""
    if len(approvals) > 1:
        return tuple(
            Button(label=f"{each.number}: {label}", value=f"/{verb} {each.id}")
            for each in approvals
            for label, verb in (("Yes", "approve"), ("No", "deny"))
        )
    (only,) = approvals
    rule_buttons = (
        Button(label="In this conversation", value=f"/approve {only.id} {ApprovalScope.SESSION}"),
        Button(label="Always", value=f"/approve {only.id} {ApprovalScope.ALWAYS}"),
    )
    return (
        Button(label="Yes, once", value=f"/approve {only.id}"),
        *(rule_buttons if only.rule else ()),
        Button(label="No", value=f"/deny {only.id}"),
    )


def escape_unprintable(command: str) -> str:
    """The command with all that nobody would see spelt out: what is said yes to must be what is
    read, whatever turns the direction of a line, moves a cursor or takes no room."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode()
        for c in command
    )


def command_summary(approval: Approval) -> str:
    """An approval in one line."""
    command = " ".join(approval.command.split())
    return command if len(command) <= 80 else f"{command[:79]}…"


def format_duration(seconds: float) -> str:
    """A time to wait, as one would say it."""
    for unit, least, length in (("hours", _HOURS, 3600), ("minutes", _MINUTES, 60)):
        if seconds >= least:
            return f"{round(seconds / length)} {unit}"
    return f"{max(1, round(seconds))} seconds"


def _fence(command: str) -> str:
    """Longer than any in the command, so that no word of it can stand outside."""
    return "`" * max(3, 1 + max(map(len, re.findall("`+", command)), default=0))


def _command_block(approval: Approval) -> str:
    command = approval.command
    fence = _fence(command)
    if len(command) > _MAX_COMMAND:
        command = f"{command[:_MAX_COMMAND]}\n[{len(command) - _MAX_COMMAND} characters more]"
    return f"{approval.why or 'It may do harm.'}\n\n{fence}\n{command}\n{fence}"


def _how_to_answer(approval: Approval) -> str:
    if not approval.rule:
        return "Answer yes or no."
    return (
        "Answer yes or no; session or always also allow what is like it, in this conversation "
        "or from now on."
    )

"""The text and the buttons of an approval request in a chat."""

import re
from collections.abc import Sequence

from holdfast.core.messages.outbox import Button
from holdfast.core.people.approval import Approval, ApprovalRule, ApprovalScope
from holdfast.core.text.locale_format import format_long_duration
from holdfast.core.text.translation import _, _n, translate_filled
from holdfast.gateway.notify.send_policy import SEND_REASON, SEND_RULE

_MAX_COMMAND = 1200  # characters of a command; the page shows all of it


def approval_text(approvals: Sequence[Approval], *, at: float) -> str:
    """One message that asks about all of them, in the language of the context."""
    wait = _("I wait for {duration}.").format(
        duration=format_long_duration(approvals[0].deadline - at)
    )
    if len(approvals) == 1:
        (only,) = approvals
        question = _("May this run?")
        return f"{question} {_command_block(only)}\n\n{_how_to_answer(only)} {wait}"
    question = _("May these run?")
    asked = "\n\n".join(f"{each.number}. {_command_block(each)}" for each in approvals)
    first = approvals[0].number
    how = _(
        "Answer each by its number, for example {approve} or {deny}, or all of them with "
        "{approve_all} or {deny_all}."
    ).format(
        approve=f"/approve {first}",
        deny=f"/deny {first}",
        approve_all="/approve all",
        deny_all="/deny all",
    )
    return f"{question}\n\n{asked}\n\n{how} {wait}"


def approval_buttons(approvals: Sequence[Approval]) -> tuple[Button, ...]:
    """The same as buttons. They name the approval, so that a late click finds what it meant."""
    if len(approvals) > 1:
        return tuple(
            Button(label=f"{each.number}: {label}", value=f"/{verb} {each.id}")
            for each in approvals
            for label, verb in ((_("Yes"), "approve"), (_("No"), "deny"))
        )
    (only,) = approvals
    rule_buttons = (
        Button(
            label=_("In this conversation"), value=f"/approve {only.id} {ApprovalScope.SESSION}"
        ),
        Button(label=_("Always"), value=f"/approve {only.id} {ApprovalScope.ALWAYS}"),
    )
    return (
        Button(label=_("Yes, once"), value=f"/approve {only.id}"),
        *(rule_buttons if only.rule else ()),
        Button(label=_("No"), value=f"/deny {only.id}"),
    )


def reason_for_person(approval: Approval | ApprovalRule) -> str:
    """What the command would do, in the language of the context. The row contains it in English."""
    from holdfast.tools.shell.rules import table  # noqa: PLC0415 - loaded with the first command

    if approval.rule.startswith(SEND_RULE.format(chat="")):
        return translate_filled(approval.why, SEND_REASON)
    return table.reason_for_person(approval.rule, approval.why)


def escape_unprintable(command: str) -> str:
    """The command with its invisible characters spelt out: what a person approves must be what they
    read, also where a character changes the text direction, moves a cursor or has no width."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode()
        for c in command
    )


def command_summary(approval: Approval) -> str:
    """An approval in one line."""
    command = " ".join(approval.command.split())
    return command if len(command) <= 80 else f"{command[:79]}…"


def _fence(command: str) -> str:
    """Longer than any in the command, so that the command cannot end it."""
    return "`" * max(3, 1 + max(map(len, re.findall("`+", command)), default=0))


def _command_block(approval: Approval) -> str:
    command = approval.command
    fence = _fence(command)
    if (more := len(command) - _MAX_COMMAND) > 0:
        rest = _n("[{n} more character]", "[{n} more characters]", more).format(n=more)
        command = f"{command[:_MAX_COMMAND]}\n{rest}"
    why = reason_for_person(approval) or _("It may do harm.")
    return f"{why}\n\n{fence}\n{command}\n{fence}"


def _how_to_answer(approval: Approval) -> str:
    words = {"yes": "yes", "no": "no", "session": "session", "always": "always"}
    if not approval.rule:
        return _("Answer {yes} or {no}.").format(**words)
    return _(
        "Answer {yes} or {no}. Answer {session} to also allow similar commands in this "
        "conversation, or {always} to allow them from now on."
    ).format(**words)

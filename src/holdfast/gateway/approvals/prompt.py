"""The text and the buttons of an approval request in a chat."""

import re
from collections.abc import Sequence
from enum import Enum, auto

from holdfast.core.messages.outbox import Button
from holdfast.core.people.approval import Approval, ApprovalRule, ApprovalScope, RuleMatch
from holdfast.core.text.locale_format import format_long_duration
from holdfast.core.text.translation import _, translate_filled
from holdfast.core.turns.external import TAINT_RULE, taint_reason_templates
from holdfast.gateway.notify.send_policy import SEND_REASON, SEND_RULE

_LONG_COMMAND = 1200  # characters; the flagged parts of a longer one are shown before all of it


class Answerers(Enum):
    """Who may answer a request, from the view of the chat that asked."""

    NAMED = auto()  # the requester or other named people, and operators
    OPERATORS = auto()  # they are asked in the home channel
    OWNER = auto()  # no other approver can be reached


def approval_text(
    approvals: Sequence[Approval], *, at: float, answerers: Answerers = Answerers.NAMED
) -> str:
    """One text that asks about all of them, in the language of the context. It shows each command
    in full; the sender splits it into as many messages as it needs."""
    wait = _("I wait for {duration}.").format(
        duration=format_long_duration(approvals[0].deadline - at)
    )
    match answerers:
        case Answerers.OPERATORS:
            who = _("Only an operator may answer this. They are asked in the home channel.")
            wait = f"{who} {wait}"
        case Answerers.OWNER:
            who = _(
                "Only the owner of the gateway may answer this, on the page or with {command}: "
                "you are not among its named users, and no home channel is set where an operator "
                "could be asked."
            ).format(command="`holdfast approvals`")
            wait = f"{who} {wait}"
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


def operator_text(approvals: Sequence[Approval], *, at: float) -> str:
    """The copy for operators, in another chat than the one that the command belongs to."""
    first = approvals[0]
    lines = [
        _("May this run? {person} asks in another chat, and may not decide it.").format(
            person=first.requester
        )
    ]
    for each in approvals:
        how = _("Answer with {approve} or {deny}.").format(
            approve=f"/approve {each.id}", deny=f"/deny {each.id}"
        )
        lines.append(f"{_command_block(each)}\n\n{how}")
    wait = _("I wait for {duration}.").format(duration=format_long_duration(first.deadline - at))
    return "\n\n".join([*lines, wait])


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
        *(rule_buttons if only.may_stand else ()),
        Button(label=_("No"), value=f"/deny {only.id}"),
    )


def reason_for_person(approval: Approval | ApprovalRule | RuleMatch) -> str:
    """What the command would do, in the language of the context: by each rule that fired. The row
    contains it in English."""
    from holdfast.tools.shell.rules import table  # noqa: PLC0415 - loaded with the first command

    if isinstance(approval, Approval) and approval.matches:
        return " ".join(dict.fromkeys(map(reason_for_person, approval.matches)))
    if approval.rule.startswith(TAINT_RULE):
        why = approval.why
        for template in taint_reason_templates():
            why = translate_filled(why, template)
        return why
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
    """Every reason, every flagged part that the reader would have to look for, and the command."""
    command = approval.command
    blocks = [_reasons(approval)]
    if parts := _parts_to_show(approval):
        blocks += [_("These parts are flagged:"), *map(_fenced, parts)]
        blocks.append(_("The whole command:"))
    return "\n\n".join([*blocks, _fenced(command)])


def _reasons(approval: Approval) -> str:
    reasons = list(dict.fromkeys(map(reason_for_person, approval.matches or [approval])))
    if len(reasons) > 1:
        return "\n".join(["", *(f"- {reason}" for reason in reasons)])
    return reasons[0] or _("It may do harm.")


def _parts_to_show(approval: Approval) -> list[str]:
    """Of a long command all, of a short one those that are not written in it as they are: a
    variable may contain a part of them."""
    parts = dict.fromkeys(match.part for match in approval.matches if match.part)
    shown = [] if len(approval.command) > _LONG_COMMAND else [approval.command]
    shown += [match.why for match in approval.matches]
    shown_parts: list[str] = []
    for part in sorted(parts, key=len, reverse=True):
        if not any(part in text for text in (*shown, *shown_parts)):
            shown_parts.append(part)
    whole = len(approval.command)
    return shown_parts if sum(map(len, shown_parts)) < max(whole, _LONG_COMMAND) else []


def _fenced(text: str) -> str:
    fence = _fence(text)
    return f"{fence}\n{text}\n{fence}"


def _how_to_answer(approval: Approval) -> str:
    words = {"yes": "yes", "no": "no", "session": "session", "always": "always"}
    if not approval.may_stand:
        return _("Answer {yes} or {no}.").format(**words)
    return _(
        "Answer {yes} or {no}. Answer {session} to also allow it to the same programs and paths "
        "in this conversation, or {always} to allow it from now on."
    ).format(**words)

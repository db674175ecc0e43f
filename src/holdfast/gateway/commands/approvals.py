"""Commands about approvals: /approve, /deny, /approvals."""

from collections.abc import Awaitable, Sequence

from holdfast.core.commands import COMMANDS_BY_NAME, CommandRequest
from holdfast.core.errors import StoreError
from holdfast.core.ids import ApprovalId
from holdfast.core.people.approval import Approval, ApprovalDecision, ApprovalRule, ApprovalScope
from holdfast.core.ports.store_queries import GetApproval, ListApprovalRules
from holdfast.core.text.locale_format import format_long_duration, format_time
from holdfast.core.text.translation import N_, _
from holdfast.gateway.access import principal_of
from holdfast.gateway.approvals.prompt import command_summary, escape_unprintable
from holdfast.gateway.approvals.service import ApprovalResponse, late_answer_text, principal_name
from holdfast.gateway.commands.context import ApprovalContext
from holdfast.gateway.commands.reply import prepare_effect, send_reply

NOTHING_PENDING = N_("Nothing is waiting for approval here.")
_ALL = "all"
_REVOKE = "revoke"


def cmd_approve(context: ApprovalContext, request: CommandRequest) -> Awaitable[None]:
    """Approve a command that waits for approval."""
    words = request.argument.split()
    target = words.pop(0) if words and _is_target(words[0]) else ""
    scope = words.pop(0).lower() if words else ApprovalScope.ONCE
    if words or scope not in list(ApprovalScope):
        wrong = COMMANDS_BY_NAME["approve"].unknown_argument(request.argument)
        return send_reply(context.replies, request.row, wrong)
    answer = ApprovalResponse(approved=True, scope=ApprovalScope(scope))
    return _answer(context, request, target=target.lower(), answer=answer)


def cmd_deny(context: ApprovalContext, request: CommandRequest) -> Awaitable[None]:
    """Deny a command that waits for approval; the agent reads the reason."""
    first, _space, rest = request.argument.partition(" ")
    target, comment = (first.lower(), rest) if _is_target(first) else ("", request.argument)
    answer = ApprovalResponse(approved=False, comment=comment.strip())
    return _answer(context, request, target=target, answer=answer)


def _answer(
    context: ApprovalContext, request: CommandRequest, *, target: str, answer: ApprovalResponse
) -> Awaitable[None]:
    """`target`: a number, an id, "all", or "" for the only one. The approvals are claimed in this
    call, so that one of two simultaneous answers is the first."""
    found = _find_approvals(context, request, target, answer)
    if isinstance(found, str):
        return send_reply(context.replies, request.row, found)
    if not found:
        return _reply_ended(context, request, ApprovalId(target))
    source = request.row.inbound.source
    allowed = [each for each in found if context.approvals.may_answer(each, source)]
    if not allowed:
        return send_reply(context.replies, request.row, _not_allowed_text(found[0]))
    decision = context.approvals.claim(allowed, answer, by=request.row.principal)
    return _decide(context, request, decision, _decided_text(allowed, answer))


async def _decide(
    context: ApprovalContext, request: CommandRequest, decision: ApprovalDecision, text: str
) -> None:
    effect = prepare_effect(context.replies, request.row, text, decision=decision)
    try:
        await context.replies.effects.commit(effect)
    except StoreError:
        context.approvals.settled(decision, durable=False)
        raise


def _find_approvals(
    context: ApprovalContext, request: CommandRequest, target: str, answer: ApprovalResponse
) -> list[Approval] | str:
    """The approvals that `target` names, or a reply that says why there is none; []: look in the
    store."""
    if _is_approval_id(target):
        found = context.approvals.find(ApprovalId(target))
        if found is None:
            return []
        return [found] if found.pending else late_answer_text(found)
    pending = context.approvals.pending_in(request.session_id)
    known = context.approvals.of_turn(request.session_id) if request.session_id else ()
    if target.isdecimal():
        # int() of very long numbers raises, and a command that fails here fails at every start.
        return _find_by_number(pending, known, int(target[:9]))
    if not pending:
        # The last answer of the running turn, if there was one.
        if not known:
            return _(NOTHING_PENDING)
        return f"{late_answer_text(known[-1])} {_('Send /stop to stop the current work.')}"
    if len(pending) > 1 and target != _ALL:
        lines = [f"{each.number}. {command_summary(each)}" for each in pending]
        how = "/approve" if answer.approved else "/deny"
        which = _("Which one? For example {first} for the first one, or {all} for all of them:")
        return "\n".join(
            [which.format(first=f"{how} {pending[0].number}", all=f"{how} {_ALL}"), *lines]
        )
    return pending


def _find_by_number(
    pending: Sequence[Approval], known: Sequence[Approval], number: int
) -> list[Approval] | str:
    found = [each for each in pending if each.number == number]
    if len(found) > 1:
        lines = [f"{each.id}: {command_summary(each)}" for each in found]
        which = _("Several approvals have that number. Use the id instead:")
        return "\n".join([which, *lines])
    if found:
        return found
    ended = next((each for each in known if each.number == number), None)
    return late_answer_text(ended) if ended else _(NOTHING_PENDING)


async def _reply_ended(
    context: ApprovalContext, request: CommandRequest, approval_id: ApprovalId
) -> None:
    row = await context.store.read(GetApproval(approval_id=approval_id))
    if row is None:
        text = _("There is no approval {id}.").format(id=approval_id)
    else:
        text = late_answer_text(row)
    await send_reply(context.replies, request.row, text)


def _is_approval_id(word: str) -> bool:
    return word.startswith("ap_")


def _is_target(word: str) -> bool:
    return word.isdecimal() or _is_approval_id(word) or word.lower() == _ALL


def _not_allowed_text(approval: Approval) -> str:
    people = ", ".join(map(principal_name, approval.approvers))
    if not people:
        return _("Only an operator may answer this.")
    return _("Only {people} may answer this.").format(people=people)


def _decided_text(chosen: Sequence[Approval], answer: ApprovalResponse) -> str:
    what = "\n".join(command_summary(each) for each in chosen)
    if not answer.approved:
        return _("Denied: {commands}").format(commands=what)
    if answer.scope is ApprovalScope.ONCE:
        return _("Approved: {commands}").format(commands=what)
    if not any(each.may_stand for each in chosen):
        text = _("Approved, but only this once, because no rule covers it: {commands}")
    elif answer.scope is ApprovalScope.SESSION:
        text = _(
            "Approved, also for the same programs and paths in this conversation (/approvals "
            "lists and revokes such rules): {commands}"
        )
    else:
        text = _(
            "Approved, also for the same programs and paths from now on (/approvals lists and "
            "revokes such rules): {commands}"
        )
    return text.format(commands=what)


async def cmd_approvals(context: ApprovalContext, request: CommandRequest) -> None:
    """List pending approvals and standing rules, or revoke a rule. Operators see the rules of all
    people."""
    verb, _space, which = request.argument.partition(" ")
    if not verb:
        await _list_approvals(context, request)
    elif verb.lower() == _REVOKE:
        await _revoke(context, request, which.strip())
    else:
        wrong = COMMANDS_BY_NAME["approvals"].unknown_argument(verb)
        await send_reply(context.replies, request.row, wrong)


async def _list_approvals(context: ApprovalContext, request: CommandRequest) -> None:
    now = context.clock.now()
    lines = [
        _("Pending ({number}), for another {duration}: {command}").format(
            number=each.number,
            duration=format_long_duration(each.deadline - now),
            command=command_summary(each),
        )
        for each in context.approvals.pending_in(request.session_id)
    ] or [_(NOTHING_PENDING)]
    rules = await _visible_rules(context, request)
    lines += [f"{number}. {_rule_line(rule, request)}" for number, rule in enumerate(rules, 1)]
    if rules:
        lines.append(_("{command} revokes the first rule.").format(command="/approvals revoke 1"))
    await send_reply(context.replies, request.row, "\n".join(lines))


async def _revoke(context: ApprovalContext, request: CommandRequest, which: str) -> None:
    rules = await _visible_rules(context, request)
    by_number = {str(number): rule for number, rule in enumerate(rules, 1)}
    rule = (by_number | {str(rule.id): rule for rule in rules}).get(which)
    if rule is None:
        if which:
            text = _("There is no rule {rule!r}. /approvals lists the rules.").format(rule=which)
        else:
            text = _("Which rule? /approvals lists them; then send {command}.").format(
                command="/approvals revoke N"
            )
        await send_reply(context.replies, request.row, text)
        return
    decision = ApprovalDecision(revoked=(rule,), at=context.clock.now())
    text = _("Revoked: {rule}").format(rule=_rule_line(rule, request))
    await send_reply(context.replies, request.row, text, decision=decision)


async def _visible_rules(context: ApprovalContext, request: CommandRequest) -> list[ApprovalRule]:
    """A person's own rules; all rules for an operator. Expired ones are not listed."""
    source, now = request.row.inbound.source, context.clock.now()
    own = None if context.is_operator(source) else principal_of(source).id
    rules = await context.store.read(ListApprovalRules(principal=own))
    return [rule for rule in rules if rule.in_force(now)]


def _rule_line(rule: ApprovalRule, request: CommandRequest) -> str:
    values = {
        "rule": f"{rule.rule}: {escape_unprintable(rule.target)}" if rule.target else rule.rule,
        "person": rule.principal,
        "session": rule.session_id,
        "time": format_time(rule.expires_at),
    }
    if rule.scope is ApprovalScope.ALWAYS:
        text = _("{rule}, everywhere, for {person}, until {time}")
    elif rule.session_id == request.session_id:
        text = _("{rule}, in this conversation, for {person}, until {time}")
    else:
        text = _("{rule}, in session {session}, for {person}, until {time}")
    return text.format(**values)

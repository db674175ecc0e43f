"""Compaction in a turn: before the window is full, the older part of the history is summarised
into a record, and the turn goes on with the summary and what came last."""

import logging
from collections.abc import Callable

import msgspec

from holdfast.agent.agent import Agent
from holdfast.agent.auxiliary import Auxiliary
from holdfast.agent.keeping import until_kept
from holdfast.agent.summaries import Wanted, earlier_summary, summarise
from holdfast.agent.work import Work
from holdfast.core.messages.message import CompactionMessage
from holdfast.core.turns.auxiliary import Errand, ErrandFailed
from holdfast.core.turns.compaction import cut_at, last_compaction, open_request
from holdfast.core.turns.tokens import estimate, of_text
from holdfast.core.turns.turn import Usage

log = logging.getLogger(__name__)

_LEAST = 400  # tokens that a summary may always take


async def make_room(agent: Agent, work: Work, *, must: bool = False) -> bool:
    """Summarise if the window is nearly full, or if the provider said so; True: it was done.

    Nothing is lost where it cannot be done: the history stays as it is, and it is tried again
    when more has been said. The log has either the whole record or nothing of it.
    """
    context = agent.context
    if not must and not context.full:
        return False
    earlier = last_compaction(agent.messages)
    if earlier is not None and earlier.covers > context.skipped:
        agent.fold(earlier)  # a history that was brought along has its covered part in here
    cut = cut_at(agent.messages, keep=context.keep) if work.auxiliary.wants(Errand.SUMMARY) else 0
    if not cut:
        context.put_off()
        return False
    work.compacting = True
    try:
        await work.before_compaction(agent.messages[:cut])
        compaction = await compact(agent, work.auxiliary, cut=cut)
        record = redacted(compaction.record, work.redact)
        await until_kept(
            lambda: agent.keep(record, work.compacted(record, compaction.usage)), agent.session_id
        )
    except ErrandFailed as error:
        context.put_off()
        work.spent(Errand.SUMMARY, error.usage)
        log.warning(
            "The history of %s could not be summarised, and stays as it is: %s",
            agent.session_id,
            error,
            extra={"action": "compaction_failed", "session": agent.session_id},
        )
        return False
    finally:
        work.compacting = False
    agent.fold(record)
    if context.full:
        context.put_off()  # what is kept word for word takes it all: another summary gains nothing
    return True


class Compaction(msgspec.Struct, frozen=True, kw_only=True):
    """A record to be, what making it took, and about how many tokens it spares."""

    record: CompactionMessage
    usage: Usage
    spared: int


async def compact(agent: Agent, auxiliary: Auxiliary, *, cut: int, focus: str = "") -> Compaction:
    """What stands for the first `cut` messages of the buffer from now on.

    Raises `ErrandFailed`; nothing is written here.
    """
    covered, context = agent.messages[:cut], agent.context
    earlier = earlier_summary(agent.messages)
    taken = sum(map(estimate, covered)) + of_text(earlier)
    # A summary that is as long as what it stands for would make no room.
    most = max(_LEAST, min(context.window // 10, taken // 2))
    wanted = Wanted(session_id=agent.session_id, most=most, focus=focus)
    summary = await summarise(auxiliary, covered, wanted, earlier=earlier)
    text = summary.text + open_request(agent.messages, cut)
    record = CompactionMessage(text=text, covers=context.skipped + cut)
    return Compaction(record=record, usage=summary.usage, spared=max(0, taken - of_text(text)))


def redacted(record: CompactionMessage, redact: Callable[[str], str]) -> CompactionMessage:
    return msgspec.structs.replace(record, text=redact(record.text))

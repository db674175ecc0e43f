"""Compaction in a turn: before the window is full, the older part of the history is summarised
into a record, and the turn goes on with the summary and what came last."""

import logging
from collections.abc import Callable

import msgspec

from holdfast.agent.agent import Agent
from holdfast.agent.auxiliary import AuxiliaryClient
from holdfast.agent.keeping import write_with_retry
from holdfast.agent.summaries import SummaryRequest, previous_summary, summarise
from holdfast.agent.work import TurnPort
from holdfast.core.messages.message import CompactionMessage
from holdfast.core.turns.auxiliary import AuxiliaryFailed, AuxiliaryTask
from holdfast.core.turns.compaction import compaction_point, last_compaction, open_request
from holdfast.core.turns.tokens import estimate_text_tokens, estimate_tokens
from holdfast.core.turns.turn import Usage

log = logging.getLogger(__name__)

_MIN_SUMMARY_TOKENS = 400  # tokens that a summary may always take


async def compact_if_needed(agent: Agent, turn: TurnPort, *, force: bool = False) -> bool:
    """Summarise if the window is nearly full, or if the provider said so; True: it was done.

    Nothing is lost where it cannot be done: the history stays as it is, and it is tried again
    when more has been said. The log has either the whole record or nothing of it.
    """
    context = agent.window
    if not force and not context.is_full:
        return False
    earlier = last_compaction(agent.messages)
    if earlier is not None and earlier.covers > context.skipped:
        agent.drop_compacted(
            earlier
        )  # a history that was brought along has its covered part in here
    cut = (
        compaction_point(agent.messages, keep_tokens=context.keep_tokens)
        if turn.auxiliary.is_enabled(AuxiliaryTask.SUMMARY)
        else 0
    )
    if not cut:
        context.postpone()
        return False
    turn.compacting = True
    try:
        await turn.before_compaction(agent.messages[:cut])
        compaction = await compact(agent, turn.auxiliary, cut=cut)
        record = redact_record(compaction.record, turn.redact)
        await write_with_retry(
            lambda: agent.append_durably(record, turn.record_compaction(record, compaction.usage)),
            agent.session_id,
        )
    except AuxiliaryFailed as error:
        context.postpone()
        turn.add_auxiliary_usage(AuxiliaryTask.SUMMARY, error.usage)
        log.warning(
            "The history of %s could not be summarised, and stays as it is: %s",
            agent.session_id,
            error,
            extra={"action": "compaction_failed", "session": agent.session_id},
        )
        return False
    finally:
        turn.compacting = False
    agent.drop_compacted(record)
    if context.is_full:
        context.postpone()  # what is kept word for word takes it all: another summary gains nothing
    return True


class CompactionResult(msgspec.Struct, frozen=True, kw_only=True):
    """A record to be, what making it took, and about how many tokens it spares."""

    record: CompactionMessage
    usage: Usage
    saved_tokens: int


async def compact(
    agent: Agent, auxiliary: AuxiliaryClient, *, cut: int, focus: str = ""
) -> CompactionResult:
    """What stands for the first `cut` messages of the buffer from now on.

    Raises `AuxiliaryFailed`; nothing is written here.
    """
    covered, context = agent.messages[:cut], agent.window
    earlier = previous_summary(agent.messages)
    taken = sum(map(estimate_tokens, covered)) + estimate_text_tokens(earlier)
    # A summary that is as long as what it stands for would make no room.
    most = max(_MIN_SUMMARY_TOKENS, min(context.size // 10, taken // 2))
    wanted = SummaryRequest(session_id=agent.session_id, max_tokens=most, focus=focus)
    summary = await summarise(auxiliary, covered, wanted, earlier=earlier)
    text = summary.text + open_request(agent.messages, cut)
    record = CompactionMessage(text=text, covers=context.skipped + cut)
    return CompactionResult(
        record=record, usage=summary.usage, saved_tokens=max(0, taken - estimate_text_tokens(text))
    )


def redact_record(record: CompactionMessage, redact: Callable[[str], str]) -> CompactionMessage:
    return msgspec.structs.replace(record, text=redact(record.text))

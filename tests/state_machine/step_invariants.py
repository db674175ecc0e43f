"""Invariants of every step: what must hold after each rule.

Each invariant yields a sentence for every violation.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import apsw
from tests.state_machine.home import Home
from tests.state_machine.home_contents import StepInvariant

from holdfast.core.turns.tool import ReplayClass
from holdfast.store.sqlite.reads import sessions


def gateway_keeps_running(home: Home) -> Iterator[str]:
    run = home.current_run
    if run is None or run.stop_requested or not run.task.done():
        return
    if not home.failed_to_start:
        yield f"the gateway has ended by itself: {run.task}"


def model_requests_are_valid(home: Home) -> Iterator[str]:
    """H7, H5: every model request is one that a provider accepts, one turn at a time."""
    yield from home.request_problems


def side_effects_happen_once(home: Home) -> Iterator[str]:
    """H2: a call that may have had an effect is not repeated."""
    for name, tool in home.held_tools.items():
        for call_id, times in tool.started.items():
            if times > 1 and tool.replay is not ReplayClass.SAFE:
                yield f"the call {call_id} of the tool {name} was run {times} times"


def acknowledged_rows_are_stored(home: Home) -> Iterator[str]:
    """G1, G2: an acknowledged row is in the inbox, with its event."""
    if home.current_run is None or home.current_run.store.writer.open is False:
        return
    known = dict(home.current_run.store.look(_events))
    for inbox_id, event_id in home.acknowledged.items():
        if known.get(inbox_id) != event_id:
            yield f"row {inbox_id} of event {event_id} is gone"


def agent_buffers_match_the_transcript(home: Home) -> Iterator[str]:
    """The buffer of an idle agent is the transcript, message for message. Where a turn was
    interrupted between the record of a compaction and its use, the buffer still has the compacted
    messages."""
    if not home.ready or home.current_run is None or home.current_run.store.writer.requests:
        return
    gateway = home.gateway
    for session_id, entry in gateway.cache._entries.items():
        if entry.busy or gateway.lanes.get(session_id) is not None:
            continue
        skipped, records = home.current_run.store.look(sessions.context, session_id=session_id)
        stored, agent = [record.message for record in records], entry.agent
        uncompacted = skipped - agent.window.skipped
        if uncompacted < 0 or stored != agent.messages[uncompacted:]:
            yield (
                f"the buffer of {session_id} is {agent.messages} after {agent.window.skipped}, "
                f"the transcript is {stored} after {skipped}"
            )


def stopped_turns_have_an_exit_reason(home: Home) -> Iterator[str]:
    """F5, F7, H6: ended, parked or marked; counted once, and never for being parked."""
    yield from home.process_ends.violations


def _events(cursor: apsw.Cursor) -> list[tuple[Any, Any]]:
    found = cursor.execute("SELECT id, event_id FROM inbox WHERE platform = 'api'")
    return [(row[0], row[1]) for row in found]


ALWAYS: Sequence[StepInvariant] = (
    gateway_keeps_running,
    stopped_turns_have_an_exit_reason,
    model_requests_are_valid,
    side_effects_happen_once,
    acknowledged_rows_are_stored,
    agent_buffers_match_the_transcript,
)

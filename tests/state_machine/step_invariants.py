"""The laws of every instant: what must hold after each thing that happens to a home.

Each law yields a sentence for every breach of it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import apsw
from tests.state_machine.home import Home
from tests.state_machine.home_contents import Instant

from holdfast.core.turns.tool import ReplayClass
from holdfast.store.sqlite.reads import sessions


def the_gateway_lives(home: Home) -> Iterator[str]:
    gone = home.life is not None and home.life.task.done() and not home.life.leaving
    if gone and not home.failed_to_start:
        yield f"the gateway has ended by itself: {home.life.task}"


def requests_are_sound(home: Home) -> Iterator[str]:
    """H7, H5: what the model was asked is what a provider takes, one turn at a time."""
    yield from home.complaints


def no_effect_twice(home: Home) -> Iterator[str]:
    """H2: what may have had an effect is not done again."""
    for name, lever in home.held_tools.items():
        for call_id, times in lever.started.items():
            if times > 1 and lever.replay is not ReplayClass.SAFE:
                yield f"the call {call_id} of the tool {name} was run {times} times"


def what_was_acknowledged_is_there(home: Home) -> Iterator[str]:
    """G1, G2: a row that was told to be accepted is in the log, with its event."""
    if home.life is None or home.life.store.writer.open is False:
        return
    known = dict(home.life.store.look(_events))
    for inbox_id, event_id in home.rows.items():
        if known.get(inbox_id) != event_id:
            yield f"row {inbox_id} of event {event_id} is gone"


def buffers_are_the_log(home: Home) -> Iterator[str]:
    """The buffer of an agent that no turn has is the transcript, message for message. Where a turn
    was cut between the record of a compaction and its fold, what that covers still stands there."""
    if not home.ready or home.life is None or home.life.store.writer.requests:
        return
    gateway = home.gateway
    for session_id, entry in gateway.services.cache._entries.items():
        if entry.busy or gateway.lanes.get(session_id) is not None:
            continue
        skipped, records = home.life.store.look(sessions.context, session_id=session_id)
        log, agent = [record.message for record in records], entry.agent
        unfolded = skipped - agent.window.skipped
        if unfolded < 0 or log != agent.messages[unfolded:]:
            yield (
                f"the buffer of {session_id} is {agent.messages} after {agent.window.skipped}, "
                f"the log has {log} after {skipped}"
            )


def turns_are_left_as_they_stood(home: Home) -> Iterator[str]:
    """F5, F7, H6: ended, parked or marked; counted once, and never for being parked."""
    yield from home.ends.breaches


def _events(cursor: apsw.Cursor) -> list[tuple[Any, Any]]:
    found = cursor.execute("SELECT id, event_id FROM inbox WHERE platform = 'api'")
    return [(row[0], row[1]) for row in found]


ALWAYS: Sequence[Instant] = (
    the_gateway_lives,
    turns_are_left_as_they_stood,
    requests_are_sound,
    no_effect_twice,
    what_was_acknowledged_is_there,
    buffers_are_the_log,
)

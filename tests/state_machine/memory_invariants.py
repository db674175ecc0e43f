"""Invariants of memory: a provider receives each turn once.

Each invariant yields a sentence for every violation.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import apsw
from tests.state_machine.home_contents import HomeContents, Invariant


def memory_receives_each_turn_once(contents: HomeContents) -> Iterator[str]:
    """A turn is synced at most once, over all gateway runs, and none stays unsynced."""
    sent = Counter(row.inbound.text for row in contents.inbox.values())
    for (session_id, text), times in Counter(contents.home.memory.synced_turns).items():
        if times > max(1, sent[text]):
            yield f"memory received {times} times {text!r} in {session_id}"
    assert contents.home.current_run is not None
    if unsynced := contents.home.current_run.store.look(_unsynced_turns):
        yield f"memory has not received {unsynced}"


def _unsynced_turns(cursor: apsw.Cursor) -> list[str]:
    return [str(row[0]) for row in cursor.execute("SELECT turn_id FROM unsynced")]


AT_THE_END: Sequence[Invariant] = (memory_receives_each_turn_once,)

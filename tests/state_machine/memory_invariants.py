"""The laws of memory: who remembers hears of each turn, and not twice.

Each law yields a sentence for every breach of it.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import apsw
from tests.state_machine.home_contents import Books, Law


def turns_are_told_to_memory_once(books: Books) -> Iterator[str]:
    """A turn is told once at most, whoever lived when it was answered; what is owed is told."""
    said = Counter(row.inbound.text for row in books.inbox.values())
    for (session_id, text), times in Counter(books.home.diary.told).items():
        if times > max(1, said[text]):
            yield f"memory heard {times} times of {text!r} in {session_id}"
    assert books.home.life is not None
    if owed := books.home.life.store.look(_owed_to_memory):
        yield f"memory is still owed {owed}"


def _owed_to_memory(cursor: apsw.Cursor) -> list[str]:
    return [str(row[0]) for row in cursor.execute("SELECT turn_id FROM unsynced")]


AFTER_ALL: Sequence[Law] = (turns_are_told_to_memory_once,)

"""The laws of whoever watches: they hear the end of what they watch, once, and the truth about it.

Each law yields a sentence for every breach of it.
"""

from collections.abc import Iterator, Sequence

from tests.state_machine.home_contents import Books, Law, may_be_late
from tests.state_machine.watchers import Watch

from holdfast.core.messages.events import (
    MessageEnded,
    StepEnded,
    StreamVoided,
    TextStreamed,
    TurnStarted,
)
from holdfast.core.messages.inbox import END_STATES, InboxState


def watchers_hear_the_end(books: Books) -> Iterator[str]:
    """The last event of whoever stayed is the end of what they watched, and says what the log
    says; what streamed in the last step is the text of the answer."""
    for watch in books.home.watches:
        if watch.left or may_be_late(books, books.inbox[watch.inbox_id]):
            continue
        ends = [event for event in watch.events if isinstance(event, MessageEnded)]
        if len(ends) != 1 or watch.events[-1] is not ends[0]:
            yield f"a watcher of row {watch.inbox_id} heard {watch.events}"
            continue
        yield from _told_the_truth(books, watch, ends[0])


def _told_the_truth(books: Books, watch: Watch, end: MessageEnded) -> Iterator[str]:
    row = books.inbox[watch.inbox_id]
    told = books.told_in(row)
    if told is None or row.state not in END_STATES:
        return
    # What one turn took together ends together, and is told by the last of it: also where each
    # has an end of its own, since the turn was stopped.
    as_one = told.turn_id is not None and books.inbox[end.inbox_id].turn_id == told.turn_id
    if end.state != told.state or not (end.inbox_id == told.id or as_one):
        yield f"a watcher of {row.id} heard {end}, the log has {told.id} {told.state}"
    text = "\n\n".join(delivery.text for delivery in books.replies_to(told))
    if end.text != text:
        yield f"a watcher of {row.id} heard {end.text!r}, the reply is {text!r}"
    streamed = _last_stream(watch).strip()
    if end.state is InboxState.ANSWERED and streamed and streamed != end.text:
        yield f"a watcher of {row.id} saw {streamed!r} stream, and the reply is {end.text!r}"


def _last_stream(watch: Watch) -> str:
    pieces: list[str] = []
    for event in watch.events:
        match event:
            case TextStreamed():
                pieces.append(event.text)
            case TurnStarted() | StepEnded() | StreamVoided():
                pieces.clear()
    return "".join(pieces)


AT_PEACE: Sequence[Law] = (watchers_hear_the_end,)

"""Invariants of watchers: each receives the end of its message once, as it is in the store.

Each invariant yields a sentence for every violation.
"""

from collections.abc import Iterator, Sequence

from tests.state_machine.home_contents import HomeContents, Invariant, may_be_late
from tests.state_machine.watchers import Watcher

from holdfast.core.messages.events import (
    MessageEnded,
    StepEnded,
    StreamVoided,
    TextStreamed,
    TurnStarted,
)
from holdfast.core.messages.inbox import END_STATES, InboxState


def watchers_receive_the_end(contents: HomeContents) -> Iterator[str]:
    """The last event of an open watcher is the end of its message, as it is in the store; the text
    streamed in the last step is the text of the reply."""
    for watch in contents.home.watchers:
        if watch.closed or may_be_late(contents, contents.inbox[watch.inbox_id]):
            continue
        ends = [event for event in watch.events if isinstance(event, MessageEnded)]
        if len(ends) != 1 or watch.events[-1] is not ends[0]:
            yield f"a watcher of row {watch.inbox_id} received {watch.events}"
            continue
        yield from _end_matches_the_store(contents, watch, ends[0])


def _end_matches_the_store(
    contents: HomeContents, watch: Watcher, end: MessageEnded
) -> Iterator[str]:
    row = contents.inbox[watch.inbox_id]
    answered = contents.reply_row(row)
    if answered is None or row.state not in END_STATES:
        return
    # Messages that share a turn end together, with the event of the last one: also where each has
    # an end of its own, since the turn was stopped.
    as_one = (
        answered.turn_id is not None and contents.inbox[end.inbox_id].turn_id == answered.turn_id
    )
    if end.state != answered.state or not (end.inbox_id == answered.id or as_one):
        yield f"a watcher of {row.id} received {end}, the store has {answered.id} {answered.state}"
    text = "\n\n".join(delivery.text for delivery in contents.replies_to(answered))
    if end.text != text:
        yield f"a watcher of {row.id} received {end.text!r}, the reply is {text!r}"
    streamed = _last_stream(watch).strip()
    if end.state is InboxState.ANSWERED and streamed and streamed != end.text:
        yield f"a watcher of {row.id} saw {streamed!r} stream, and the reply is {end.text!r}"


def _last_stream(watch: Watcher) -> str:
    pieces: list[str] = []
    for event in watch.events:
        match event:
            case TextStreamed():
                pieces.append(event.text)
            case TurnStarted() | StepEnded() | StreamVoided():
                pieces.clear()
    return "".join(pieces)


WHEN_IDLE: Sequence[Invariant] = (watchers_receive_the_end,)

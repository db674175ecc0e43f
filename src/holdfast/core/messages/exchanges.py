"""Exchanges: a transcript by what was asked in it, each with all that it led to."""

from collections.abc import Iterator, Sequence

import msgspec

from holdfast.core.messages.message import AssistantMessage, Record, UserMessage


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """What was said, from the seq at which it begins to where the next one does."""

    from_seq: int
    said: tuple[UserMessage, ...]


def exchanges(records: Sequence[Record]) -> list[Exchange]:
    """Oldest first. What no person began (a note, a summary) belongs to what went before it."""
    return [
        Exchange(from_seq=part[0].seq, said=said)
        for part in _parts(records)
        if (said := _asked(part))
    ]


def _parts(records: Sequence[Record]) -> Iterator[list[Record]]:
    """The records of each turn; where they name none, as after an import, from one question to
    the next."""
    part: list[Record] = []
    for record in records:
        if part and _begins(record, part[-1]):
            yield part
            part = []
        part.append(record)
    if part:
        yield part


def _begins(record: Record, before: Record) -> bool:
    if record.turn_id is not None or before.turn_id is not None:
        return record.turn_id != before.turn_id
    asked = isinstance(record.message, UserMessage)
    return asked and not isinstance(before.message, UserMessage)


def _asked(part: Sequence[Record]) -> tuple[UserMessage, ...]:
    """What a part begins with; what came later was said into it."""
    said: list[UserMessage] = []
    for record in part:
        if isinstance(record.message, AssistantMessage):
            break
        if isinstance(record.message, UserMessage):
            said.append(record.message)
    return tuple(said)

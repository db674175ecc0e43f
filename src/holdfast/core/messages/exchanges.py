"""Exchanges: a transcript by what was asked in it, each with all that it led to."""

from collections.abc import Iterator, Sequence

import msgspec

from holdfast.core.messages.message import AssistantMessage, TranscriptRecord, UserMessage


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """What was said, from the seq at which it begins to where the next one does."""

    from_seq: int
    user_messages: tuple[UserMessage, ...]


def split_exchanges(records: Sequence[TranscriptRecord]) -> list[Exchange]:
    """Oldest first. What no person began (a note, a summary) belongs to what went before it."""
    return [
        Exchange(from_seq=part[0].seq, user_messages=said)
        for part in _group_by_turn(records)
        if (said := _opening_messages(part))
    ]


def _group_by_turn(records: Sequence[TranscriptRecord]) -> Iterator[list[TranscriptRecord]]:
    """The records of each turn; where they name none, as after an import, from one question to
    the next."""
    part: list[TranscriptRecord] = []
    for record in records:
        if part and _starts_group(record, part[-1]):
            yield part
            part = []
        part.append(record)
    if part:
        yield part


def _starts_group(record: TranscriptRecord, before: TranscriptRecord) -> bool:
    if record.turn_id is not None or before.turn_id is not None:
        return record.turn_id != before.turn_id
    asked = isinstance(record.message, UserMessage)
    return asked and not isinstance(before.message, UserMessage)


def _opening_messages(part: Sequence[TranscriptRecord]) -> tuple[UserMessage, ...]:
    """What a part begins with; what came later was said into it."""
    said: list[UserMessage] = []
    for record in part:
        if isinstance(record.message, AssistantMessage):
            break
        if isinstance(record.message, UserMessage):
            said.append(record.message)
    return tuple(said)

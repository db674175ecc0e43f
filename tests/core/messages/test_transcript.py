"""A transcript is divided into exchanges."""

from holdfast.core.ids import TurnId
from holdfast.core.messages.transcript import (
    AssistantMessage,
    CompactionMessage,
    Message,
    NoteMessage,
    TranscriptRecord,
    UserMessage,
    split_exchanges,
)


def log(*messages: tuple[str | None, Message]) -> list[TranscriptRecord]:
    return [
        TranscriptRecord(
            seq=seq, turn_id=TurnId(turn) if turn else None, message=message, created_at=1.0
        )
        for seq, (turn, message) in enumerate(messages, 1)
    ]


def ask(text: str) -> UserMessage:
    return UserMessage(text=text)


def say(text: str = "…") -> AssistantMessage:
    return AssistantMessage(text=text)


def found(*messages: tuple[str | None, Message]) -> list[tuple[int, list[str]]]:
    return [
        (each.from_seq, [m.text for m in each.user_messages])
        for each in split_exchanges(log(*messages))
    ]


def test_a_turn_is_an_exchange_and_a_steer_is_part_of_it() -> None:
    turns = found(
        ("a", ask("one")), ("a", say()), ("a", ask("steer")), ("a", say()), ("b", ask("two"))
    )
    assert turns == [(1, ["one"]), (5, ["two"])]


def test_messages_that_were_merged_are_one_question() -> None:
    assert found(("a", ask("one")), ("a", ask("more")), ("a", say())) == [(1, ["one", "more"])]


def test_a_note_in_front_of_a_question_goes_with_it() -> None:
    assert found(("a", NoteMessage(text="n")), ("a", ask("one")), ("a", say())) == [(1, ["one"])]


def test_a_message_without_a_question_belongs_to_the_exchange_before() -> None:
    turns = found(
        ("a", ask("one")),
        ("a", say()),
        (None, CompactionMessage(text="sum", covers=1)),
        ("b", NoteMessage(text="a child is done")),
        ("b", say()),
    )
    assert turns == [(1, ["one"])]


def test_records_that_name_no_turn_go_from_question_to_question() -> None:
    turns = found((None, ask("one")), (None, ask("more")), (None, say()), (None, ask("two")))
    assert turns == [(1, ["one", "more"]), (4, ["two"])]


def test_an_empty_transcript_has_no_exchange() -> None:
    assert found() == []
    assert found(("a", say())) == []

"""Tests that the scripted model gives a resumed turn the script it had before the interruption."""

from typing import Any

import msgspec

from holdfast.gateway.turns.transcript_notes import interruption_note
from holdfast.testing.misbehaving_model.chat_completions import RequestSummary, StrictChatReader
from holdfast.testing.misbehaving_model.script import ReplyScript

CUT = interruption_note("crash").text
ASKED = '[tool terminal {"command": "ls"}] [then] [text all done]'
CALL = {"id": "c", "type": "function", "function": {"name": "terminal", "arguments": "{}"}}


def read(*messages: dict[str, Any]) -> RequestSummary:
    return StrictChatReader().read(msgspec.json.encode({"model": "m", "messages": messages}))


def test_a_note_before_the_first_reply_leaves_the_first_step_due() -> None:
    parts = [{"type": "text", "text": text} for text in (ASKED, CUT)]
    conversation = read({"role": "user", "content": parts})
    step = ReplyScript().choose(conversation)
    assert conversation.user_text == ASKED
    assert step is not None
    assert [call.name for call in step.calls] == ["terminal"]


def test_a_note_after_a_tool_result_leaves_the_second_step_due() -> None:
    conversation = read(
        {"role": "user", "content": ASKED},
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c", "content": "a file"},
        {"role": "user", "content": CUT},
    )
    step = ReplyScript().choose(conversation)
    assert step is not None
    assert step.text == "all done"


def test_a_note_in_front_of_a_users_text_is_not_part_of_what_was_asked() -> None:
    assert (
        read({"role": "user", "content": f"{interruption_note('crash').text}\n\nhello"}).user_text
        == "hello"
    )


def test_a_conversation_of_notes_alone_is_still_a_question() -> None:
    assert read({"role": "user", "content": CUT}).user_text == CUT

"""The three shapes in which the misbehaving model speaks, each as strict as its provider."""

from collections.abc import Mapping
from typing import Protocol

from holdfast.testing.misbehaving_model import answer, answer_anthropic, answer_responses
from holdfast.testing.misbehaving_model.conversation import Conversation, check
from holdfast.testing.misbehaving_model.script import Step
from holdfast.testing.misbehaving_model.strict import StrictReader
from holdfast.testing.misbehaving_model.strict_anthropic import StrictAnthropic
from holdfast.testing.misbehaving_model.strict_responses import StrictResponses


class Answers(Protocol):
    """What an answer is made of in one mode; each of these modules is one."""

    def echo(self, conversation: Conversation, size: int) -> bytes: ...
    def whole(self, conversation: Conversation, step: Step, size: int) -> bytes: ...
    def events(self, conversation: Conversation, step: Step, size: int) -> list[bytes]: ...
    def error(self, message: str, *, kind: str = ..., code: str | None = None) -> bytes: ...
    def error_event(self, message: str) -> bytes: ...


class Reader(Protocol):
    def read(self, body: bytes) -> Conversation: ...


class Shape:
    """One mode: who reads its requests, what answers are made of, and where the key stands."""

    def __init__(self, reader: Reader, answers: Answers) -> None:
        self.reader = reader
        self.answers = answers

    def key(self, headers: Mapping[str, str]) -> str:
        return headers.get("Authorization", "").removeprefix("Bearer ")

    def read(self, body: bytes, headers: Mapping[str, str]) -> Conversation:
        del headers
        return self.reader.read(body)


class AnthropicShape(Shape):
    def key(self, headers: Mapping[str, str]) -> str:
        return headers.get("x-api-key", "")

    def read(self, body: bytes, headers: Mapping[str, str]) -> Conversation:
        check("anthropic-version" in headers, "anthropic-version: header is required")
        return super().read(body, headers)


def shapes() -> dict[str, Shape]:
    """Every mode by its path."""
    return {
        "/v1/chat/completions": Shape(StrictReader(), answer),
        "/v1/responses": Shape(StrictResponses(), answer_responses),
        "/v1/messages": AnthropicShape(StrictAnthropic(), answer_anthropic),
    }

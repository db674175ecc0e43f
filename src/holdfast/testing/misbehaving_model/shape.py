"""The three shapes in which the misbehaving model speaks, each as strict as its provider."""

from collections.abc import Mapping
from typing import Protocol

from holdfast.testing.misbehaving_model import answer, answer_anthropic, answer_responses
from holdfast.testing.misbehaving_model.conversation import RequestSummary, require
from holdfast.testing.misbehaving_model.script import ScriptedReply
from holdfast.testing.misbehaving_model.strict import StrictChatReader
from holdfast.testing.misbehaving_model.strict_anthropic import StrictAnthropicReader
from holdfast.testing.misbehaving_model.strict_responses import StrictResponsesReader


class ReplyWriter(Protocol):
    """What an answer is made of in one mode; each of these modules is one."""

    def echo(self, conversation: RequestSummary, size: int) -> bytes: ...
    def whole(self, conversation: RequestSummary, step: ScriptedReply, size: int) -> bytes: ...
    def events(
        self, conversation: RequestSummary, step: ScriptedReply, size: int
    ) -> list[bytes]: ...
    def error(self, message: str, *, kind: str = ..., code: str | None = None) -> bytes: ...
    def error_event(self, message: str) -> bytes: ...


class RequestReader(Protocol):
    def read(self, body: bytes) -> RequestSummary: ...


class ModeHandler:
    """One mode: who reads its requests, what answers are made of, and where the key stands."""

    def __init__(self, reader: RequestReader, writer: ReplyWriter) -> None:
        self.reader = reader
        self.writer = writer

    def key(self, headers: Mapping[str, str]) -> str:
        return headers.get("Authorization", "").removeprefix("Bearer ")

    def read(self, body: bytes, headers: Mapping[str, str]) -> RequestSummary:
        del headers
        return self.reader.read(body)


class AnthropicModeHandler(ModeHandler):
    def key(self, headers: Mapping[str, str]) -> str:
        return headers.get("x-api-key", "")

    def read(self, body: bytes, headers: Mapping[str, str]) -> RequestSummary:
        require("anthropic-version" in headers, "anthropic-version: header is required")
        return super().read(body, headers)


def mode_handlers() -> dict[str, ModeHandler]:
    """Every mode by its path."""
    return {
        "/v1/chat/completions": ModeHandler(StrictChatReader(), answer),
        "/v1/responses": ModeHandler(StrictResponsesReader(), answer_responses),
        "/v1/messages": AnthropicModeHandler(StrictAnthropicReader(), answer_anthropic),
    }

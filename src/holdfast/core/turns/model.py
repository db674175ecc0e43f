"""What is said to a model and what comes back, in no provider's words."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from holdfast.core.errors import ModelError
from holdfast.core.messages.message import AssistantMessage, Message
from holdfast.core.turns.turn import Usage


class ModelChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The model that answers, and why it is this one."""

    provider: str
    name: str
    why: str


class ToolSchema(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str
    parameters: Mapping[str, Any]  # JSON Schema


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One call. `messages` is a valid projection (`core.projection.project`)."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSchema, ...] = ()
    reasoning: str | None = None  # effort; None: the model's own default
    max_output_tokens: int | None = None


class TextDelta(msgspec.Struct, frozen=True, tag="text", gc=False):
    text: str


class ReasoningDelta(msgspec.Struct, frozen=True, tag="reasoning", gc=False):
    text: str


class Retrying(msgspec.Struct, frozen=True, tag="retrying", gc=False):
    """The call failed and is made again after `delay` seconds; what was streamed is void."""

    why: str
    attempt: int
    delay: float


class FallbackUsed(msgspec.Struct, frozen=True, tag="fell_back", gc=False):
    """The call failed for good and `model` takes it over; what was streamed is void."""

    why: str
    model: str


class Completed(msgspec.Struct, frozen=True, tag="completed"):
    """The last event of every stream that did not raise."""

    message: AssistantMessage
    usage: Usage


ModelEvent = TextDelta | ReasoningDelta | Retrying | FallbackUsed | Completed


class ModelFault(StrEnum):
    """Why a model call failed."""

    AUTH = "auth"
    RATE_LIMIT = "rate_limit"
    CONTEXT_TOO_LONG = "context_too_long"
    BAD_REQUEST = "bad_request"
    SERVER = "server"
    NETWORK = "network"
    TIMEOUT = "timeout"
    MALFORMED = "malformed"


RETRYABLE_FAULTS = frozenset(
    {
        ModelFault.RATE_LIMIT,
        ModelFault.SERVER,
        ModelFault.NETWORK,
        ModelFault.TIMEOUT,
        ModelFault.MALFORMED,
    }
)


class ModelFailed(ModelError):
    """A call that failed for good; the text says what to do."""

    def __init__(
        self,
        message: str,
        *,
        fault: ModelFault,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.fault = fault
        self.status = status
        self.retry_after = retry_after

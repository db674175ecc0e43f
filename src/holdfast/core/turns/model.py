"""Requests to a model and its replies, independent of any provider, and models' limits."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from holdfast.core.config.settings import VisionMode
from holdfast.core.errors import ModelError
from holdfast.core.messages.transcript import AssistantMessage, Message, UserMessage
from holdfast.core.text.translatable import Translatable
from holdfast.core.turns.turn import NO_USAGE, Usage


class ModelChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The model that answers, and why it was chosen."""

    provider: str
    name: str
    why: Translatable


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


class ModelFault(StrEnum):
    """Why a model call failed."""

    AUTH = "auth"
    RATE_LIMIT = "rate_limit"
    CONTEXT_TOO_LONG = "context_too_long"
    BAD_REQUEST = "bad_request"
    OVERLOADED = "overloaded"
    SERVER = "server"
    NETWORK = "network"
    TIMEOUT = "timeout"
    MALFORMED = "malformed"


class TextDelta(msgspec.Struct, frozen=True, tag="text", gc=False):
    text: str


class ReasoningDelta(msgspec.Struct, frozen=True, tag="reasoning", gc=False):
    text: str


class Retrying(msgspec.Struct, frozen=True, tag="retrying", gc=False):
    """The call failed and is repeated after `delay` seconds; the streamed text is void. `attempt`:
    the one that failed, of at most `attempts`."""

    why: str
    attempt: int
    delay: float
    attempts: int
    fault: ModelFault


class FallbackUsed(msgspec.Struct, frozen=True, tag="fell_back", gc=False):
    """The call failed for good and `model` takes over; the streamed text is void."""

    why: Translatable
    model: str

    def followed_by(self, later: "FallbackUsed") -> "FallbackUsed":
        """The later model has taken over from this one. The reason is that of the first failure."""
        return FallbackUsed(self.why, later.model)


class Completed(msgspec.Struct, frozen=True, tag="completed"):
    """The last event of every stream that did not raise."""

    message: AssistantMessage
    usage: Usage


ModelEvent = TextDelta | ReasoningDelta | Retrying | FallbackUsed | Completed


RETRYABLE_FAULTS = frozenset(
    {
        ModelFault.RATE_LIMIT,
        ModelFault.OVERLOADED,
        ModelFault.SERVER,
        ModelFault.NETWORK,
        ModelFault.TIMEOUT,
        ModelFault.MALFORMED,
    }
)


class ModelFailed(ModelError):
    """A call that failed for good; the text tells what to do."""

    def __init__(
        self,
        message: str,
        *,
        fault: ModelFault,
        status: int | None = None,
        retry_after: float | None = None,
        **values: object,
    ) -> None:
        super().__init__(message, **values)
        self.fault = fault
        self.status = status
        self.retry_after = retry_after


class AuxiliaryTask(StrEnum):
    TITLE = "title"
    SUMMARY = "summary"
    VISION = "vision"


class AuxiliaryFailed(ModelError):
    """An auxiliary call gave no answer; its caller continues without one. `retryable`: it may be
    tried again. `usage`: the tokens that it used nevertheless."""

    def __init__(
        self, message: str, *, retryable: bool = True, usage: Usage = NO_USAGE, **values: object
    ) -> None:
        super().__init__(message, **values)
        self.retryable = retryable
        self.usage = usage


DEFAULT_CONTEXT_WINDOW = 128_000

# The first matching pattern applies, so special ones come before general ones. If a vendor sells a
# larger window as an option, the ordinary one is assumed.
_WINDOWS: Sequence[tuple[str, int]] = (
    (r"smollm2", 8_192),
    (r"gpt-3\.5", 16_385),
    (r"gpt-4-turbo|gpt-4o|chatgpt-4o", 128_000),
    (r"gpt-4\.1", 1_000_000),
    (r"gpt-4-32k", 32_768),
    (r"gpt-4(?![.\w])", 8_192),
    (r"gpt-5-chat", 128_000),
    (r"gpt-5", 272_000),
    (r"gpt-oss", 131_072),
    (r"o1-mini|o1-preview", 128_000),
    (r"\bo[134](?![\w.])|\bo[134]-", 200_000),
    (r"claude", 200_000),
    (r"gemini-1\.5-pro", 2_000_000),
    (r"gemini", 1_000_000),
    (r"gemma-?2|gemma:", 8_192),
    (r"llama-?3(?![.\d])", 8_192),
    (r"llama-?2", 4_096),
    (r"mixtral|mistral-7b", 32_768),
    (r"kimi-k2|grok-4", 256_000),
)
_TEXT_ONLY = (
    r"smollm2|gpt-3\.5|gpt-4-32k|gpt-4(?![.\w-])|gpt-oss|o1-mini|o1-preview|o3-mini|deepseek"
    r"|codestral|mixtral|mistral-7b|llama-?2|llama-?3(?:\.[013])?(?![.\d])(?!.*vision)|qwen[23]?-?coder"
    r"|kimi-k2|glm-4\.[56](?!v)|phi-?3(?!.*vision)"
)


EMBEDDED_MODEL = "SmolLM2-135M-Instruct"


class ModelProfile(msgspec.Struct, frozen=True, kw_only=True):
    """How a model is addressed and run, where that differs from what suits most models."""

    uses_tools: bool = True
    max_output_tokens: int | None = None  # None: as many as its provider allows
    identity: str = ""  # the first part of its system prompt; "": the usual one
    examples: tuple[Message, ...] = ()  # a conversation that precedes every other
    threads: int = 0  # of a server of our own; 0: one per core
    sampling: Mapping[str, float] = {}  # of a server of our own, in llama.cpp's words


_USUAL_PROFILE = ModelProfile()
_PROFILES: Mapping[str, ModelProfile] = {
    # Measured with ten questions of a new user (tests/models/test_small_model.py). The usual prompt
    # makes it ramble about gateways; without examples it answers in loops or does not stop.
    EMBEDDED_MODEL: ModelProfile(
        uses_tools=False,
        max_output_tokens=400,
        identity="You are a helpful assistant. Give a short, correct answer.",
        examples=(
            UserMessage(text="Who are you?"),
            AssistantMessage(
                text="I am a small language model. I can chat, but I cannot use tools."
            ),
            UserMessage(text="Write a short poem about the rain."),
            AssistantMessage(
                text="Soft rain falls on the quiet street,\n"
                "It cools the stones beneath my feet.\n"
                "The clouds move on, the sky turns bright,\n"
                "And stars come out to greet the night."
            ),
            UserMessage(text='How do you say "thank you" in Spanish?'),
            AssistantMessage(text='In Spanish, "thank you" is "gracias".'),
            UserMessage(text="What is 5+3?"),
            AssistantMessage(text="5+3 is 8."),
            UserMessage(text="What is the capital of Italy?"),
            AssistantMessage(text="The capital of Italy is Rome."),
            UserMessage(text="Hi!"),
            AssistantMessage(text="Hello! How can I help you?"),
        ),
        # Threads of llama.cpp wait for each other in busy loops. On a machine with other work, a
        # second one makes so small a model many times slower.
        threads=1,
        # The likeliest token, except where it would continue a repetition.
        sampling={
            "temp": 0,
            "dry_multiplier": 0.8,
            "dry_allowed_length": 4,
            "dry_penalty_last_n": 128,
        },
    ),
}


def model_profile(name: str) -> ModelProfile:
    """The profile of the named model; the usual one if it has none of its own."""
    return _PROFILES.get(name, _USUAL_PROFILE)


def context_window(name: str) -> int:
    """The context window of the named model in tokens, question and answer together."""
    lower = name.lower()
    for pattern, window in _WINDOWS:
        if re.search(pattern, lower):
            return window
    return DEFAULT_CONTEXT_WINDOW


def accepts_images(name: str, configured: VisionMode = VisionMode.AUTO) -> bool:
    """Whether the model is sent pictures. A model with an unknown name is assumed to accept them:
    most do, and one that does not reports an error, while a picture that is withheld is never
    noticed."""
    if configured is not VisionMode.AUTO:
        return configured is VisionMode.YES
    return re.search(_TEXT_ONLY, name.lower()) is None

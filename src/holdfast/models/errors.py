"""Builds the error of a failed model call: its kind, and a text that says what to do."""

from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from enum import StrEnum
from math import isfinite

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.text.translation import N_
from holdfast.core.turns.model import ModelFailed, ModelFault
from holdfast.models.target import ModelTarget

_MAX_QUOTE = 300

_TOO_LONG_PHRASES = (
    "context_length_exceeded",
    "maximum context length",
    "context length",
    "context window",
    "context size",
    "exceeds the available context",
    "prompt is too long",
    "too many tokens",
    "input is too long",
    "reduce the length of the messages",
)
_NO_CREDIT_PHRASES = (
    "insufficient_quota",
    "insufficient credit",
    "credit balance is too low",
    "billing_not_active",
    "billing hard limit",
)
# An error inside a stream has no status of its own; its type implies one.
_STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "billing_error": 402,
    "request_too_large": 413,
    "overloaded_error": 529,
    "invalid_prompt": 400,
    "invalid_image": 400,
}


class _ProviderError(msgspec.Struct):
    message: str = ""
    code: str | int | None = None
    type: str | None = None


def http_error(
    target: ModelTarget,
    status: int,
    *,
    body: bytes,
    headers: Mapping[str, str],
    now: Callable[[], float],
) -> ModelFailed:
    """The fault of an HTTP response other than 200."""
    error = _parse_error(body)
    fault = _classify(status, _error_text(error))
    wait = _parse_retry_after(headers.get("Retry-After"), now=now)
    return _make_error(target, fault, message=error.message, status=status, retry_after=wait)


def provider_error(target: ModelTarget, error: bytes) -> ModelFailed:
    """The fault of an error object that came where an answer should be."""
    found = _parse_error(error)
    fault = _classify(_implied_status(found), _error_text(found))
    return _make_error(target, fault, message=found.message, status=None)


def network_error(target: ModelTarget, what: str) -> ModelFailed:
    return ModelFailed(
        "{model_label} could not be reached at {base_url}: {what}. "
        "Check the network, and `base_url` under [model] in holdfast.toml.",
        model_label=_model_label(target),
        base_url=target.base_url,
        what=_without_key(target, what),
        fault=ModelFault.NETWORK,
    )


class TimeoutStage(StrEnum):
    """What did not happen in time, as a text for people."""

    CONNECT = N_("{model_label} could not be reached within {limit:g} s.")
    START = N_("{model_label} did not start within {limit:g} s.")
    ANSWER = N_("{model_label} did not begin to answer within {limit:g} s.")
    STALLED = N_("{model_label} stopped in the middle of its answer for more than {limit:g} s.")
    WHOLE = N_("{model_label} was not done within {limit:g} s.")


def timeout_error(
    target: ModelTarget, stage: TimeoutStage, setting: str, limit: float
) -> ModelFailed:
    label = _model_label(target)
    return ModelFailed(
        "{problem} If the server is only slow, raise `{setting}` under [model] in holdfast.toml.",
        problem=HoldfastError(stage.value, model_label=label, limit=limit),
        setting=setting,
        fault=ModelFault.TIMEOUT,
    )


def truncated_error(target: ModelTarget) -> ModelFailed:
    return _malformed(target, HoldfastError("it ended its answer in the middle"))


def undecodable_error(target: ModelTarget, payload: bytes) -> ModelFailed:
    return _malformed(
        target,
        HoldfastError(
            "it sent a piece of its answer that cannot be read: {excerpt}",
            excerpt=_without_key(target, _excerpt(payload)),
        ),
    )


def unnamed_call_error(target: ModelTarget) -> ModelFailed:
    return _malformed(target, HoldfastError("it asked for a tool without naming it"))


def oversized_event_error(target: ModelTarget) -> ModelFailed:
    return _malformed(target, HoldfastError("it sent one event without end"))


def not_a_stream_error(target: ModelTarget, content_type: str, body: bytes) -> ModelFailed:
    """A 200 that holds no answer: a proxy's page, or the page of quite another server."""
    return _malformed(
        target,
        HoldfastError(
            "it answered with {kind} instead of a stream: {excerpt}. "
            "Check that `base_url` under [model] ({base_url}) is an API's address",
            kind=content_type or HoldfastError("a body of unknown type"),
            excerpt=_without_key(target, _excerpt(body)) or HoldfastError("(empty)"),
            base_url=target.base_url,
        ),
    )


def released_error(target: ModelTarget) -> ModelFailed:
    """Not a fault of the provider's: our own side let the call go."""
    return ModelFailed(
        "The call to {model_label} was cancelled.",
        model_label=_model_label(target),
        fault=ModelFault.NETWORK,
    )


def _implied_status(error: _ProviderError) -> int:
    code = str(error.code)
    if code.isdecimal() and len(code) == 3:
        return int(code)
    return _STATUS_OF_TYPE.get(str(error.type), _STATUS_OF_TYPE.get(code, 500))


def _error_text(error: _ProviderError) -> str:
    return f"{error.code} {error.type} {error.message}".lower()


def _classify(status: int, text: str) -> ModelFault:
    if status in (400, 402, 403, 429) and any(phrase in text for phrase in _NO_CREDIT_PHRASES):
        return ModelFault.AUTH
    if status in (400, 422, 500) and any(phrase in text for phrase in _TOO_LONG_PHRASES):
        return ModelFault.CONTEXT_TOO_LONG
    if status in _FAULT_BY_STATUS:
        return _FAULT_BY_STATUS[status]
    return ModelFault.SERVER if status >= 500 else ModelFault.BAD_REQUEST


_FAULT_BY_STATUS = {
    401: ModelFault.AUTH,
    402: ModelFault.AUTH,
    403: ModelFault.AUTH,
    408: ModelFault.TIMEOUT,
    409: ModelFault.SERVER,
    413: ModelFault.CONTEXT_TOO_LONG,
    425: ModelFault.SERVER,
    429: ModelFault.RATE_LIMIT,
    503: ModelFault.OVERLOADED,
    529: ModelFault.OVERLOADED,
}


def _make_error(
    target: ModelTarget,
    fault: ModelFault,
    *,
    message: str,
    status: int | None,
    retry_after: float | None = None,
) -> ModelFailed:
    code = f" ({status})" if status else ""
    quote = f': "{_without_key(target, message[:_MAX_QUOTE])}"' if message else ""
    return ModelFailed(
        "{problem}{details}. {advice}",
        problem=HoldfastError(_PROBLEM_TEXTS[fault], model_label=_model_label(target)),
        details=f"{code}{quote}",
        advice=_advice(target, fault, retry_after),
        fault=fault,
        status=status,
        retry_after=retry_after,
    )


_OWN_ERROR = N_("{model_label} had an error of its own")
_PROBLEM_TEXTS = {
    ModelFault.AUTH: N_("{model_label} does not accept the API key or its account"),
    ModelFault.RATE_LIMIT: N_("{model_label} gets too many requests"),
    ModelFault.CONTEXT_TOO_LONG: N_("{model_label} finds the conversation too long"),
    ModelFault.BAD_REQUEST: N_("{model_label} refused the request"),
    ModelFault.TIMEOUT: N_("{model_label} gave up waiting"),
    ModelFault.OVERLOADED: N_("{model_label} is overloaded"),
    ModelFault.SERVER: _OWN_ERROR,
    ModelFault.NETWORK: _OWN_ERROR,
    ModelFault.MALFORMED: _OWN_ERROR,
}


def _advice(target: ModelTarget, fault: ModelFault, retry_after: float | None) -> HoldfastError:
    match fault:
        case ModelFault.AUTH:
            return HoldfastError(
                "Check `api_key` under [model] in holdfast.toml (now: {reference}) and the "
                "account's credit.",
                reference=target.key_reference or HoldfastError("none is set"),
            )
        case ModelFault.RATE_LIMIT if retry_after is not None:
            return HoldfastError(
                "Try again later. It asks to wait {seconds:g} s.", seconds=retry_after
            )
        case ModelFault.CONTEXT_TOO_LONG:
            return HoldfastError("Start a new one with /new.")
        case ModelFault.BAD_REQUEST:
            return HoldfastError(
                "Check `name` ({name}) and `base_url` ({base_url}) under [model].",
                name=target.name,
                base_url=target.base_url,
            )
    return HoldfastError("Try again later.")


def _malformed(target: ModelTarget, problem: HoldfastError) -> ModelFailed:
    return ModelFailed(
        "{model_label} sent an invalid answer: {problem}.",
        model_label=_model_label(target),
        problem=problem,
        fault=ModelFault.MALFORMED,
    )


def _model_label(target: ModelTarget) -> HoldfastError:
    return HoldfastError(
        "The model {name} ({provider})", name=target.name, provider=target.provider
    )


def _without_key(target: ModelTarget, text: str) -> str:
    """Providers quote what they were sent; a key must not come back that way."""
    if target.api_key is None:
        return text
    return text.replace(target.api_key.reveal(), "***")


def _excerpt(body: bytes) -> str:
    return " ".join(body[: 4 * _MAX_QUOTE].decode("utf-8", "replace").split())[:_MAX_QUOTE]


class _Envelope(msgspec.Struct):
    error: _ProviderError | str | None = None
    detail: str | None = None


def _parse_error(body: bytes) -> _ProviderError:
    """What a provider says went wrong, from any of the shapes they use; else its first words."""
    try:
        envelope = msgspec.json.decode(body, type=_Envelope)
        error = msgspec.json.decode(body, type=_ProviderError)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _ProviderError(message=_excerpt(body))
    if isinstance(envelope.error, _ProviderError):
        return envelope.error
    return _ProviderError(
        message=envelope.error or envelope.detail or error.message or _excerpt(body),
        code=error.code,
        type=error.type,
    )


def _parse_retry_after(value: str | None, *, now: Callable[[], float]) -> float | None:
    """`Retry-After` as seconds or as a date; what is neither says nothing."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - now()
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if isfinite(seconds) else None

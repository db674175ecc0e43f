"""Faults: what went wrong with a model call, in words its reader can act on."""

from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from math import isfinite

import msgspec

from holdfast.core.turns.model import Fault, ModelFailed
from holdfast.models.target import ModelTarget

_SHOWN = 300

_TOO_LONG = (
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
_OUT_OF_CREDIT = (
    "insufficient_quota",
    "insufficient credit",
    "credit balance is too low",
    "billing_not_active",
    "billing hard limit",
)
# An error inside a stream has no status of its own; its type stands for one.
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
    "invalid_prompt": 400,
    "invalid_image": 400,
}


class _Error(msgspec.Struct):
    message: str = ""
    code: str | int | None = None
    type: str | None = None


def from_status(
    target: ModelTarget,
    status: int,
    *,
    body: bytes,
    headers: Mapping[str, str],
    now: Callable[[], float],
) -> ModelFailed:
    """The fault an HTTP answer other than 200 stands for."""
    error = _error_in(body)
    fault = _fault_of(status, _words_of(error))
    wait = _seconds(headers.get("Retry-After"), now=now)
    return _failed(target, fault, said=error.message, status=status, retry_after=wait)


def reported(target: ModelTarget, error: bytes) -> ModelFailed:
    """The fault of an error object that came where an answer should be."""
    found = _error_in(error)
    fault = _fault_of(_implied_status(found), _words_of(found))
    return _failed(target, fault, said=found.message, status=None)


def network(target: ModelTarget, what: str) -> ModelFailed:
    return ModelFailed(
        _scrubbed(
            target,
            f"{_who(target)} could not be reached at {target.base_url}: {what}. "
            "Check the network, and `base_url` under [model] in holdfast.toml.",
        ),
        fault=Fault.NETWORK,
    )


def timed_out(target: ModelTarget, stage: str, setting: str, limit: float) -> ModelFailed:
    return ModelFailed(
        f"{_who(target)} {stage} within {limit:g} s. If it is merely slow, raise `{setting}` "
        "under [model] in holdfast.toml.",
        fault=Fault.TIMEOUT,
    )


def cut(target: ModelTarget) -> ModelFailed:
    return _malformed(target, "ended its answer in the middle")


def not_understood(target: ModelTarget, payload: bytes) -> ModelFailed:
    return _malformed(target, f"sent a piece of its answer that cannot be read: {_shown(payload)}")


def nameless_call(target: ModelTarget) -> ModelFailed:
    return _malformed(target, "asked for a tool without naming it")


def endless(target: ModelTarget) -> ModelFailed:
    return _malformed(target, "sent one event without end")


def no_stream(target: ModelTarget, content_type: str, body: bytes) -> ModelFailed:
    """A 200 that holds no answer: a proxy's page, or the page of quite another server."""
    kind = content_type or "nothing that names its type"
    return _malformed(
        target,
        f"answered with {kind} instead of a stream: {_shown(body) or '(empty)'}. "
        f"Check that `base_url` under [model] ({target.base_url}) is an API's address",
    )


def ended(target: ModelTarget) -> ModelFailed:
    """Not a fault of the provider's: our own side let the call go."""
    return ModelFailed(f"The call to {_who(target)} was ended by its owner.", fault=Fault.NETWORK)


def _implied_status(error: _Error) -> int:
    code = str(error.code)
    if code.isdecimal() and len(code) == 3:
        return int(code)
    return _STATUS_OF_TYPE.get(str(error.type), _STATUS_OF_TYPE.get(code, 500))


def _words_of(error: _Error) -> str:
    return f"{error.code} {error.type} {error.message}".lower()


def _fault_of(status: int, words: str) -> Fault:
    if status in (400, 402, 403, 429) and any(phrase in words for phrase in _OUT_OF_CREDIT):
        return Fault.AUTH
    if status in (400, 422, 500) and any(phrase in words for phrase in _TOO_LONG):
        return Fault.CONTEXT_TOO_LONG
    if status in _FAULTS:
        return _FAULTS[status]
    return Fault.SERVER if status >= 500 else Fault.BAD_REQUEST


_FAULTS = {
    401: Fault.AUTH,
    402: Fault.AUTH,
    403: Fault.AUTH,
    408: Fault.TIMEOUT,
    409: Fault.SERVER,
    413: Fault.CONTEXT_TOO_LONG,
    425: Fault.SERVER,
    429: Fault.RATE_LIMIT,
}


def _failed(
    target: ModelTarget,
    fault: Fault,
    *,
    said: str,
    status: int | None,
    retry_after: float | None = None,
) -> ModelFailed:
    head, advice = _words(target, fault, retry_after)
    code = f" ({status})" if status else ""
    quote = f': "{said[:_SHOWN]}"' if said else ""
    text = _scrubbed(target, f"{_who(target)} {head}{code}{quote}. {advice}".rstrip())
    return ModelFailed(text, fault=fault, status=status, retry_after=retry_after)


def _words(target: ModelTarget, fault: Fault, retry_after: float | None) -> tuple[str, str]:
    match fault:
        case Fault.AUTH:
            where = target.key_reference or "none is set"
            return (
                "does not accept the API key or its account",
                f"Check `api_key` under [model] in holdfast.toml (now: {where}) "
                "and the account's credit.",
            )
        case Fault.RATE_LIMIT:
            wait = f" It asks to wait {retry_after:g} s." if retry_after is not None else ""
            return "is being asked too often", f"Try again later.{wait}"
        case Fault.CONTEXT_TOO_LONG:
            return "finds the conversation too long", "Start a new one with /new."
        case Fault.BAD_REQUEST:
            return (
                "refused the request",
                f"Check `name` ({target.name}) and `base_url` ({target.base_url}) under [model].",
            )
        case Fault.TIMEOUT:
            return "gave up waiting", "Try again later."
        case Fault.SERVER | Fault.NETWORK | Fault.MALFORMED:
            return "had an error of its own", "Try again later."


def _malformed(target: ModelTarget, what: str) -> ModelFailed:
    return ModelFailed(_scrubbed(target, f"{_who(target)} {what}."), fault=Fault.MALFORMED)


def _who(target: ModelTarget) -> str:
    return f"The model {target.name} ({target.provider})"


def _scrubbed(target: ModelTarget, text: str) -> str:
    """Providers quote what they were sent; a key must not come back that way."""
    if target.api_key is None:
        return text
    return text.replace(target.api_key.reveal(), "***")


def _shown(body: bytes) -> str:
    return " ".join(body[: 4 * _SHOWN].decode("utf-8", "replace").split())[:_SHOWN]


class _Envelope(msgspec.Struct):
    error: _Error | str | None = None
    detail: str | None = None


def _error_in(body: bytes) -> _Error:
    """What a provider says went wrong, from any of the shapes they use; else its first words."""
    try:
        envelope = msgspec.json.decode(body, type=_Envelope)
        bare = msgspec.json.decode(body, type=_Error)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Error(message=_shown(body))
    if isinstance(envelope.error, _Error):
        return envelope.error
    return _Error(
        message=envelope.error or envelope.detail or bare.message or _shown(body),
        code=bare.code,
        type=bare.type,
    )


def _seconds(value: str | None, *, now: Callable[[], float]) -> float | None:
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

"""A model target: which model is called, where, with what key, and with what time limits."""

import re
from collections.abc import Mapping
from enum import StrEnum
from urllib.parse import urlsplit

import msgspec

from holdfast.core.config.settings import ApiMode, ModelSettings, Provider
from holdfast.core.errors import ModelError
from holdfast.core.secrets import Secret
from holdfast.core.turns.model import EMBEDDED_MODEL


class InvalidTarget(ModelError):
    """The settings name no model that can be called; the text names the key to change."""


class CallLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds; 0 means no limit. `whole` spans a call with all its retries."""

    connect: float = 10
    first_token: float = 120
    between_tokens: float = 60
    total: float = 900


class EffortField(StrEnum):
    """Which field of a request sets the reasoning effort. A wrong one gets the request refused."""

    NONE = "none"
    REASONING_EFFORT = "reasoning_effort"
    REASONING_OBJECT = "reasoning"


class ModelTarget(msgspec.Struct, frozen=True, kw_only=True):
    provider: Provider
    name: str
    api_mode: ApiMode = ApiMode.CHAT_COMPLETIONS
    base_url: str = ""
    api_key: Secret | None = None
    key_reference: str = ""  # where the key was read from, for error texts; never the key
    limits: CallLimits = CallLimits()
    retries: int = 4

    @property
    def effort_field(self) -> EffortField:
        if self.provider is Provider.OPENROUTER:
            return EffortField.REASONING_OBJECT
        if self.provider is Provider.OPENAI and self.name.startswith(_OPENAI_REASONERS):
            return EffortField.REASONING_EFFORT
        return EffortField.NONE

    @property
    def embedded(self) -> bool:
        """The small model of our own, which has no address before it was started."""
        return self.provider is Provider.LOCAL and not self.base_url

    def effort(self, requested: str | None) -> str | None:
        """How hard to think, in a word this target knows; None: nothing is said about it."""
        if requested is None or requested == "none":
            return None
        if requested == "minimal" and self.provider is Provider.OPENAI:
            # Only the first of the family knows the word; the others refuse it.
            return requested if _KNOWS_MINIMAL.fullmatch(self.name) else "low"
        return requested


_OPENAI_REASONERS = ("gpt-5", "o1", "o3", "o4", "codex")
_KNOWS_MINIMAL = re.compile(r"gpt-5(-mini|-nano)?(-\d{4}-\d\d-\d\d)?")
_API_PATHS = ("/chat/completions", "/responses", "/messages")
_BASE_URLS: Mapping[Provider, str] = {
    Provider.OPENAI: "https://api.openai.com/v1",
    Provider.OPENROUTER: "https://openrouter.ai/api/v1",
    Provider.ANTHROPIC: "https://api.anthropic.com/v1",
}
_DEFAULT_NAMES: Mapping[Provider, str] = {
    Provider.OPENAI: "gpt-5.1",
    Provider.OPENROUTER: "openrouter/auto",
    Provider.ANTHROPIC: "claude-sonnet-4-5",
    Provider.LOCAL: "default",
    Provider.DEMO: "demo",
}


def make_target(settings: ModelSettings, *, api_key: Secret | None) -> ModelTarget:
    """The target that `[model]` describes, with the provider's defaults filled in. The provider
    is chosen by now: "auto" has no target.

    `api_key` is what `settings.api_key` refers to. Raises `InvalidTarget` for settings with which
    no call could succeed.
    """
    provider = settings.provider
    base_url, key = _base_url(settings), _checked_key(settings, api_key)
    if key is not None and base_url and not settings.allow_unencrypted:
        _check_encrypted(base_url)
    return ModelTarget(
        provider=provider,
        name=model_name(settings),
        api_mode=settings.api_mode or _default_mode(settings),
        base_url=base_url,
        api_key=key,
        key_reference=settings.api_key,
        limits=CallLimits(
            connect=settings.connect_timeout,
            first_token=settings.first_token_timeout,
            between_tokens=settings.between_tokens_timeout,
            total=settings.whole_timeout,
        ),
        retries=settings.retries,
    )


def model_name(settings: ModelSettings) -> str:
    """The configured model, or else the default of its provider."""
    if settings.provider is Provider.LOCAL and not settings.base_url:
        return settings.name or EMBEDDED_MODEL
    return settings.name or _DEFAULT_NAMES[settings.provider]


def _default_mode(settings: ModelSettings) -> ApiMode:
    """The mode in which a provider says most: OpenAI returns what its models thought only in
    responses. At an address of one's own, chat completions are what nearly every server has."""
    if settings.provider is Provider.ANTHROPIC:
        return ApiMode.ANTHROPIC_MESSAGES
    if settings.provider is Provider.OPENAI and not settings.base_url:
        return ApiMode.RESPONSES
    return ApiMode.CHAT_COMPLETIONS


def _base_url(settings: ModelSettings) -> str:
    given = settings.base_url.strip().rstrip("/")
    for path in _API_PATHS:
        given = given.removesuffix(path)
    if settings.provider is Provider.DEMO or (settings.provider is Provider.LOCAL and not given):
        return given
    if given and not _is_address(given):
        raise InvalidTarget(
            "model.base_url: {given!r} is not a web address. Write it like https://host/v1.",
            given=given,
        )
    return given or _BASE_URLS[settings.provider]


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _check_encrypted(base_url: str) -> None:
    """Raise if a key would go to this address readable for others: no caller may send one there,
    wherever its settings are from."""
    if base_url.startswith("https:"):
        return
    from holdfast.core.net import is_readable_on_the_way  # noqa: PLC0415 - few have an own server

    if is_readable_on_the_way(base_url):
        raise InvalidTarget(
            "model.base_url: {base_url} would get the key without encryption, for everyone on the "
            "network to read. Use https://, or set allow_unencrypted = true beside it in "
            "holdfast.toml.",
            base_url=base_url,
        )


def _checked_key(settings: ModelSettings, api_key: Secret | None) -> Secret | None:
    if api_key is None or not api_key.reveal().strip():
        if settings.provider in _BASE_URLS and not settings.base_url:
            raise InvalidTarget(
                'model.api_key: provider "{provider}" needs a key. Set a reference, for '
                'example api_key = "env:{variable}".',
                provider=settings.provider,
                variable=f"{settings.provider.upper()}_API_KEY",
            )
        return None
    key = api_key.reveal().strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise InvalidTarget(
            "model.api_key: the value of {api_key} contains characters that no key has "
            "(spaces, line breaks or letters outside ASCII). Check what was pasted.",
            api_key=settings.api_key or "it",
        )
    return Secret(key)

"""Rules that types cannot express, and the model provider where the settings name none."""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from holdfast.config.document import RawConfig
from holdfast.config.errors import KeyPath, closest_match
from holdfast.config.platforms import is_plugin, unknown_platform
from holdfast.core.config.settings import (
    KEY_VARIABLES,
    TOOLSETS,
    ApiMode,
    AuditSettings,
    FallbackModel,
    ModelSettings,
    PlatformSettings,
    Provider,
    SessionSettings,
    Settings,
)
from holdfast.core.net import normalize_host
from holdfast.core.people.approval import REQUESTER
from holdfast.core.text.translation import N_, _

PROVIDER_API_MODES: dict[Provider, tuple[ApiMode, ...]] = {
    Provider.AUTO: tuple(ApiMode),
    Provider.OPENAI: (ApiMode.CHAT_COMPLETIONS, ApiMode.RESPONSES),
    Provider.ANTHROPIC: (ApiMode.ANTHROPIC_MESSAGES, ApiMode.CHAT_COMPLETIONS),
    Provider.OPENROUTER: tuple(ApiMode),
    Provider.LOCAL: tuple(ApiMode),
    Provider.DEMO: (),
}
_HOST = re.compile(r"[A-Za-z0-9_.-]+|\[?[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*\]?")
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def detect_provider(raw: RawConfig, variables: Mapping[str, str]) -> list[str]:
    """Replace the provider "auto" where the variables or a base_url decide it, and add a reference
    to its key where none is set.

    A base_url means a server of one's own. What stays "auto" is decided later, by looking for local
    servers. `raw` is changed, so that `config show` names the result and its origin. Returns
    warnings.
    """
    model = raw.tree.get("model", {})
    configured, key = model.get("provider", Provider.AUTO), model.get("api_key", "")
    if model.get("base_url"):
        if configured == Provider.AUTO:
            origin = str(raw.location_of(("model", "base_url")))
            raw.set(("model", "provider"), Provider.LOCAL.value, origin=origin)
        return []
    warnings: list[str] = []
    for provider, name in KEY_VARIABLES.items():
        has_key = key == f"env:{name}" or (not key and variables.get(name, "").strip())
        if configured not in (Provider.AUTO, provider) or not has_key:
            continue
        url_variable = name.replace("_API_KEY", "_BASE_URL")
        if configured == Provider.AUTO and not key and variables.get(url_variable):
            # A key must only be sent to its own address, which may be this very gateway.
            warnings.append(
                _(
                    "{name} is not used, because {url_variable} names another address. To use both,"
                    " set provider, base_url and api_key under [model]."
                ).format(name=name, url_variable=url_variable)
            )
            continue
        origin = f"the variable {name}"
        if configured == Provider.AUTO:
            raw.set(("model", "provider"), provider.value, origin=origin)
        if not key:
            raw.set(("model", "api_key"), f"env:{name}", origin=origin)
        break
    return warnings


def check_rules(raw: RawConfig, settings: Settings) -> list[str]:
    """Raise for the first rule that is broken; return what is allowed but unwise."""
    _check_model(raw, ("model",), settings.model)
    for index, fallback in enumerate(settings.model.fallbacks):
        _check_model(raw, ("model", "fallbacks", index), fallback)
    for index, address in enumerate(settings.model.discover):
        _check_url(raw, ("model", "discover", index), address)
    _check_url(raw, ("otel", "endpoint"), settings.otel.endpoint)
    _check_audit(raw, settings.audit)
    for index, toolset in enumerate(settings.agent.toolsets):
        _check_name(raw, ("agent", "toolsets", index), toolset, TOOLSETS)
    for name, platform in settings.platforms.items():
        _check_account(raw, ("platforms", name), platform)
        for account, each in platform.accounts.items():
            _check_account(raw, ("platforms", name, "accounts", account), each)
    for index, host in enumerate(settings.gateway.allowed_hosts):
        _check_host(raw, ("gateway", "allowed_hosts", index), host)
    for index, proxy in enumerate(settings.gateway.trusted_proxy):
        _check_network(raw, ("gateway", "trusted_proxy", index), proxy)
    for name, patterns in (("allow", settings.web.allow), ("deny", settings.web.deny)):
        for index, pattern in enumerate(patterns):
            _check_host_pattern(raw, ("web", name, index), pattern)
    _check_host(raw, ("gateway", "host"), settings.gateway.host)
    _check_language(raw, ("gateway", "language"), settings.gateway.language)
    _check_sessions(raw, settings.sessions)
    _check_zone(raw, ("jobs", "time_zone"), settings.jobs.time_zone)
    _check_people_and_chats(raw, settings)
    return _warnings(settings)


def _check_audit(raw: RawConfig, audit: AuditSettings) -> None:
    _check_url(raw, ("audit", "webhook"), audit.webhook)
    if audit.webhook and not audit.webhook_secret:
        raise raw.error(
            ("audit", "webhook_secret"),
            N_("{key} is missing: a receiver could not tell our posts from others"),
            value="",
            allowed=N_('a reference, "env:NAME" or "file:path"'),
        )
    if audit.syslog and not re.fullmatch(r"udp://[^/?#@]+|unix:///.+", audit.syslog):
        raise raw.error(
            ("audit", "syslog"),
            N_("{key} is not a usable address"),
            value=audit.syslog,
            allowed=N_("udp://host:port or unix:///path"),
        )


def _check_network(raw: RawConfig, path: KeyPath, value: str) -> None:
    from ipaddress import ip_network  # noqa: PLC0415 - most have no proxy

    try:
        ip_network(value, strict=False)
    except ValueError:
        raise raw.error(
            path,
            N_("{key} is neither an address nor a network"),
            value=value,
            allowed=N_('an address like "127.0.0.1", or a network like "172.16.0.0/12"'),
        ) from None


def _check_host_pattern(raw: RawConfig, path: KeyPath, pattern: str) -> None:
    host = normalize_host(pattern.removeprefix("*."))
    if pattern != "*" and not _HOST.fullmatch(host):
        raise raw.error(
            path,
            N_("{key} is not a pattern of hosts"),
            value=pattern,
            allowed=N_(
                'a host like "example.org" or an address, without scheme and port; "*.example.org"'
                ' for a domain and every host in it; or "*"'
            ),
        )


def _check_people_and_chats(raw: RawConfig, settings: Settings) -> None:
    for index, approver in enumerate(settings.approvals.approvers):
        _check_approver(raw, ("approvals", "approvers", index), approver)
    for index, chat in enumerate(settings.send.allow):
        _check_chat(raw, ("send", "allow", index), chat)


def _check_account(raw: RawConfig, path: KeyPath, account: PlatformSettings) -> None:
    _check_home(raw, (*path, "home"), account.home)
    for index, pattern in enumerate(account.files):
        if pattern != "*" and not pattern.startswith(".") and "/" not in pattern:
            raise raw.error(
                (*path, "files", index),
                N_("{key} is no kind of files"),
                value=pattern,
                allowed=N_('"*" for all, a suffix like ".csv", or a media type like "image/*"'),
            )
    base_url = msgspec.to_builtins(account).get("base_url")
    if isinstance(base_url, str):  # in every plugin, this key is a URL
        _check_url(raw, (*path, "base_url"), base_url)


def _check_chat(raw: RawConfig, path: KeyPath, named: str) -> None:
    platform, _, chat = named.partition(":")
    if not chat.strip():
        raise raw.error(
            path,
            N_("{key} names no chat"),
            value=named,
            allowed=N_('"platform:chat", or "platform:*" for every chat of a platform'),
        )
    if not is_plugin(platform):
        raise unknown_platform(raw, path, platform)


def _check_sessions(raw: RawConfig, sessions: SessionSettings) -> None:
    for index, rule in enumerate(sessions.rules):
        if rule.platform and not is_plugin(rule.platform):
            path = ("sessions", "rules", index, "platform")
            raise unknown_platform(raw, path, rule.platform)
    _check_zone(raw, ("sessions", "time_zone"), sessions.time_zone)


def _check_zone(raw: RawConfig, path: KeyPath, name: str) -> None:
    if not name:
        return
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - 3 ms that most configurations never need

    try:
        ZoneInfo(name)
    except (ValueError, LookupError, OSError):  # unknown, not a name at all, or a folder of them
        raise raw.error(
            path,
            N_("{key} is not a time zone that this machine knows"),
            value=name,
            allowed=N_('a name such as "Europe/Berlin" or "UTC", or "" for that of the machine'),
        ) from None


def _check_language(raw: RawConfig, path: KeyPath, language: str) -> None:
    if not language:
        return
    from holdfast.system.languages import (  # noqa: PLC0415 - most gateways speak English
        available_languages,
        match_language,
    )

    if match_language(language) is not None:
        return
    names = available_languages()
    raise raw.error(
        path,
        N_("{key} is a language that Holdfast does not have"),
        value=language,
        allowed=N_('{names}, or "" for English'),
        nearest=closest_match(language, names),
        names=", ".join(f'"{name}"' for name in names),
    )


def _check_home(raw: RawConfig, path: KeyPath, home: str) -> None:
    chat, slash, thread = home.partition("/")
    if not home or (chat.strip() and (thread.strip() or not slash)):
        return
    raise raw.error(
        path,
        N_("{key} names no chat"),
        value=home,
        allowed=N_('the id of a chat, "CHAT", or of a thread in it, "CHAT/THREAD"'),
    )


def _check_approver(raw: RawConfig, path: KeyPath, approver: str) -> None:
    parts = approver.split(":", 2)
    if approver == REQUESTER or (len(parts) == 3 and all(parts) and is_plugin(parts[0])):
        return
    raise raw.error(
        path,
        N_("{key} names no person"),
        value=approver,
        allowed=N_('"{requester}", or a person as "platform:account:user"'),
        requester=REQUESTER,
    )


def _warnings(settings: Settings) -> list[str]:
    host = settings.gateway.host
    if host in LOOPBACK:
        return []
    return [
        _(
            "gateway.host is {host}: other machines can reach the listener, and only its token"
            " protects it. Put a proxy with TLS in front of it."
        ).format(host=host)
    ]


def _check_model(raw: RawConfig, path: KeyPath, model: ModelSettings | FallbackModel) -> None:
    _check_url(raw, (*path, "base_url"), model.base_url)
    if model.api_mode is not None and model.api_mode not in PROVIDER_API_MODES[model.provider]:
        allowed = [f'"{mode}"' for mode in PROVIDER_API_MODES[model.provider]]
        raise raw.error(
            (*path, "api_mode"),
            N_('{key} does not fit provider "{provider}"'),
            value=str(model.api_mode),
            allowed=lambda: _(" or ").join(allowed) or _("no api_mode"),
            provider=model.provider,
        )
    if model.provider is Provider.AUTO and (model.api_key or isinstance(model, FallbackModel)):
        raise raw.error(
            (*path, "provider"),
            N_("{key} must name the provider of this model"),
            allowed=lambda: _(" or ").join(
                f'"{each}"' for each in Provider if each is not Provider.AUTO
            ),
        )
    _check_key_given(raw, path, model)
    _check_key_encrypted(raw, path, model)


def _check_key_given(raw: RawConfig, path: KeyPath, model: ModelSettings | FallbackModel) -> None:
    # An address of one's own may be a proxy or a server that asks for no key.
    if model.api_key or model.base_url or model.provider not in KEY_VARIABLES:
        return
    variable = KEY_VARIABLES[model.provider]
    raise raw.error(
        (*path, "api_key"),
        N_('{key} is empty, and provider "{provider}" requires it'),
        fix=N_('write api_key = "env:{variable}" and set {variable} in the .env file of the home'),
        provider=model.provider,
        variable=variable,
    )


def _check_key_encrypted(
    raw: RawConfig, path: KeyPath, model: ModelSettings | FallbackModel
) -> None:
    if not model.api_key or not model.base_url or model.allow_unencrypted:
        return
    from holdfast.core.net import is_readable_on_the_way  # noqa: PLC0415 - few have an own server

    if not is_readable_on_the_way(model.base_url):
        return
    raise raw.error(
        (*path, "base_url"),
        N_(
            "{key} would send the key to another machine without encryption, for everyone on the"
            " network to read"
        ),
        value=model.base_url,
        fix=N_(
            "use https://, or remove api_key if the server needs none; to send it all the same,"
            " set {permission} = true"
        ),
        permission="allow_unencrypted",
    )


def _check_url(raw: RawConfig, path: KeyPath, url: str) -> None:
    if not url:
        return
    problem = _url_problem(url)
    if problem is None:
        return
    safe = re.sub(r"//[^/@]*@", "//…@", url)
    raise raw.error(
        path,
        problem[0],
        value=safe,
        allowed=N_("http://host:port/path or https://host/path"),
        error=problem[1],
    )


def _url_problem(url: str) -> tuple[str, ValueError | None] | None:
    """The message of an error, and its value; None: the address can be used."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - reading it is what checks it
    except ValueError as error:
        return N_("{key} is not a usable address: {error}"), error
    if re.search(r"\s", url):
        return N_("{key} is not a usable address: it contains a space"), None
    if parts.scheme not in ("http", "https"):
        return N_("{key} is not a usable address: it does not begin with http:// or https://"), None
    if not parts.hostname:
        return N_("{key} is not a usable address: it names no host"), None
    if parts.username is not None:
        text = N_(
            "{key} is not a usable address: it contains a user or password; secrets have keys of"
            " their own"
        )
        return text, None
    if parts.query or parts.fragment:
        return N_("{key} is not a usable address: it has a query or fragment"), None
    return None


def _check_host(raw: RawConfig, path: KeyPath, host: str) -> None:
    if not _HOST.fullmatch(host):
        raise raw.error(
            path,
            N_("{key} is not a host"),
            value=host,
            allowed=N_("a name or an address, without scheme and port"),
        )


def _check_name(raw: RawConfig, path: KeyPath, name: str, names: tuple[str, ...]) -> None:
    if name not in names:
        raise raw.error(
            path,
            N_("{key} is a name that Holdfast does not know"),
            value=name,
            allowed=", ".join(names),
            nearest=closest_match(name, names),
        )

"""Secrets by reference: resolves `"env:NAME"` and `"file:path"`."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from holdfast.config.document import RawConfig, read_text
from holdfast.config.environment import mode_warnings
from holdfast.config.errors import ConfigError, KeyPath, config_error, format_key
from holdfast.core.config.settings import (
    FallbackModel,
    ModelSettings,
    PlatformSettings,
    Provider,
    Settings,
    is_secret_key,
)
from holdfast.core.secrets import MIN_SECRET_BITS, Secret, find_passwords, max_entropy_bits
from holdfast.core.text.translation import N_, _

MIN_SECRET_LENGTH = 8
_REFERENCE = re.compile(r"(env):([A-Za-z_][A-Za-z0-9_]*)|(file):(.+)")


class ResolvedSecrets(msgspec.Struct, frozen=True, kw_only=True):
    """Every secret of an enabled part, by its key path as people write it. A password in an address
    of an account is one of them, so that it is removed from logs and replies too."""

    secrets: dict[str, Secret]
    warnings: tuple[str, ...]


class _SecretReference(msgspec.Struct, frozen=True, kw_only=True):
    path: KeyPath
    reference: str
    enabled: bool


def resolve_secrets(
    raw: RawConfig,
    settings: Settings,
    *,
    home: Path,
    variables: Mapping[str, str],
    tolerant: bool = False,
) -> ResolvedSecrets:
    """Raise for a literal secret anywhere, and for a missing one of an enabled part. `tolerant`
    only warns about missing ones."""
    secrets: dict[str, Secret] = {}
    warnings: list[str] = []
    for entry in _secret_references(settings):
        match = _REFERENCE.fullmatch(entry.reference)
        if match is None:
            raise _literal_secret_error(raw, entry.path)
        if not entry.enabled:
            continue
        try:
            if match[1]:
                value = _from_variable(raw, entry.path, match[2], variables)
            else:
                file = home / Path(match[4]).expanduser()
                value = _from_file(raw, entry.path, file)
                warnings += mode_warnings(file)
            _check_strength(raw, entry.path, value)
        except ConfigError as missing:
            if not tolerant:
                raise
            warnings.append(missing.for_person())
        else:
            warnings += _length_warnings(entry.path, value)
            secrets[format_key(entry.path)] = Secret(value)
    secrets |= {format_key(path): Secret(value) for path, value in _url_passwords(settings)}
    return ResolvedSecrets(secrets=secrets, warnings=tuple(warnings))


def _check_strength(raw: RawConfig, path: KeyPath, value: str) -> None:
    """A secret that the operator chooses and that lets others in must not be one to guess."""
    if path != ("platforms", "api", "token") and path[:2] != ("platforms", "webhook"):
        return
    if max_entropy_bits(value) >= MIN_SECRET_BITS:
        return
    raise raw.error(
        path,
        N_("{key} refers to a secret that could be guessed: it has less than {bits} bits"),
        fix=N_("make one with `openssl rand -hex 32`, and give it to the clients or senders too"),
        bits=MIN_SECRET_BITS,
    )


def _length_warnings(path: KeyPath, value: str) -> list[str]:
    if len(value) >= MIN_SECRET_LENGTH:
        return []
    return [
        _(
            "{key} is shorter than {length} characters: too short to be recognised and removed from"
            " logs and replies"
        ).format(key=format_key(path), length=MIN_SECRET_LENGTH)
    ]


def _secret_references(settings: Settings) -> Iterator[_SecretReference]:
    model = settings.model
    entries = [
        _SecretReference(
            path=("model", "api_key"), reference=model.api_key, enabled=_calls_a_provider(model)
        )
    ]
    for index, fallback in enumerate(model.fallbacks):
        path: KeyPath = ("model", "fallbacks", index, "api_key")
        entries.append(
            _SecretReference(
                path=path, reference=fallback.api_key, enabled=_calls_a_provider(fallback)
            )
        )
    otel = settings.otel
    path = ("otel", "header_secret")
    entries.append(
        _SecretReference(path=path, reference=otel.header_secret, enabled=bool(otel.endpoint))
    )
    audit = settings.audit
    path = ("audit", "webhook_secret")
    entries.append(
        _SecretReference(path=path, reference=audit.webhook_secret, enabled=bool(audit.webhook))
    )
    for name, platform in settings.platforms.items():
        entries += _account_references(("platforms", name), platform)
        for account, each in platform.accounts.items():
            entries += _account_references(("platforms", name, "accounts", account), each)
    yield from (entry for entry in entries if entry.reference)


def _url_passwords(settings: Settings) -> Iterator[tuple[KeyPath, str]]:
    """Only of accounts: any other address with a password is refused."""
    for name, platform in settings.platforms.items():
        for path, value in _string_values(msgspec.to_builtins(platform), ("platforms", name)):
            if "@" in value and "://" in value:
                yield from ((path, each) for each in find_passwords(value))


def _string_values(node: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    inside = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in inside:
        if isinstance(value, dict | list | tuple):
            yield from _string_values(value, (*path, key))
        elif isinstance(value, str):
            yield (*path, key), value


def _account_references(path: KeyPath, account: PlatformSettings) -> Iterator[_SecretReference]:
    own = msgspec.to_builtins(msgspec.structs.replace(account, accounts={}))
    for key, reference in _secret_keys(own, path):
        yield _SecretReference(path=key, reference=reference, enabled=account.enabled)


def _secret_keys(node: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """A plugin may have its own tables and lists with secrets in them."""
    return (
        (key, value) for key, value in _string_values(node, path) if is_secret_key(str(key[-1]))
    )


def _calls_a_provider(model: ModelSettings | FallbackModel) -> bool:
    return model.provider not in (Provider.AUTO, Provider.DEMO)


def _from_variable(raw: RawConfig, path: KeyPath, name: str, variables: Mapping[str, str]) -> str:
    value = variables.get(name, "").strip()
    if not value:
        raise raw.error(
            path,
            N_("{key} refers to the environment variable {name}, which is not set"),
            fix=N_("set {name} in the environment or in the .env file of the home"),
            name=name,
        )
    return value


def _from_file(raw: RawConfig, path: KeyPath, file: Path) -> str:
    try:
        value = (read_text(file) or "").strip()
    except ConfigError as error:
        raise config_error(
            raw.location_of(path),
            N_("{key} refers to a file\n{error}"),
            key=format_key(path),
            error=error,
        ) from None
    if not value:
        raise raw.error(
            path,
            N_("{key} refers to the file {file}, which is empty")
            if file.exists()
            else N_("{key} refers to the file {file}, which does not exist"),
            fix=N_("write the secret into {file} and run: chmod 600 {file}"),
            file=file,
        )
    return value


def _literal_secret_error(raw: RawConfig, path: KeyPath) -> ConfigError:
    name = "_".join(str(part) for part in path if part != "platforms").upper()
    return raw.error(
        path,
        N_("{key} is a secret itself, not a reference to one"),
        value="",
        allowed=N_('"env:NAME" or "file:path" (relative to the home)'),
        fix=N_('write "env:{name}" here and set {name} in the .env file of the home, mode 0600'),
        name=name,
    )

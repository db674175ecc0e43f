"""Secrets by reference: `"env:NAME"` and `"file:path"` turned into what they refer to."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from holdfast.config.document import read_text
from holdfast.config.dotenv import mode_warnings
from holdfast.config.draft import Draft
from holdfast.config.errors import ConfigError, KeyPath, dotted, explain
from holdfast.core.config.settings import (
    FallbackModel,
    ModelSettings,
    PlatformSettings,
    Provider,
    Settings,
    holds_secret,
)
from holdfast.core.secret import Secret

SHORTEST = 8
_REFERENCE = re.compile(r"(env):([A-Za-z_][A-Za-z0-9_]*)|(file):(.+)")


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """Every secret of an enabled part, by its key path as people write it; also the password that
    stands in an address of an account, so that it is kept out of logs and replies like the rest."""

    secrets: dict[str, Secret]
    warnings: tuple[str, ...]


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    path: KeyPath
    reference: str
    enabled: bool


def resolve(
    draft: Draft,
    settings: Settings,
    *,
    home: Path,
    variables: Mapping[str, str],
    tolerant: bool = False,
) -> Resolved:
    """Raise for a literal secret anywhere, and for a missing one of an enabled part; `tolerant`
    only warns of those that are missing."""
    secrets: dict[str, Secret] = {}
    warnings: list[str] = []
    for entry in _entries(settings):
        match = _REFERENCE.fullmatch(entry.reference)
        if match is None:
            raise _literal(draft, entry.path)
        if not entry.enabled:
            continue
        try:
            if match[1]:
                value = _from_variable(draft, entry.path, match[2], variables)
            else:
                file = home / Path(match[4]).expanduser()
                value = _from_file(draft, entry.path, file)
                warnings += mode_warnings(file, "holds a secret")
        except ConfigError as missing:
            if not tolerant:
                raise
            warnings.append(str(missing))
        else:
            warnings += _length_warnings(entry.path, value)
            secrets[dotted(entry.path)] = Secret(value)
    secrets |= {dotted(path): Secret(value) for path, value in _in_addresses(settings)}
    return Resolved(secrets=secrets, warnings=tuple(warnings))


def _length_warnings(path: KeyPath, value: str) -> list[str]:
    if len(value) >= SHORTEST:
        return []
    return [
        f"{dotted(path)} is shorter than {SHORTEST} characters: too short to be "
        "recognised, and so to be kept out of logs and replies"
    ]


def _entries(settings: Settings) -> Iterator[_Entry]:
    model = settings.model
    entries = [_Entry(path=("model", "api_key"), reference=model.api_key, enabled=_asks(model))]
    for index, fallback in enumerate(model.fallbacks):
        path: KeyPath = ("model", "fallbacks", index, "api_key")
        entries.append(_Entry(path=path, reference=fallback.api_key, enabled=_asks(fallback)))
    otel = settings.otel
    path = ("otel", "header_secret")
    entries.append(_Entry(path=path, reference=otel.header_secret, enabled=bool(otel.endpoint)))
    for name, platform in settings.platforms.items():
        entries += _of_account(("platforms", name), platform)
        for account, each in platform.accounts.items():
            entries += _of_account(("platforms", name, "accounts", account), each)
    yield from (entry for entry in entries if entry.reference)


def _in_addresses(settings: Settings) -> Iterator[tuple[KeyPath, str]]:
    """Only accounts have such: any other address with a password in it is refused."""
    for name, platform in settings.platforms.items():
        for path, value in _texts(msgspec.to_builtins(platform), ("platforms", name)):
            if "@" in value and "://" in value:
                from holdfast.core.address_passwords import (  # noqa: PLC0415 - few have any
                    passwords_in,
                )

                yield from ((path, each) for each in passwords_in(value))


def _texts(node: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    inside = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in inside:
        if isinstance(value, dict | list | tuple):
            yield from _texts(value, (*path, key))
        elif isinstance(value, str):
            yield (*path, key), value


def _of_account(path: KeyPath, account: PlatformSettings) -> Iterator[_Entry]:
    own = msgspec.to_builtins(msgspec.structs.replace(account, accounts={}))
    for key, reference in _secret_keys(own, path):
        yield _Entry(path=key, reference=reference, enabled=account.enabled)


def _secret_keys(node: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """A door may have tables and lists of its own, with secrets in them."""
    return ((key, value) for key, value in _texts(node, path) if holds_secret(str(key[-1])))


def _asks(model: ModelSettings | FallbackModel) -> bool:
    return model.provider not in (Provider.AUTO, Provider.DEMO)


def _from_variable(draft: Draft, path: KeyPath, name: str, variables: Mapping[str, str]) -> str:
    value = variables.get(name, "").strip()
    if not value:
        raise draft.refuse(
            path,
            f"refers to the environment variable {name}, which is not set",
            fix=f"set {name} in the environment or in the .env file of the home",
        )
    return value


def _from_file(draft: Draft, path: KeyPath, file: Path) -> str:
    try:
        value = (read_text(file) or "").strip()
    except ConfigError as error:
        raise explain(draft.where(path), f"{dotted(path)} refers to a file\n{error}") from None
    if not value:
        problem = "is empty" if file.exists() else "does not exist"
        raise draft.refuse(
            path,
            f"refers to the file {file}, which {problem}",
            fix=f"put the secret into {file} and chmod 600 it",
        )
    return value


def _literal(draft: Draft, path: KeyPath) -> ConfigError:
    name = "_".join(str(part) for part in path if part != "platforms").upper()
    return draft.refuse(
        path,
        "is a secret written out, not a reference to one",
        value="",
        allowed='"env:NAME" or "file:path" (a path is taken from the home)',
        fix=f'write "env:{name}" here and set {name} in the .env file of the home, mode 0600',
    )

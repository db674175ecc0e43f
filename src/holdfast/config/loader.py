"""Loads file, `.env`, environment and command line into one frozen `Config`."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import msgspec

from holdfast.config.document import RawConfig, parse_document, read_document, read_text
from holdfast.config.environment import apply_variables, read_dotenv
from holdfast.config.errors import config_error
from holdfast.config.home import chosen_store, home_warnings
from holdfast.config.platforms import PLATFORMS, check_platforms, convert_platforms
from holdfast.config.rules import check_rules, detect_provider
from holdfast.config.secrets import resolve_secrets
from holdfast.config.validation import check_settings
from holdfast.core.config.settings import Settings
from holdfast.core.config.versions import CONFIG_FILE, ENV_FILE
from holdfast.core.secrets import Secret
from holdfast.core.text.translation import N_

ConfigFingerprint = tuple[tuple[int, int, int], ...]
"""Inode, size and modification time of each file: shows, without reading them, that one changed."""


def config_files(home: Path) -> tuple[Path, ...]:
    return home / CONFIG_FILE, home / ENV_FILE


def fingerprint(files: Iterable[Path]) -> ConfigFingerprint:
    """Differs as soon as one of the files has changed."""
    return tuple(_file_fingerprint(file) for file in files)


def _file_fingerprint(file: Path) -> tuple[int, int, int]:
    try:
        found = file.stat()
    except OSError:
        return 0, 0, 0
    return found.st_ino, found.st_size, found.st_mtime_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The configuration of a gateway: checked, complete and immutable.

    `secrets` are by key path (`model.api_key`, `platforms.api.token`), for enabled parts
    only. `signature` is equal for equal settings and secrets, in every process.
    """

    home: Path
    settings: Settings
    secrets: Mapping[str, Secret]
    warnings: tuple[str, ...]
    signature: str
    origins: Mapping[str, str]  # by key path, for the keys that are set
    crash_at: str = ""  # for fault tests: where the process kills itself
    stall_at: str = ""  # for fault tests: where it is delayed
    store: str = ""  # for tests: the implementation of the store; "": the usual one
    # The environment of the process, for supervisors and successors.
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    overrides: Mapping[str, object] = field(default_factory=dict)  # from the command line
    text: str = field(default="", repr=False)  # of the file
    # Of its files, taken before any was read.
    fingerprint: ConfigFingerprint = field(default=(), repr=False, compare=False)

    def secret(self, path: str) -> Secret | None:
        """The secret a key refers to; None: the key is empty or its part is not enabled."""
        return self.secrets.get(path)


def load(
    home: Path,
    environ: Mapping[str, str] | None = None,
    *,
    overrides: Mapping[str, object] | None = None,
    text: str | None = None,
    tolerant: bool = False,
) -> Config:
    """Read and check everything; raises `ConfigError` for the first error.

    The command line (`overrides`, by key path) overrides the process's environment, which overrides
    `.env`, which overrides the file. Nothing is created or changed. `text` replaces the content of
    the file. `tolerant` only warns about secrets that are not found: a service may have variables
    that this shell does not have.
    """
    environ = os.environ if environ is None else environ
    before = fingerprint(config_files(home))
    dotenv = read_dotenv(home / ENV_FILE)
    path = home / CONFIG_FILE
    raw = RawConfig(read_document(path) if text is None else parse_document(path, text))
    apply_variables(raw, dotenv, environ)
    for key, value in (overrides or {}).items():
        raw.set(tuple(key.split(".")), value, origin="the command line")
    variables = {**dotenv.values, **environ}
    check_settings(raw)
    found = [*check_platforms(raw), *detect_provider(raw, variables)]
    settings = _convert(raw, home)
    warnings = [*home_warnings(home), *dotenv.warnings, *found, *check_rules(raw, settings)]
    resolved = resolve_secrets(raw, settings, home=home, variables=variables, tolerant=tolerant)
    return Config(
        home=home,
        settings=settings,
        secrets=MappingProxyType(resolved.secrets),
        warnings=(*warnings, *resolved.warnings),
        signature=_signature(settings, resolved.secrets),
        origins=MappingProxyType(raw.origins()),
        crash_at=environ.get("HOLDFAST_CRASH_AT", ""),
        stall_at=environ.get("HOLDFAST_STALL_AT", ""),
        store=chosen_store(environ),
        environ=MappingProxyType(dict(environ)),
        overrides=MappingProxyType(dict(overrides or {})),
        text=raw.text,
        fingerprint=before,
    )


def reload_config(config: Config) -> Config:
    """The configuration of the home as it is now, loaded in the same way as `config`."""
    return load(
        config.home, config.environ, overrides=config.overrides, text=read_current_text(config)
    )


def read_current_text(config: Config) -> str:
    """The present text of the file that `config` was loaded from. Raises `ConfigError` where the
    file is gone: a start would use every default, but a running gateway must not drop all its
    accounts and rules because the file was moved."""
    path = config.home / CONFIG_FILE
    text = read_text(path)
    if text is None and config.text:
        raise config_error(
            path,
            N_("it was deleted; the gateway keeps its last content until a restart"),
            fix=N_("put it back; `holdfast config rollback` writes an earlier version"),
        )
    return text or ""


def load_settings(home: Path, environ: Mapping[str, str] | None = None) -> Settings:
    """The settings without secrets, for callers that need none: the variables of a service are not
    set in every shell."""
    raw = RawConfig(read_document(home / CONFIG_FILE))
    dotenv = read_dotenv(home / ENV_FILE)
    apply_variables(raw, dotenv, os.environ if environ is None else environ)
    check_settings(raw)
    check_platforms(raw)
    return _convert(raw, home)


def _convert(raw: RawConfig, home: Path) -> Settings:
    try:
        rest = {key: value for key, value in raw.tree.items() if key != PLATFORMS}
        settings = msgspec.convert(rest, Settings)
    except msgspec.ValidationError as error:
        raise config_error(home / CONFIG_FILE, "{error}", error=error) from None
    return msgspec.structs.replace(settings, platforms=convert_platforms(raw))


def _signature(settings: Settings, secrets: Mapping[str, Secret]) -> str:
    digest = hashlib.sha256(msgspec.json.encode(settings, order="deterministic"))
    for key in sorted(secrets):
        value = hashlib.sha256(secrets[key].reveal().encode()).hexdigest()
        digest.update(f"\n{key}={value}".encode())
    return digest.hexdigest()

"""Loads file, `.env`, environment and command line into one frozen `Config`, and detects changed files."""

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
from holdfast.config.home import home_warnings
from holdfast.config.platforms import PLATFORMS, check_platforms, convert_platforms
from holdfast.config.rules import check_rules, detect_provider
from holdfast.config.schema import check_settings
from holdfast.config.secrets import resolve_secrets
from holdfast.core.config.settings import Settings
from holdfast.core.config.versions import CONFIG_FILE, ENV_FILE
from holdfast.core.secrets import Secret

# MERGED holdfast.config.trace: The trace of a configuration: what tells, without reading them, that its files have changed.
ConfigFingerprint = tuple[tuple[int, int, int], ...]


def config_files(home: Path) -> tuple[Path, ...]:
    return home / CONFIG_FILE, home / ENV_FILE


def fingerprint(files: Iterable[Path]) -> ConfigFingerprint:
    """What is another as soon as one of the files is."""
    return tuple(_file_fingerprint(file) for file in files)


def _file_fingerprint(file: Path) -> tuple[int, int, int]:
    try:
        found = file.stat()
    except OSError:
        return 0, 0, 0
    return found.st_ino, found.st_size, found.st_mtime_ns


# MERGED holdfast.config.loading: Loading: file, `.env`, environment and command line become one frozen Config.
@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What a gateway runs by: checked, complete, and never changed once made.

    `secrets` are by key path (`model.api_key`, `platforms.api.token`) and hold those of enabled
    parts. `signature` is equal for equal settings and secrets, in every process.
    """

    home: Path
    settings: Settings
    secrets: Mapping[str, Secret]
    warnings: tuple[str, ...]
    signature: str
    origins: Mapping[str, str]  # by key path, of the keys that somebody set
    crash_at: str = ""  # the fault tests' own: where the process is to kill itself
    stall_at: str = ""  # theirs too: where it is held up
    # What the process was started with, for those who deal with supervisors and successors.
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    overrides: Mapping[str, object] = field(default_factory=dict)  # what the command line said
    text: str = field(default="", repr=False)  # of the file that it was made of
    fingerprint: ConfigFingerprint = field(
        default=(), repr=False, compare=False
    )  # of its files, before any was read

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
    """Read and check everything; raises `ConfigError` for the first thing that is wrong.

    The command line (`overrides`, by key path) beats the process's environment, which beats
    `.env`, which beats the file. Nothing is created or changed. `text` is what the file is to
    say, in the place of what it says; `tolerant` warns of secrets that are not to be found, for a
    service may have been given what this shell has not.
    """
    environ = os.environ if environ is None else environ
    trace = fingerprint(config_files(home))
    dotenv = read_dotenv(home / ENV_FILE)
    path = home / CONFIG_FILE
    draft = RawConfig(read_document(path) if text is None else parse_document(path, text))
    apply_variables(draft, dotenv, environ)
    for key, value in (overrides or {}).items():
        draft.set(tuple(key.split(".")), value, origin="the command line")
    variables = {**dotenv.values, **environ}
    check_settings(draft)
    told = [*check_platforms(draft), *detect_provider(draft, variables)]
    settings = _convert(draft, home)
    warnings = [*home_warnings(home), *dotenv.warnings, *told, *check_rules(draft, settings)]
    resolved = resolve_secrets(draft, settings, home=home, variables=variables, tolerant=tolerant)
    return Config(
        home=home,
        settings=settings,
        secrets=MappingProxyType(resolved.secrets),
        warnings=(*warnings, *resolved.warnings),
        signature=_signature(settings, resolved.secrets),
        origins=MappingProxyType(draft.origins()),
        crash_at=environ.get("HOLDFAST_CRASH_AT", ""),
        stall_at=environ.get("HOLDFAST_STALL_AT", ""),
        environ=MappingProxyType(dict(environ)),
        overrides=MappingProxyType(dict(overrides or {})),
        text=draft.text,
        fingerprint=trace,
    )


def reload_config(config: Config) -> Config:
    """What the home says now, read as `known` was."""
    return load(
        config.home, config.environ, overrides=config.overrides, text=read_current_text(config)
    )


def read_current_text(config: Config) -> str:
    """What the file says that `known` was made of. Where there was one and is none any more,
    `ConfigError` is raised: a start would take every default, but whoever runs by a file is not to
    drop each account and each rule of it because somebody has moved it away."""
    path = config.home / CONFIG_FILE
    text = read_text(path)
    if text is None and config.text:
        raise config_error(
            str(path),
            "it is gone; what it said last stays in force until a restart",
            fix="put it back: `holdfast config rollback` writes one that was in force",
        )
    return text or ""


def load_settings(home: Path, environ: Mapping[str, str] | None = None) -> Settings:
    """What is set, for those who need no secret: the ones that a service is started with are not
    in every shell."""
    draft = RawConfig(read_document(home / CONFIG_FILE))
    dotenv = read_dotenv(home / ENV_FILE)
    apply_variables(draft, dotenv, os.environ if environ is None else environ)
    check_settings(draft)
    check_platforms(draft)
    return _convert(draft, home)


def _convert(raw: RawConfig, home: Path) -> Settings:
    try:
        rest = {key: value for key, value in raw.tree.items() if key != PLATFORMS}
        settings = msgspec.convert(rest, Settings)
    except msgspec.ValidationError as error:
        raise config_error(str(home / CONFIG_FILE), str(error)) from None
    return msgspec.structs.replace(settings, platforms=convert_platforms(raw))


def _signature(settings: Settings, secrets: Mapping[str, Secret]) -> str:
    digest = hashlib.sha256(msgspec.json.encode(settings, order="deterministic"))
    for key in sorted(secrets):
        value = hashlib.sha256(secrets[key].reveal().encode()).hexdigest()
        digest.update(f"\n{key}={value}".encode())
    return digest.hexdigest()

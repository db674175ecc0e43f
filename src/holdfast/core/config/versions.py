"""The configuration files by name, stored configuration versions, and the reload port.

Must not import the settings: `holdfast status` imports this file.
"""

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

import msgspec

from holdfast.core.ports.command import GatewayCommand

CONFIG_FILE = "holdfast.toml"
ENV_FILE = ".env"

SECRET_MASK = "***"
_TOML_ENTRY = re.compile(
    r"""(?P<key>(?<![\w-])[\w-]+|"[^"\n]*"|'[^'\n]*')(?P<is>\s*=\s*)(?P<value>"{3}[^\0]*?"{3}|'{3}[^\0]*?'{3}"""
    r"""|"(?:[^"\\\n]|\\.)+"|'[^'\n]+')"""
)
_REFERENCES = ("env:", "file:")


class ConfigSource(StrEnum):
    """How a configuration came into force."""

    START = "start"  # the gateway started with it
    RELOAD = "reload"  # a person asked for a reload
    FILE = "file"  # the file was changed
    SET = "set"  # keys were set, by the command line or over the API
    ROLLBACK = "rollback"  # an earlier version was restored


class NewConfigVersion(GatewayCommand[int], frozen=True, kw_only=True):
    """Store a version of the configuration. `text` is that of the file, "" if there is none;
    `changed` are the keys that differ from the previous configuration, as people write them. The
    result is the version's number; a version equal to the last one, in text and signature, is that
    one."""

    at: float
    by: str
    source: ConfigSource
    text: str
    changed: tuple[str, ...] = ()
    signature: str


class ConfigVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A stored configuration. Secrets in its text are masked: such a text cannot be restored."""

    number: int
    at: float
    by: str
    source: ConfigSource
    text: str
    changed: tuple[str, ...] = ()
    signature: str


def mask_secrets(text: str) -> str:
    """The text with every plain secret masked where only a reference is allowed.

    A file with one is refused before it comes into force; this is a second safeguard.
    """
    return _TOML_ENTRY.sub(_mask_entry, text)


def _mask_entry(entry: re.Match[str]) -> str:
    from holdfast.core.config.settings import is_secret_key  # noqa: PLC0415 - see above

    value = entry["value"]
    unquoted = value.strip("\"'").lstrip()
    secret = is_secret_key(entry["key"].strip("\"'")) and not unquoted.startswith(_REFERENCES)
    return f'{entry["key"]}{entry["is"]}"{SECRET_MASK}"' if secret else entry[0]


class ReloadResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a reload. Keys are as people write them. If nothing has changed, the number is
    that of the current version."""

    number: int
    changed: tuple[str, ...] = ()  # in effect now, or after a restart
    accounts: tuple[str, ...] = ()  # "platform:account": reconnected, added or removed
    pending_restart: tuple[str, ...] = ()  # changed keys that need a restart
    warnings: tuple[str, ...] = ()  # valid but unwise settings


class ConfigStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of a running gateway."""

    number: int = 0  # of the current version; 0: not stored yet
    since: float = 0.0  # when it came into force
    pending_restart: tuple[str, ...] = ()  # keys that wait for a restart
    problem: str = ""  # why the file cannot be used; the last valid version applies


class SupportsReload(Protocol):
    @property
    def status(self) -> ConfigStatus: ...

    async def reload(
        self, *, by: str, source: ConfigSource, before_read: Callable[[], None] | None = None
    ) -> ReloadResult:
        """Read the file again and apply it. Raises `ConfigError` with location and remedy; the
        current configuration then stays in effect. Concurrent reloads run one after the other.

        `before_read` is called in a thread right before the file is read. A caller that writes the
        file there is recorded as the author, instead of the file watcher that sees the change.
        """
        ...

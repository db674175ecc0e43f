"""The configuration files by name, stored configuration versions, and the reload port.

Must not import the settings: `holdfast status` imports this file.
"""

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

import msgspec

CONFIG_FILE = "holdfast.toml"
ENV_FILE = ".env"


SECRET_MASK = "***"
_TOML_ENTRY = re.compile(
    r"""(?P<key>(?<![\w-])[\w-]+|"[^"\n]*"|'[^'\n]*')(?P<is>\s*=\s*)(?P<value>"{3}[^\0]*?"{3}|'{3}[^\0]*?'{3}"""
    r"""|"(?:[^"\\\n]|\\.)+"|'[^'\n]+')"""
)
_REFERENCES = ("env:", "file:")


class ConfigSource(StrEnum):
    """By which way a configuration came into force."""

    START = "start"  # a gateway began with it
    RELOAD = "reload"  # somebody asked for the file to be read again
    FILE = "file"  # the file was seen to have changed
    SET = "set"  # keys were set, by the command line or over the API
    ROLLBACK = "rollback"  # an earlier one was put back


class NewConfigVersion(msgspec.Struct, frozen=True, kw_only=True):
    """`text` is the file's, "" where there is none; `changed` are the keys that differ from what
    was in force before it, as people write them."""

    at: float
    by: str
    source: ConfigSource
    text: str
    changed: tuple[str, ...] = ()
    signature: str


class ConfigVersion(NewConfigVersion, frozen=True, kw_only=True):
    """What looks like a secret in its text is hidden: such a text is refused when put back."""

    number: int


def mask_secrets(text: str) -> str:
    """The text with whatever stands where only a reference may stand hidden.

    A file like that is refused before it comes into force; this holds the line should one ever
    be kept in another way.
    """
    return _TOML_ENTRY.sub(_mask_entry, text)


def _mask_entry(entry: re.Match[str]) -> str:
    from holdfast.core.config.settings import is_secret_key  # noqa: PLC0415 - not for who asks for status

    value = entry["value"]
    held = value.strip("\"'").lstrip()
    secret = is_secret_key(entry["key"].strip("\"'")) and not held.startswith(_REFERENCES)
    return f'{entry["key"]}{entry["is"]}"{SECRET_MASK}"' if secret else entry[0]


class ReloadResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of reading the file again. Keys are as people write them; where nothing has
    changed, the number is the one that was in force already."""

    number: int
    changed: tuple[str, ...] = ()  # in force from now on, or waiting
    accounts: tuple[str, ...] = ()  # "platform:account": connected anew, added or let go
    pending_restart: tuple[str, ...] = ()  # keys that differ from what is in force until a restart
    warnings: tuple[str, ...] = ()  # what is allowed there, and unwise


class ConfigStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a running gateway tells of its configuration."""

    number: int = 0  # of the one in force; 0: it is not kept yet
    since: float = 0.0  # when it came into force
    pending_restart: tuple[str, ...] = ()  # keys that wait for a restart
    problem: str = ""  # why the file as it stands now cannot be used; the last good one holds


class SupportsReload(Protocol):
    @property
    def status(self) -> ConfigStatus: ...

    async def reload(
        self, *, by: str, source: ConfigSource, before_read: Callable[[], None] | None = None
    ) -> ReloadResult:
        """Read the file again and put it into force. Raises `ConfigError`, which says place and
        remedy: then what was in force still is. Several at a time are done one after the other.

        `first` is done in a thread when it is this one's turn: whoever writes the file there is
        the one who is told to have brought it, and not whoever saw it change.
        """
        ...

"""A configuration that was in force, as it is kept: numbered, with who brought it and when."""

import re
from enum import StrEnum

import msgspec

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

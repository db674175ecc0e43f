"""Passwords inside of addresses (`https://user:password@host`): found, and hidden where shown."""

import re
from collections.abc import Iterator

HIDDEN = "***"
# What stands before it keeps a long word without an address from being tried at each letter.
_ADDRESS = re.compile(
    r"""(?<![\w+.-])(?P<user>[A-Za-z][\w+.-]*://[^\s/?#@:"']*):(?P<password>[^\s/?#"']+)@"""
)


def without_passwords(text: str) -> str:
    """The text, with the password of each address in it hidden."""
    if "://" not in text:
        return text
    return _ADDRESS.sub(rf"\g<user>:{HIDDEN}@", text)


def passwords_in(text: str) -> Iterator[str]:
    """As they are written there. What hides one is none."""
    for found in _ADDRESS.finditer(text):
        if found["password"] != HIDDEN:
            yield found["password"]


def is_hidden_in(text: str) -> bool:
    """Whether somebody has copied an address from where its password was hidden."""
    return any(found["password"] == HIDDEN for found in _ADDRESS.finditer(text))

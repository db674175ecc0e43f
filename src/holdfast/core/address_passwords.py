"""Passwords inside of addresses (`https://user:password@host`): found, and hidden where shown."""

import re
from collections.abc import Iterator

PASSWORD_MASK = "***"
# What stands before it keeps a long word without an address from being tried at each letter.
_URL_WITH_PASSWORD = re.compile(
    r"""(?<![\w+.-])(?P<user>[A-Za-z][\w+.-]*://[^\s/?#@:"']*):(?P<password>[^\s/?#"']+)@"""
)


def mask_passwords(text: str) -> str:
    """The text, with the password of each address in it hidden."""
    if "://" not in text:
        return text
    return _URL_WITH_PASSWORD.sub(rf"\g<user>:{PASSWORD_MASK}@", text)


def find_passwords(text: str) -> Iterator[str]:
    """As they are written there. What hides one is none."""
    for found in _URL_WITH_PASSWORD.finditer(text):
        if found["password"] != PASSWORD_MASK:
            yield found["password"]


def has_masked_password(text: str) -> bool:
    """Whether somebody has copied an address from where its password was hidden."""
    return any(found["password"] == PASSWORD_MASK for found in _URL_WITH_PASSWORD.finditer(text))

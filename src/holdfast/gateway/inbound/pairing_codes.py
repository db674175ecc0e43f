"""Pairing codes: made, written for people, read from what they type, and hashed."""

import hashlib
import hmac
from collections.abc import Callable

from holdfast.core.people.pairing import ALPHABET, CODE_LENGTH

_SALT = 16
# A code is short, so that to try them all against a copy of the store must be made slow: this
# takes some 10 ms and 4 MB each, there are some 10^12 of them, and they are worth nothing in an
# hour.
_COST = {"n": 1 << 12, "r": 8, "p": 1}

Random = Callable[[int], bytes]
"""So many bytes that nobody can guess."""


def new_code(random: Random) -> str:
    """Bytes that fall beyond a whole number of alphabets are thrown away: each letter is as
    likely as any other."""
    fair = 256 - 256 % len(ALPHABET)
    letters = ""
    while len(letters) < CODE_LENGTH:
        letters += "".join(ALPHABET[byte % len(ALPHABET)] for byte in random(16) if byte < fair)
    return letters[:CODE_LENGTH]


def new_salt(random: Random) -> bytes:
    return random(_SALT)


def shown(code: str) -> str:
    """In two halves, which are easier to read out."""
    return f"{code[:4]}-{code[4:]}"


def read(typed: str) -> str | None:
    """The code that somebody typed, however they wrote it; None: it cannot be one."""
    plain = "".join(typed.split()).replace("-", "").upper()
    good = len(plain) == CODE_LENGTH and set(plain) <= set(ALPHABET)
    return plain if good else None


def hashed(code: str, salt: bytes) -> bytes:
    """Slow by intent: not for the event loop."""
    return hashlib.scrypt(code.encode(), salt=salt, dklen=32, **_COST)


def fits(code: str, salt: bytes, digest: bytes) -> bool:
    """Slow, as `hashed` is."""
    return hmac.compare_digest(hashed(code, salt), digest)

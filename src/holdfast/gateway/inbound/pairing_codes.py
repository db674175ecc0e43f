"""Pairing codes: made, written for people, read from what they type, and hashed."""

import hashlib
import hmac
from collections.abc import Callable

from holdfast.core.people.pairing import CODE_ALPHABET, CODE_LENGTH

_SALT_BYTES = 16
# A code is short, so that to try them all against a copy of the store must be made slow: this
# takes some 10 ms and 4 MB each, there are some 10^12 of them, and they are worth nothing in an
# hour.
_SCRYPT_COST = {"n": 1 << 12, "r": 8, "p": 1}

RandomBytes = Callable[[int], bytes]
"""So many bytes that nobody can guess."""


def new_code(random: RandomBytes) -> str:
    """Bytes that fall beyond a whole number of alphabets are thrown away: each letter is as
    likely as any other."""
    fair = 256 - 256 % len(CODE_ALPHABET)
    letters = ""
    while len(letters) < CODE_LENGTH:
        letters += "".join(
            CODE_ALPHABET[byte % len(CODE_ALPHABET)] for byte in random(16) if byte < fair
        )
    return letters[:CODE_LENGTH]


def new_salt(random: RandomBytes) -> bytes:
    return random(_SALT_BYTES)


def format_code(code: str) -> str:
    """In two halves, which are easier to read out."""
    return f"{code[:4]}-{code[4:]}"


def parse_code(typed: str) -> str | None:
    """The code that somebody typed, however they wrote it; None: it cannot be one."""
    plain = "".join(typed.split()).replace("-", "").upper()
    good = len(plain) == CODE_LENGTH and set(plain) <= set(CODE_ALPHABET)
    return plain if good else None


def hash_code(code: str, salt: bytes) -> bytes:
    """Slow by intent: not for the event loop."""
    return hashlib.scrypt(code.encode(), salt=salt, dklen=32, **_SCRYPT_COST)


def code_matches(code: str, salt: bytes, digest: bytes) -> bool:
    """Slow, as `hashed` is."""
    return hmac.compare_digest(hash_code(code, salt), digest)

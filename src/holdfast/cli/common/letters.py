"""Letters that cannot be read or shown: they are told or replaced, and end no command half-way."""

import io
import os
import sys
from collections.abc import Sequence


def replace_unencodable() -> None:
    """From now on, what this terminal has no letter for is shown as `?`, and what comes in and is
    no text is taken as such a mark. Without it either is an exception wherever it happens to be."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        # Under the C locale bytes are passed in as they are, to fail in the first request.
        if isinstance(stream, io.TextIOWrapper) and (
            stream.errors == "strict" or stream is sys.stdin
        ):
            stream.reconfigure(errors="replace")


def find_undecodable(words: Sequence[str]) -> str | None:
    """The first word of a command line that is no text in the encoding of the shell, with its bytes
    written out; None: all of them are."""
    odd = (os.fsencode(word) for word in words if _has_surrogates(word))
    return next((word.decode("utf-8", "backslashreplace") for word in odd), None)


def can_encode_all(stream: object) -> bool:
    """Whether a stream has a letter for whatever is written to it."""
    return not isinstance(stream, io.TextIOWrapper) or "utf" in stream.encoding.lower()


def _has_surrogates(word: str) -> bool:
    # What could not be decoded stands there as a lone surrogate (PEP 383).
    return any("\udc80" <= letter <= "\udcff" for letter in word)

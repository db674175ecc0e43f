"""Parsing of untrusted JSON, including nesting that is too deep for the interpreter."""

import re
from typing import TypeVar

import msgspec

_MAX_DEPTH = 64  # levels; messages of platforms have far fewer
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]|[\]}]', re.DOTALL)

T = TypeVar("T")


def decode_json(body: bytes | str | msgspec.Raw, *, type: type[T]) -> T:
    """Decode JSON. Raises a `MsgspecError` if it is not of that type, and no other error.

    A value that is nested too deeply for the interpreter reads as null. At worst, one message then
    makes no sense; an answer that contains it is not lost with all the others in it.
    """
    try:
        return msgspec.json.decode(body, type=type)
    except RecursionError:
        whole = body.encode() if isinstance(body, str) else bytes(body)
        return msgspec.json.decode(prune_nesting(whole), type=type)
    except UnicodeError as error:
        raise msgspec.DecodeError(f"it is not text: {error}") from error


def prune_nesting(body: bytes, *, max_depth: int = _MAX_DEPTH) -> bytes:
    """The same JSON with null for every list and object below that level."""
    parts: list[bytes] = []
    depth = done = 0
    for token in _TOKEN.finditer(body):
        if token[0] in (b"[", b"{"):
            depth += 1
            if depth == max_depth + 1:
                parts += (body[done : token.start()], b"null")
                done = len(body)  # until its end is found: without one, it extends to the end
        elif token[0] in (b"]", b"}"):
            if depth == max_depth + 1:
                done = token.end()
            depth -= 1
    return b"".join((*parts, body[done:]))

"""Parsing of untrusted JSON: nesting that the interpreter cannot follow."""

import re
from typing import TypeVar

import msgspec

_MAX_DEPTH = 64  # levels; no message of any vendor has nearly as many
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]|[\]}]', re.DOTALL)

T = TypeVar("T")


def decode_json(body: bytes | str | msgspec.Raw, *, type: type[T]) -> T:
    """Raises a `MsgspecError` where it is not such a thing, and nothing else.

    What is nested deeper than the interpreter can follow reads as null, so that it is at the worst
    one message that makes no sense: an answer that holds it is not lost with all the others in it.
    """
    try:
        return msgspec.json.decode(body, type=type)
    except RecursionError:
        whole = body.encode() if isinstance(body, str) else bytes(body)
        return msgspec.json.decode(prune_nesting(whole), type=type)
    except UnicodeError as error:
        raise msgspec.DecodeError(f"it is no text: {error}") from error


def prune_nesting(body: bytes, *, max_depth: int = _MAX_DEPTH) -> bytes:
    """The same JSON with null for every list and object below that level."""
    parts: list[bytes] = []
    depth = done = 0
    for token in _TOKEN.finditer(body):
        if token[0] in (b"[", b"{"):
            depth += 1
            if depth == max_depth + 1:
                parts += (body[done : token.start()], b"null")
                done = len(body)  # until its end is found: one that has none takes all the rest
        elif token[0] in (b"]", b"}"):
            if depth == max_depth + 1:
                done = token.end()
            depth -= 1
    return b"".join((*parts, body[done:]))

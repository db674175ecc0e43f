"""What carries a command out; `core/people/commands.py` says what there is to carry out."""

import re
from collections.abc import Awaitable
from typing import Protocol

import msgspec

from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import InboxRow, Pointed
from holdfast.core.people.commands import BY_NAME

_SHAPE = re.compile(r"/([a-z][a-z_]*)(?:@\w+)?(?:\s+(.*))?", re.DOTALL | re.IGNORECASE)


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A command as it was typed, by whom, and in which session, if its route has one."""

    row: InboxRow
    argument: str
    session_id: SessionId | None
    late: bool = False  # it was typed before this start
    pointed: Pointed | None = None  # what its commit brought back of the session of its route


class Command(Protocol):
    name: str  # as the table has it

    def begin(self, asked: Asked) -> Awaitable[None]:
        """What must happen at this instant happens before this returns; the rest is awaited.

        Its effect commits together with the end of its inbox row.
        """
        ...


def said_to_agent(text: str) -> str | None:
    """The words of a text that reach the agent; None: it is for the gateway alone."""
    parsed = parse(text)
    if parsed is None:
        return text
    name, argument = parsed
    spec = BY_NAME.get(name)
    return argument if spec is not None and spec.says and argument else None


def parse(text: str) -> tuple[str, str] | None:
    """Name and argument, or None where the text is no command (a path begins with / too)."""
    match = _SHAPE.fullmatch(text.strip())
    return (match[1].lower(), (match[2] or "").strip()) if match else None

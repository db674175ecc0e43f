"""What a slash command is: its parsing, and the protocol of what carries it out.

The command line imports this file: keep it free of the gateway.
"""

import re
from collections.abc import Awaitable
from typing import Protocol

import msgspec

from holdfast.core.commands import COMMANDS_BY_NAME
from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import InboxRow, RouteTarget

_PATTERN = re.compile(r"/([a-z][a-z_]*)(?:@\w+)?(?:\s+(.*))?", re.DOTALL | re.IGNORECASE)


class CommandRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A command as it was typed, by whom, and in which session, if its route has one."""

    row: InboxRow
    argument: str
    session_id: SessionId | None
    late: bool = False  # it was typed before this start
    route_target: RouteTarget | None = (
        None  # what its commit brought back of the session of its route
    )


class Command(Protocol):
    name: str  # as the table has it

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        """What must happen at this instant happens before this returns; the rest is awaited.

        Its effect commits together with the end of its inbox row.
        """
        ...


def text_for_agent(text: str) -> str | None:
    """The words of a text that reach the agent; None: it is for the gateway alone."""
    parsed = parse_command(text)
    if parsed is None:
        return text
    name, argument = parsed
    spec = COMMANDS_BY_NAME.get(name)
    return argument if spec is not None and spec.is_message and argument else None


def parse_command(text: str) -> tuple[str, str] | None:
    """Name and argument, or None where the text is no command (a path begins with / too)."""
    match = _PATTERN.fullmatch(text.strip())
    return (match[1].lower(), (match[2] or "").strip()) if match else None

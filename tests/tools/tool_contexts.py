"""The type of the fixture `new_context`."""

from collections.abc import Callable
from typing import Protocol

from holdfast.core.turns.tool import ToolContext


class NewContext(Protocol):
    """Build the context of the next tool call of one session, or of the call with the given id."""

    def __call__(self, call_id: str = "", progress: Callable[[str], None] = ...) -> ToolContext: ...

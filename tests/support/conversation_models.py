"""A model that has a script of its own for each conversation."""

from holdfast.core.messages.transcript import (
    UserMessage,
)
from holdfast.core.turns.model import ModelRequest
from holdfast.testing.scripted_model import ScriptedModel, ScriptLine


class Cast(ScriptedModel):
    """A model that plays several parts: each conversation has lines of its own, found by a word
    of what it was first asked, and waits where it has none."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: dict[str, ScriptedModel] = {}

    def part(self, word: str) -> ScriptedModel:
        return self._parts.setdefault(word, ScriptedModel())

    async def next_line(self, request: ModelRequest) -> ScriptLine:
        asked = next((m.text for m in request.messages if isinstance(m, UserMessage)), "")
        word = next((word for word in self._parts if word in asked), "")
        return await (self._parts[word].next_line(request) if word else super().next_line(request))

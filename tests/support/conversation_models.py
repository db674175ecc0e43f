"""A model that has a script of its own for each conversation."""

from holdfast.core.messages.transcript import UserMessage
from holdfast.core.turns.model import ModelRequest
from holdfast.testing.scripted_model import ScriptedModel, ScriptLine


class PerConversationModel(ScriptedModel):
    """A model with a script per conversation, found by a word of its first message; without a
    line left, the conversation waits."""

    def __init__(self) -> None:
        super().__init__()
        self._models: dict[str, ScriptedModel] = {}

    def model_for(self, word: str) -> ScriptedModel:
        return self._models.setdefault(word, ScriptedModel())

    async def next_line(self, request: ModelRequest) -> ScriptLine:
        asked = next((m.text for m in request.messages if isinstance(m, UserMessage)), "")
        word = next((word for word in self._models if word in asked), "")
        return await (self._models[word].next_line(request) if word else super().next_line(request))

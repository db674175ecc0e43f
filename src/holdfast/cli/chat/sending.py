"""Sending: each message reaches the gateway once, however often it has to be tried."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from holdfast.core.messages.inbox import OPEN_STATES, BusyMode
from holdfast.gateway.commands.command import text_for_agent
from holdfast.server.api.api_client import ApiClient
from holdfast.server.api.views.message_views import MessageView, NewMessage
from holdfast.server.local.client import GatewayDown


@dataclass(kw_only=True)
class TypedMessage:
    """A message that was typed; `id` is the gateway's name for it, once it has it."""

    message: NewMessage
    id: int | None = None
    answers_approval: bool = (
        False  # a question of the gateway's own, and so it says nothing to the agent
    )

    @property
    def is_command(self) -> bool:
        return self.answers_approval or text_for_agent(self.message.text) is None


class ChatOutbox:
    """Owns what was typed and has not ended. `new_id` makes the names that keep a message one."""

    def __init__(self, api: ApiClient, *, mode: BusyMode | None, new_id: Callable[[], str]) -> None:
        self._api = api
        self._mode = mode
        self._new_id = new_id
        self._open: list[TypedMessage] = []

    @property
    def has_open(self) -> bool:
        """Something was said that has no end yet."""
        return bool(self._open)

    @property
    def unsent(self) -> list[str]:
        return [sent.message.text for sent in self._open if sent.id is None]

    def add(self, text: str, *, answers_approval: bool = False) -> None:
        message = NewMessage(text=text, message_id=self._new_id(), mode=self._mode)
        self._open.append(TypedMessage(message=message, answers_approval=answers_approval))

    def send(self, session_id: str) -> None:
        """Send what the gateway does not have yet, in order; what raises is kept for next time."""
        for sent in self._open:
            if sent.id is None:
                sent.id = self._api.send_message(session_id, sent.message).id

    def drop_unsent(self) -> None:
        self._open = [sent for sent in self._open if sent.id is not None]

    def take_ended(self) -> Iterator[tuple[TypedMessage, MessageView]]:
        """The messages that have ended meanwhile, each with what became of it, once."""
        for sent in tuple(self._open):
            if sent.id is None:
                continue
            try:
                view = self._api.read_message(sent.id)
            except GatewayDown:
                return  # the next connection asks again
            if view.state not in OPEN_STATES:
                self._open.remove(sent)
                yield sent, view

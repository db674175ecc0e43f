"""Tells those who wait for a message, and those who look at its session, that it has ended."""

from collections.abc import Callable
from typing import Any

from holdfast.core.messages.events import MessageEnded
from holdfast.core.ports.command import Committed
from holdfast.core.ports.store_commands import RecordSteer
from holdfast.core.sessions.session import CommandEffect
from holdfast.core.turns.turn import EndTurn
from holdfast.gateway.committed import committed_deliveries, ended_messages, final_text
from holdfast.gateway.live.feeds import SessionFeeds
from holdfast.gateway.live.subscriptions import MessageSubscriptions


class MessageEnds:
    """Publishes the ends of messages, each after its commit. Owns nothing."""

    def __init__(
        self,
        subscriptions: MessageSubscriptions,
        feeds: SessionFeeds,
        *,
        redact: Callable[[str], str],
    ) -> None:
        self._subscriptions = subscriptions
        self._feeds = feeds
        self._redact = redact

    def on_committed(self, event: Committed) -> None:
        command = event.command
        turn: dict[str, Any] = {"session_id": command.scope.session_id}
        if isinstance(command, EndTurn):
            turn |= {"turn_id": command.turn_id, "usage": command.usage}
        elif isinstance(command, RecordSteer):
            turn["turn_id"] = command.turn_id
            self._subscriptions.merge(command.inbox_id, into=command.into)
        elif isinstance(command, CommandEffect) and event.result.resubmitted is not None:
            # The subscribers of the command get the reply to the message that it resubmitted.
            resubmitted = event.result.resubmitted.id
            self._subscriptions.open(resubmitted)
            for end in command.inbox_ends:
                self._subscriptions.merge(end.inbox_id, into=resubmitted)
        final = final_text(event)
        texts = {
            each.inbox_id: final if each.text is None else each.text
            for each in committed_deliveries(event)
        }
        for end in ended_messages(event):
            ended = MessageEnded(
                end.inbox_id,
                end.state,
                self._redact(texts.get(end.inbox_id, "")),
                reason=end.reason,
                **turn,
            )
            self._subscriptions.end(ended)
            self._feeds.message_ended(ended)

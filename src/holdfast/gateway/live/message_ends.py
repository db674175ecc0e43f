"""Tells the subscribers of a message, and the readers of its session, that it has ended."""

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


def publish_message_ends(
    subscriptions: MessageSubscriptions,
    feeds: SessionFeeds,
    redact: Callable[[str], str],
    event: Committed,
) -> None:
    """Publish the ends of messages that a commit has written."""
    command = event.command
    turn: dict[str, Any] = {"session_id": command.scope.session_id}
    if isinstance(command, EndTurn):
        turn |= {"turn_id": command.turn_id, "usage": command.usage}
    elif isinstance(command, RecordSteer):
        turn["turn_id"] = command.turn_id
        subscriptions.merge(command.inbox_id, into=command.into)
    elif isinstance(command, CommandEffect) and event.result.resubmitted is not None:
        # The subscribers of the command get the reply to the message that it resubmitted.
        resubmitted = event.result.resubmitted.id
        subscriptions.open(resubmitted)
        for end in command.inbox_ends:
            subscriptions.merge(end.inbox_id, into=resubmitted)
    final = final_text(event)
    texts = {
        each.inbox_id: final if each.text is None else each.text
        for each in committed_deliveries(event)
    }
    for end in ended_messages(event):
        ended = MessageEnded(
            end.inbox_id,
            end.state,
            redact(texts.get(end.inbox_id, "")),
            reason=end.reason,
            **turn,
        )
        subscriptions.end(ended)
        feeds.message_ended(ended)

"""Publishes what a commit ended: to subscribers, feeds and reactions, and to the outbox."""

from collections.abc import Iterable

from holdfast.core.ids import SessionId, TurnId
from holdfast.core.messages.events import MessageEnded
from holdfast.core.messages.inbox import InboxEnd
from holdfast.core.messages.outbox import NewDelivery
from holdfast.core.messages.transcript import AssistantMessage
from holdfast.core.turns.turn import NO_USAGE, EndTurn, Usage
from holdfast.gateway.live.feeds import SessionFeeds
from holdfast.gateway.live.subscriptions import MessageSubscriptions
from holdfast.gateway.outbound.outbox import OutboxWorker
from holdfast.gateway.outbound.reactions import WaitingReactions
from holdfast.gateway.redaction import Redaction


class PostCommitPublisher:
    """Tells the ends of messages, after they are durable and never before."""

    def __init__(
        self,
        subscriptions: MessageSubscriptions,
        outbox: OutboxWorker,
        *,
        feeds: SessionFeeds,
        reactions: WaitingReactions,
        redact: Redaction,
    ) -> None:
        self._subscriptions = subscriptions
        self._outbox = outbox
        self._feeds = feeds
        self._reactions = reactions
        self._redact = redact

    def turn_ended(self, end: EndTurn) -> None:
        last = end.messages[-1] if end.messages else None
        final = last.text if isinstance(last, AssistantMessage) else ""
        self.messages_ended(
            end.inbox_ends,
            end.deliveries,
            final=final,
            turn_id=end.turn_id,
            session_id=end.session_id,
            usage=end.usage,
        )

    def messages_ended(
        self,
        ends: Iterable[InboxEnd],
        deliveries: Iterable[NewDelivery],
        *,
        final: str = "",
        turn_id: TurnId | None = None,
        session_id: SessionId | None = None,
        usage: Usage = NO_USAGE,
    ) -> None:
        deliveries = tuple(deliveries)
        self._outbox.enqueue_committed(deliveries, final)
        texts = {d.inbox_id: final if d.text is None else d.text for d in deliveries}
        for end in ends:
            ended = MessageEnded(
                end.inbox_id,
                end.state,
                self._redact(texts.get(end.inbox_id, "")),
                turn_id=turn_id,
                session_id=session_id,
                usage=usage,
                reason=end.reason,
            )
            self._subscriptions.end(ended)
            self._feeds.message_ended(ended)
            self._reactions.remove(end.inbox_id)

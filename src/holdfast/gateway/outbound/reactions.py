"""Tracks which queued messages carry our 👀 reaction until their turn begins."""

import asyncio

from holdfast.core.ids import InboxId
from holdfast.core.messages.inbox import BusyMode, InboxRow
from holdfast.core.messages.outbox import Address
from holdfast.core.messages.source import Author
from holdfast.core.ports.command import Committed
from holdfast.core.ports.platform import SupportsReactions
from holdfast.core.ports.runtime import Clock
from holdfast.core.turns.turn import BeginTurn
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.gateway.committed import ended_messages
from holdfast.gateway.outbound.best_effort import Reaction
from holdfast.gateway.outbound.delivery import reply_address
from holdfast.gateway.outbound.outbox import OutboxWorker
from holdfast.gateway.outbound.quiet_chats import QuietChats


class WaitingReactions:
    """Owns the reactions on waiting messages, from when they start to wait until their turn begins
    or they end, and the time until which an account should get none."""

    def __init__(
        self,
        platforms: PlatformRegistry,
        outbox: OutboxWorker,
        *,
        quiet_chats: QuietChats,
        clock: Clock,
    ) -> None:
        self._platforms = platforms
        self._outbox = outbox
        self._quiet_chats = quiet_chats
        self._clock = clock
        self._reactions: dict[InboxId, Reaction] = {}
        self._cool_down_until: dict[tuple[str, str], float] = {}

    def add(self, row: InboxRow, *, maybe_set: bool) -> None:
        """Set a reaction on a message that waits. `maybe_set`: its decision was stored before, so
        an earlier process may have set the reaction. A reaction that cannot be set at once is
        skipped."""
        if row.id in self._reactions or not self._may_react(row):
            return
        reaction = self._track(row, is_set=maybe_set)
        address = reaction.address
        if self._outbox.allows_best_effort(address) and not self._is_cooling_down(address):
            self._outbox.enqueue_reaction(reaction)

    def track_recovered(self, row: InboxRow) -> None:
        """Track a recovered message that waits while no turn runs. Its stored decision is the only
        evidence of a reaction that an earlier process may have set."""
        waited = row.decision in (BusyMode.QUEUE, BusyMode.STEER)
        if waited and row.id not in self._reactions and self._is_from_person(row):
            self._track(row, is_set=True)

    def on_committed(self, event: Committed) -> None:
        """Remove the reactions of messages whose turn has begun or that have ended."""
        if not self._reactions:
            return
        if isinstance(event.command, BeginTurn):
            for inbox_id in event.command.inbox_ids:
                self.remove(inbox_id)
        for end in ended_messages(event):
            self.remove(end.inbox_id)

    def remove(self, inbox_id: InboxId) -> None:
        """Remove the reaction of a message that no longer waits, for whatever reason."""
        if (reaction := self._reactions.pop(inbox_id, None)) is not None:
            reaction.withdraw()
            if reaction.due:
                self._outbox.enqueue_reaction(reaction)

    def _track(self, row: InboxRow, *, is_set: bool) -> Reaction:
        message_id = row.inbound.message_id
        reaction = Reaction(reply_address(row), message_id, is_set=is_set, on_error=self._on_error)
        self._reactions[row.id] = reaction
        return reaction

    def _on_error(self, reaction: Reaction, seconds: float) -> None:
        account = (reaction.address.platform, reaction.address.account)
        until = self._clock.monotonic() + seconds
        self._cool_down_until[account] = max(until, self._cool_down_until.get(account, 0.0))
        for each in self._reactions.values():
            if self._is_cooling_down(each.address):
                each.skip()
        # A reaction that is not removed would claim that the message still waits.
        if not reaction.desired and reaction.due:
            asyncio.get_running_loop().call_later(seconds, self._outbox.enqueue_reaction, reaction)

    def _is_cooling_down(self, address: Address) -> bool:
        until = self._cool_down_until.get((address.platform, address.account), 0.0)
        return self._clock.monotonic() < until

    def _may_react(self, row: InboxRow) -> bool:
        source = row.inbound.source
        can = self._platforms.capabilities_of(source.platform, source.account)
        return (
            can.reactions and self._is_from_person(row) and not self._quiet_chats.is_quiet(source)
        )

    def _is_from_person(self, row: InboxRow) -> bool:
        """Whether a person sent the message, so that it can carry a reaction. Messages of jobs,
        subagents and the operator do not exist on the platform."""
        inbound = row.inbound
        if inbound.note or inbound.run is not None or inbound.source.author is Author.OPERATOR:
            return False
        platform = self._platforms.find(reply_address(row))
        return isinstance(platform, SupportsReactions) and not platform.capabilities.fetchable

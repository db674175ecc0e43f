"""Output that may be dropped: typing indicators and reactions, tried once and never stored."""

import asyncio
import logging
from collections.abc import Callable
from enum import Enum, auto
from typing import Protocol

from holdfast.core.errors import NotConnected, SendError, SendRejected, StoreError, Throttled
from holdfast.core.messages.outbox import Address
from holdfast.core.ports.capabilities import WAITING_REACTION
from holdfast.core.ports.platform import Platform, SupportsReactions, SupportsTyping
from holdfast.core.retry import MAX_REACTION_REMOVALS, REACTION_RETRY
from holdfast.gateway.outbound.rate_limit import SendGate
from holdfast.gateway.outbound.sender import PlatformErrorBoundary, Sender

log = logging.getLogger(__name__)


_TYPING_INTERVAL = 4.0  # seconds: platforms show it for five or more
_TYPING_TIMEOUT = 2.0  # seconds that a finished reply waits for it at most
_REACTION_TIMEOUT = 2.0  # seconds that a new delivery waits for it at most


class BestEffortOutput(Protocol):
    """Best-effort output for one chat. It is queued like a delivery, and only while no delivery is
    pending."""

    address: Address

    async def show(self, sender: Sender, platform: Platform, send_gate: SendGate) -> None:
        """Show it, with one attempt. Raises no `SendError`: there would be no retry."""
        ...


class TypingIndicator:
    """Shows "typing" in a chat while a turn runs. Owns the timer of its next display."""

    def __init__(self, address: Address, *, show: Callable[["TypingIndicator"], bool]) -> None:
        self.address = address
        self._show = show
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._show(self)
        self._timer = asyncio.get_running_loop().call_later(_TYPING_INTERVAL, self.start)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def show(self, sender: Sender, platform: Platform, send_gate: SendGate) -> None:
        if self._timer is None or not isinstance(platform, SupportsTyping):
            return
        try:
            async with asyncio.timeout(_TYPING_TIMEOUT):
                with PlatformErrorBoundary(platform):
                    await platform.show_typing(self.address)
        except (Throttled, NotConnected) as error:
            send_gate.record_blocked(error)
        except (SendError, StoreError, TimeoutError) as error:
            about = {"action": "typing_failed"}
            log.debug("Could not show the typing indicator: %s", error, extra=about)


class ReactionState(Enum):
    """What is known of a reaction."""

    UNTRIED = auto()  # it may be set, with one attempt
    SET = auto()  # it is set, or may be
    NOT_SET = auto()  # removed, refused or skipped: it is not set again


class Reaction:
    """One 👀 reaction: its desired state and its last known state. Not persisted. Set with one
    attempt, removed with at most two."""

    def __init__(
        self,
        address: Address,
        message_id: str,
        *,
        is_set: bool,
        on_error: Callable[["Reaction", float], None],
    ) -> None:
        """`is_set`: an earlier process may have set it. `on_error` is called with the number of
        seconds for which its account should get no reactions."""
        self.address = address
        self.desired = True
        self._message_id = message_id
        self._state = ReactionState.SET if is_set else ReactionState.UNTRIED
        self._on_error = on_error
        self._removals_left = MAX_REACTION_REMOVALS

    @property
    def due(self) -> bool:
        """Whether an attempt is due. A reaction that was never set need not be removed."""
        if self.desired:
            return self._state is ReactionState.UNTRIED
        return self._state is ReactionState.SET and self._removals_left > 0

    def withdraw(self) -> None:
        """Mark it for removal; one that was never set stays unset."""
        self.desired = False

    def skip(self) -> None:
        """Do not set it any more, unless an attempt has begun."""
        if self._state is ReactionState.UNTRIED:
            self._state = ReactionState.NOT_SET

    async def apply(self, platform: Platform, send_gate: SendGate) -> None:
        """Set or remove it, whichever is desired now, with one attempt. Raises no `SendError`."""
        if not self.due or not platform.capabilities.reactions:
            return
        if not isinstance(platform, SupportsReactions):
            return
        emoji = WAITING_REACTION if self.desired else None
        done, refused = ReactionState.SET, ReactionState.NOT_SET
        if emoji is None:
            done, refused = refused, done
            self._removals_left -= 1
        self._state = done  # also if the outcome is unknown
        try:
            async with asyncio.timeout(_REACTION_TIMEOUT):
                with PlatformErrorBoundary(platform):
                    await platform.react(self.address, self._message_id, emoji)
        except Throttled as error:
            self._state = refused
            # Otherwise the limit is about reactions, and does not delay replies.
            if error.whole_account:
                send_gate.record_blocked(error)
            self._report(error, error.retry_after)
        except (NotConnected, SendRejected) as error:
            self._state = refused if isinstance(error, NotConnected) else ReactionState.NOT_SET
            self._report(error)
        except (SendError, StoreError, TimeoutError) as error:
            self._report(error, REACTION_RETRY.wait(0))

    def _report(self, error: Exception, cool_down: float = 0.0) -> None:
        about = {"action": "reaction_failed"}
        log.debug("Could not set or remove a reaction: %s", error, extra=about)
        self._on_error(self, cool_down)

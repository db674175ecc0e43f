"""Output that may be dropped: typing indicators and reactions, tried once and never stored."""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from holdfast.core.errors import NotConnected, SendError, SendRejected, Throttled
from holdfast.core.messages.outbox import Address
from holdfast.core.ports.capabilities import WAITING_REACTION
from holdfast.core.ports.platform import Platform, SupportsReactions, SupportsTyping
from holdfast.gateway.outbound.rate_limit import SendGate
from holdfast.gateway.outbound.sender import PartSender, PlatformErrorBoundary

log = logging.getLogger(__name__)


# MERGED holdfast.gateway.outbound.passing: Passing: what is shown in a chat and owed to nobody, so that it may be left out.
class BestEffortOutput(Protocol):
    """Stands in the queue of its chat like anything that is sent there, when that is empty."""

    address: Address

    async def send(self, part_sender: PartSender, platform: Platform, send_gate: SendGate) -> None:
        """Show it, in one try. Raises no `SendError`: nobody could make it good."""
        ...


# MERGED holdfast.gateway.outbound.typist: The typist: shows in a chat that an answer is being written, for as long as its turn runs.
_TYPING_INTERVAL = 4.0  # seconds: platforms show it for five or more
_TYPING_TIMEOUT = 2.0  # a reply that is ready does not wait longer for this


class TypingIndicator:
    """Owns when it is shown next. It has no row: what is not shown now is not shown later."""

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

    async def send(self, part_sender: PartSender, platform: Platform, send_gate: SendGate) -> None:
        if self._timer is None or not isinstance(platform, SupportsTyping):
            return
        try:
            async with asyncio.timeout(_TYPING_TIMEOUT):
                with PlatformErrorBoundary(platform):
                    await platform.show_typing(self.address)
        except (Throttled, NotConnected) as error:
            send_gate.record_blocked(error)
        except (SendError, TimeoutError) as error:
            log.debug("Typing is not shown: %s", error, extra={"action": "typing_failed"})


# MERGED holdfast.gateway.outbound.sign: A sign on a person's message, for as long as it waits: it was seen.
_REACTION_TIMEOUT = 2.0  # seconds: what comes to be owed meanwhile does not wait longer for this
_REACTION_COOL_DOWN = 60.0  # seconds without signs, for an account that took longer


class Reaction:
    """Owns whether it is to stand there, and whether it does, as far as is known. It has no row: it
    is put there in one try, and taken back in one, or a second where the first was to wait."""

    def __init__(
        self,
        address: Address,
        message_id: str,
        *,
        is_set: bool,
        on_error: Callable[["Reaction", float], None],
    ) -> None:
        """`stands`: an earlier process may have put it there. `trouble` is told for how many
        seconds its account wants no signs."""
        self.address = address
        self.wanted = True
        self._message_id = message_id
        self._is_set = is_set
        self._on_error = on_error
        self._untried = not is_set  # it was not tried yet
        self._removals_left = 2  # that are left to take it back

    @property
    def due(self) -> bool:
        """Whether there is anything to do: what was never put there need not be taken back."""
        return self._untried if self.wanted else self._is_set and self._removals_left > 0

    def skip(self) -> None:
        """It is not put any more, where that has not begun."""
        self._untried = False

    async def apply(self, platform: Platform, send_gate: SendGate) -> None:
        """Make of it what is wanted now, in one call. Raises no `SendError`."""
        if not self.due or not platform.capabilities.reactions:
            return
        if not isinstance(platform, SupportsReactions):
            return
        before, self._is_set = self._is_set, self.wanted  # where nobody knows, it was done
        sign, self._untried = WAITING_REACTION if self.wanted else None, False
        self._removals_left -= sign is None
        try:
            async with asyncio.timeout(_REACTION_TIMEOUT):
                with PlatformErrorBoundary(platform):
                    await platform.react(self.address, self._message_id, sign)
        except Throttled as error:
            self._is_set = before
            if error.whole_account:  # else it is meant for signs, and replies go on
                send_gate.record_blocked(error)
            self._report(error, error.retry_after)
        except (NotConnected, SendRejected) as error:
            self._is_set = before and isinstance(error, NotConnected)
            self._report(error)
        except (SendError, TimeoutError) as error:
            self._report(error, _REACTION_COOL_DOWN)

    def _report(self, error: Exception, cool_down: float = 0.0) -> None:
        log.debug("A sign is not as it should be: %s", error, extra={"action": "reaction_failed"})
        self._on_error(self, cool_down)

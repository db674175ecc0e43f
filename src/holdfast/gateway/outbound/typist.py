"""The typist: shows in a chat that an answer is being written, for as long as its turn runs."""

import asyncio
import logging
from collections.abc import Callable

from holdfast.core.errors import NotConnected, SendError, Throttled
from holdfast.core.messages.outbox import Address
from holdfast.core.ports.protocols import Platform, SupportsTyping
from holdfast.gateway.outbound.door_edge import PlatformErrorBoundary
from holdfast.gateway.outbound.posting import PartSender
from holdfast.gateway.outbound.way import SendGate

log = logging.getLogger(__name__)

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

"""A sign on a person's message, for as long as it waits: it was seen."""

import asyncio
import logging
from collections.abc import Callable

from holdfast.core.errors import NotConnected, Refused, SendError, Throttled
from holdfast.core.messages.outbox import Address
from holdfast.core.ports.protocols import Platform, Reacting
from holdfast.core.ports.signs import SEEN
from holdfast.gateway.outbound.door_edge import DoorEdge
from holdfast.gateway.outbound.way import Way

log = logging.getLogger(__name__)

_PATIENCE = 2.0  # seconds: what comes to be owed meanwhile does not wait longer for this
_PEACE = 60.0  # seconds without signs, for an account that took longer


class Sign:
    """Owns whether it is to stand there, and whether it does, as far as is known. It has no row: it
    is put there in one try, and taken back in one, or a second where the first was to wait."""

    def __init__(
        self,
        address: Address,
        message_id: str,
        *,
        stands: bool,
        trouble: Callable[["Sign", float], None],
    ) -> None:
        """`stands`: an earlier process may have put it there. `trouble` is told for how many
        seconds its account wants no signs."""
        self.address = address
        self.wanted = True
        self._message_id = message_id
        self._stands = stands
        self._trouble = trouble
        self._put_it = not stands  # it was not tried yet
        self._tries = 2  # that are left to take it back

    @property
    def due(self) -> bool:
        """Whether there is anything to do: what was never put there need not be taken back."""
        return self._put_it if self.wanted else self._stands and self._tries > 0

    def leave_out(self) -> None:
        """It is not put any more, where that has not begun."""
        self._put_it = False

    async def put(self, platform: Platform, way: Way) -> None:
        """Make of it what is wanted now, in one call. Raises no `SendError`."""
        if not self.due or not platform.capabilities.reactions:
            return
        if not isinstance(platform, Reacting):
            return
        before, self._stands = self._stands, self.wanted  # where nobody knows, it was done
        sign, self._put_it = SEEN if self.wanted else None, False
        self._tries -= sign is None
        try:
            async with asyncio.timeout(_PATIENCE):
                with DoorEdge(platform):
                    await platform.react(self.address, self._message_id, sign)
        except Throttled as error:
            self._stands = before
            if error.whole_account:  # else it is meant for signs, and replies go on
                way.blocked(error)
            self._tell(error, error.retry_after)
        except (NotConnected, Refused) as error:
            self._stands = before and isinstance(error, NotConnected)
            self._tell(error)
        except (SendError, TimeoutError) as error:
            self._tell(error, _PEACE)

    def _tell(self, error: Exception, peace: float = 0.0) -> None:
        log.debug("A sign is not as it should be: %s", error, extra={"action": "sign"})
        self._trouble(self, peace)

"""The pulse: one timer that keeps all open streams from looking dead."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.gateway.live.feeds import GatewayChanges, SessionFeed, ShutdownListener

KEEPALIVE_INTERVAL = 15.0  # seconds after which a proxy might think that nobody is there

StreamSubscription = SessionFeed | GatewayChanges | ShutdownListener  # of an open stream


class StreamKeepalive:
    """Owns the timer, which runs while a stream is open; a stream costs it a place in a set."""

    def __init__(self, *, interval: float = KEEPALIVE_INTERVAL) -> None:
        self._interval = interval
        self._subscriptions: set[StreamSubscription] = set()
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def track(self, subscription: StreamSubscription) -> Iterator[None]:
        self._subscriptions.add(subscription)
        if self._timer is None:
            self._schedule()
        try:
            yield
        finally:
            self._subscriptions.discard(subscription)
            if not self._subscriptions and self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _schedule(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._interval, self._send_keepalives)

    def _send_keepalives(self) -> None:
        for reader in self._subscriptions:
            reader.keepalive_due = True
            reader.wake.set()
        self._schedule()

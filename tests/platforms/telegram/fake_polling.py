"""getUpdates of the fake Bot API: one poller at a time."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from tests.platforms.telegram.fake import FakeTelegram, Json
from tests.platforms.telegram.faults import conflict

# tdlib/telegram-bot-api, Client::abort_long_poll: who waits is turned away by who comes after.
OTHER_POLLER = (
    "terminated by other getUpdates request; make sure that only one bot instance is running"
)


class FakePolling:
    """Owns who waits for updates now."""

    def __init__(self, vendor: FakeTelegram) -> None:
        self._vendor = vendor
        self._waiting: asyncio.Future[None] | None = None
        self.turns = 0  # polls that have begun

    async def get_updates(self, args: Mapping[str, Any]) -> Sequence[Json]:
        """https://core.telegram.org/bots/api#getupdates; `limit`: "Values between 1-100 are
        accepted. Defaults to 100"; `timeout`: "Defaults to 0, i.e. usual short polling"."""
        if self._vendor.webhook["url"]:
            # "This method will not work if an outgoing webhook is set up."
            raise conflict(
                "can't use getUpdates method while webhook is active; use deleteWebhook to "
                "delete the webhook first"
            )
        self.turns += 1
        updates = self._vendor.updates
        if args.get("allowed_updates") is not None:
            updates.allowed = frozenset(args["allowed_updates"])
        if offset := int(args.get("offset") or 0):
            updates.confirm(offset)
        limit = min(max(int(args.get("limit") or 100), 1), 100)
        if not updates.waiting and float(args.get("timeout") or 0):
            await self._wait(float(args["timeout"]))
        return updates.waiting[:limit]

    def turn_away(self, why: str) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(conflict(why))

    async def _wait(self, seconds: float) -> None:
        self.turn_away(OTHER_POLLER)
        mine = self._waiting = asyncio.get_running_loop().create_future()
        updates = self._vendor.updates
        updates.changed.clear()
        changed = asyncio.ensure_future(updates.changed.wait())
        try:
            await asyncio.wait({mine, changed}, timeout=seconds, return_when="FIRST_COMPLETED")
            if mine.done():
                mine.result()
        finally:
            changed.cancel()
            mine.cancel()

"""Builds an IRC platform for a test server, and the messages that tests send with it."""

import asyncio
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, Outbound
from holdfast.core.ports.runtime import Clock
from holdfast.core.secrets import Secret
from holdfast.platforms.irc.platform import IrcPlatform
from holdfast.platforms.irc.plugin import IrcSettings
from holdfast.system.clock import SystemClock

_NUMBERS = count(1)


def settings_for(port: int, **more: Any) -> IrcSettings:
    """Settings for a test server, which has no flood limit."""
    return IrcSettings(
        **{"host": "127.0.0.1", "port": port, "tls": False, "line_seconds": 0.0, **more}
    )


class AdvancingClock(SystemClock):
    """A clock that a test moves forward with `passed`."""

    passed = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.passed


def new_platform(
    settings: IrcSettings,
    folder: Path,
    *,
    ping: float = 30.0,
    timeout: float = 30.0,
    clock: Clock | None = None,
    **secrets: str,
) -> IrcPlatform:
    return IrcPlatform(
        {key: Secret(value) for key, value in secrets.items()},
        account="default",
        settings=settings,
        folder=folder,
        clock=clock or SystemClock(),
        new_id=lambda prefix: f"{prefix}_{next(_NUMBERS)}",
        ping_interval=ping,
        timeout=timeout,
    )


def address(chat: str, **more: Any) -> Address:
    return Address(platform="irc", account="default", chat_id=chat, **more)


def outbound(text: str, chat: str, *, delivery: str = "d1", **more: Any) -> Outbound:
    return Outbound(delivery_id=DeliveryId(delivery), address=address(chat), text=text, **more)


async def until(fact: Callable[[], object]) -> None:
    """Wait for what another task does; the test's own timeout ends a wait for nothing."""
    while not fact():
        await asyncio.sleep(0.005)

"""Builds a Matrix platform for the real server, and the messages that tests send with it."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.platforms.matrix.synapse import Account
from tests.platforms.matrix.users import MatrixUser

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, MessageEdit, Outbound
from holdfast.core.ports.platform_plugin import PluginContext
from holdfast.core.secrets import Secret
from holdfast.platforms.matrix.checkpoint import MatrixCheckpoint, SyncPosition
from holdfast.platforms.matrix.platform import MatrixPlatform
from holdfast.platforms.matrix.plugin import MatrixSettings
from holdfast.platforms.matrix.sync import DEFAULT_TUNING, SyncTuning
from holdfast.system.clock import SystemClock

_ids = count(1)


def settings_for(base_url: str, account: Account, **more: Any) -> MatrixSettings:
    given = {"homeserver": base_url, "user": account.name, "sync_seconds": 1, **more}
    return MatrixSettings(**given)


def plugin_context(
    base_url: str, account: Account, folder: Path, *, by_token: bool = False, **settings: Any
) -> PluginContext[MatrixSettings]:
    key, secret = ("token", account.token) if by_token else ("password", account.password)
    return PluginContext(
        account="default",
        settings=settings_for(base_url, account, **{key: f"env:{key}"}, **settings),
        secrets={key: Secret(secret)},
        folder=folder,
        clock=SystemClock(),
        new_id=lambda prefix: f"{prefix}_{next(_ids)}",
    )


def new_platform(
    base_url: str,
    account: Account,
    folder: Path,
    *,
    limit: float = 20.0,
    tuning: SyncTuning = DEFAULT_TUNING,
    **more: Any,
) -> MatrixPlatform:
    return MatrixPlatform(
        plugin_context(base_url, account, folder, **more), timeout=limit, tuning=tuning
    )


async def write_checkpoint(client: MatrixUser, folder: Path) -> str:
    """Write the current sync position as the checkpoint of the account; returns the position."""
    here = await client.call("GET", "sync", params={"timeout": "0"})
    record = await MatrixCheckpoint.load(folder / f"{quote(client.user_id, safe='')}.json")
    record.advance(SyncPosition(number=1, since=here["next_batch"]))
    await record.save_position()
    return str(here["next_batch"])


def address(room_id: str, **more: Any) -> Address:
    return Address(platform="matrix", account="default", chat_id=room_id, **more)


def outbound(text: str, to: Address, *, name: str = "d1", **more: Any) -> Outbound:
    return Outbound(delivery_id=DeliveryId(name), address=to, text=text, **more)


def change(message_id: str, text: str, to: Address) -> MessageEdit:
    return MessageEdit(
        delivery_id=DeliveryId("d1"), address=to, platform_message_id=message_id, text=text
    )


async def until(fact: Callable[[], Awaitable[object] | object]) -> None:
    """Wait for what another task does; the test's own timeout ends a wait for nothing."""
    while True:
        found = fact()
        if await found if isinstance(found, Awaitable) else found:
            return
        await asyncio.sleep(0.05)

"""Builds a Discord platform for the fake vendor, and the messages that tests send with it."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.platforms.discord.fake import ANN_DM, BOB_DM, BOT, FakeDiscord

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, MessageEdit, Outbound
from holdfast.core.secrets import Secret
from holdfast.platforms.discord.history import DiscordCheckpoint
from holdfast.platforms.discord.platform import DiscordPlatform
from holdfast.platforms.discord.plugin import DiscordSettings
from holdfast.system.clock import SystemClock


def new_platform(
    vendor: FakeDiscord, folder: Path, *, limit: float = 20.0, **settings: Any
) -> DiscordPlatform:
    base_url = f"{vendor.base_url}/api/v10"
    settings = {"token": "env:TOKEN", "menu": False, "base_url": base_url, **settings}
    return DiscordPlatform(
        Secret(vendor.token),
        account="default",
        settings=DiscordSettings(**settings),
        folder=folder,
        clock=SystemClock(),
        timeout=limit,
    )


async def write_checkpoint(folder: Path, vendor: FakeDiscord) -> None:
    """Write a checkpoint of a bot that already has chats with both users."""
    record = await DiscordCheckpoint.load(
        folder / f"{BOT['id']}.json", start=int(vendor.snowflake())
    )
    await record.add_dm(ANN_DM)
    await record.add_dm(BOB_DM)


def address(channel: str = ANN_DM, **more: Any) -> Address:
    return Address(platform="discord", account="default", chat_id=channel, **more)


def outbound(text: str, *, name: str = "d1", to: Address | None = None, **more: Any) -> Outbound:
    return Outbound(delivery_id=DeliveryId(name), address=to or address(), text=text, **more)


def change(message_id: str, text: str) -> MessageEdit:
    return MessageEdit(
        delivery_id=DeliveryId("d1"),
        address=address(),
        platform_message_id=message_id,
        text=text,
    )


async def until(fact: Callable[[], object]) -> None:
    """Wait for what another task does; the test's own timeout ends a wait for nothing."""
    while not fact():
        await asyncio.sleep(0.005)

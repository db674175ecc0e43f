"""Builds a Telegram platform for the fake vendor, and the messages that tests send with it."""

import asyncio
from collections.abc import Callable
from typing import Any

from tests.platforms.telegram.fake import ANN, FakeTelegram

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, MessageEdit, Outbound
from holdfast.core.secrets import Secret
from holdfast.platforms.telegram.platform import TelegramPlatform
from holdfast.platforms.telegram.plugin import TelegramSettings


def new_platform(
    vendor: FakeTelegram, base_url: str, *, limit: float = 20.0, **settings: Any
) -> TelegramPlatform:
    settings = {"token": "env:TOKEN", "base_url": base_url, "menu": False, **settings}
    return TelegramPlatform(
        Secret(vendor.token),
        account="default",
        settings=TelegramSettings(**settings),
        timeout=limit,
    )


def outbound(text: str, *, chat: int = ANN["id"], **more: Any) -> Outbound:
    return Outbound(delivery_id=DeliveryId("d1"), address=address(chat), text=text, **more)


def change(message_id: str, text: str, *, chat: int = ANN["id"]) -> MessageEdit:
    return MessageEdit(
        delivery_id=DeliveryId("d1"),
        address=address(chat),
        platform_message_id=message_id,
        text=text,
    )


def address(chat: int = ANN["id"], **more: Any) -> Address:
    return Address(platform="telegram", account="default", chat_id=str(chat), **more)


async def until(fact: Callable[[], object]) -> None:
    """Wait for what another task does; the test's own timeout ends a wait for nothing."""
    while not fact():
        await asyncio.sleep(0.005)

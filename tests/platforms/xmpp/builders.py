"""Builds an XMPP platform for the real server, and the messages that tests send with it."""

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.platforms.xmpp.prosody import Prosody
from tests.platforms.xmpp.users import ANN, BOT

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, MessageEdit, Outbound
from holdfast.core.secrets import Secret
from holdfast.platforms.xmpp.platform import XmppPlatform
from holdfast.platforms.xmpp.plugin import XmppSettings
from holdfast.system.clock import SystemClock

_numbers = itertools.count(1)


def new_id(prefix: str) -> str:
    return f"{prefix}_{next(_numbers)}"


def settings_for(server: Prosody, **more: Any) -> XmppSettings:
    defaults = {"jid": BOT, "password": "env:PASSWORD", "host": "127.0.0.1", "port": server.port}
    return XmppSettings(**{**defaults, "tls": False, **more})


def new_platform(
    server: Prosody,
    folder: Path,
    *,
    password: str = "pw-bot",
    timeout: float = 20.0,
    **settings: Any,
) -> XmppPlatform:
    return XmppPlatform(
        Secret(password),
        account="default",
        settings=settings_for(server, **settings),
        folder=folder,
        clock=SystemClock(),
        new_id=new_id,
        timeout=timeout,
        settle_seconds=0.0,
    )


def address(chat: str = ANN, **more: Any) -> Address:
    return Address(platform="xmpp", account="default", chat_id=chat, **more)


def outbound(text: str, *, name: str = "", to: Address | None = None, **more: Any) -> Outbound:
    delivery_id = DeliveryId(name or new_id("d"))
    return Outbound(delivery_id=delivery_id, address=to or address(), text=text, **more)


def change(message_id: str, text: str, *, to: Address | None = None) -> MessageEdit:
    return MessageEdit(
        delivery_id=DeliveryId(message_id),
        address=to or address(),
        platform_message_id=message_id,
        text=text,
    )


async def until(fact: Callable[[], object]) -> None:
    """Wait for what another task does; the test's own timeout ends a wait for nothing."""
    while not fact():
        await asyncio.sleep(0.005)

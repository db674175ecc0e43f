"""A Matrix door to the real server, and what tests hand it to send."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

from tests.platforms.matrix.people import Person

from holdfast.core.door import Opening
from holdfast.core.ids import DeliveryId
from holdfast.core.outbox import Address, Change, Outbound
from holdfast.core.secret import Secret
from holdfast.platforms.matrix.door import MatrixSettings
from holdfast.platforms.matrix.platform import MatrixPlatform
from holdfast.platforms.simulated.recorder import RecordingIntake
from holdfast.service.clock import SystemClock

_ids = count(1)


def door_to(
    base_url: str,
    user_id: str,
    folder: Path,
    *,
    token: str = "",
    limit: float = 20.0,
    **settings: Any,
) -> MatrixPlatform:
    """By a password, which is the name, unless there is a token."""
    name = user_id[1:].partition(":")[0]
    secrets = {"token": Secret(token)} if token else {"password": Secret(name)}
    written = {key: f"env:{key}" for key in secrets}
    given = {"homeserver": base_url, "user": user_id, "sync_seconds": 1, **written, **settings}
    opening = Opening(
        account="default",
        settings=MatrixSettings(**given),
        secrets=secrets,
        folder=folder,
        clock=SystemClock(),
        new_id=lambda prefix: f"{prefix}_{next(_ids)}",
    )
    return MatrixPlatform(opening, limit=limit)


async def introduce(door: MatrixPlatform, person: Person, user_id: str, **more: Any) -> str:
    """A room of the two, in which the account is already: the room."""
    room_id = await person.room(user_id, direct=True, **more)
    async with door.connect(RecordingIntake()):
        await until(lambda: joined(person, room_id, user_id))
    return room_id


async def joined(person: Person, room_id: str, user_id: str) -> bool:
    found = await person.call("GET", f"rooms/{room_id}/joined_members")
    return user_id in found["joined"]


def address(room_id: str, **more: Any) -> Address:
    return Address(platform="matrix", account="default", chat_id=room_id, **more)


def outbound(text: str, to: Address, *, name: str = "d1", **more: Any) -> Outbound:
    return Outbound(delivery_id=DeliveryId(name), address=to, text=text, **more)


def change(message_id: str, text: str, to: Address) -> Change:
    return Change(
        delivery_id=DeliveryId("d1"), address=to, platform_message_id=message_id, text=text
    )


async def until(fact: Callable[[], Awaitable[object] | object]) -> None:
    """Wait for what another task does; the test's own timeout ends a wait for nothing."""
    while True:
        found = fact()
        if await found if isinstance(found, Awaitable) else found:
            return
        await asyncio.sleep(0.02)

"""What several tests of the API do with its client, and the messages they send."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from tests.support.gateway_process import SpawnedGateway
from tests.support.v1_client import V1

SUDO_COMMAND = '[tool terminal {"command": "sudo -n true; echo it ran"}] [then] [text that was it]'
DAILY_JOB = {
    "when": "every day at 9 in Europe/Berlin",
    "text": "say hello [text hello]",
    "to": "nowhere",
}


async def pending_approval(v1: V1, session: str) -> dict[str, Any]:
    """Waits for the approval request of a session, and until its turn waits for the answer: the
    request is streamed a moment earlier."""
    found, state = None, ""
    async with v1.events(f"/sessions/{session}/events") as events:
        async for event in events:
            if event.name == "live" and event.data and event.data["approvals"]:
                (found,) = event.data["approvals"]
            if event.name == "session":
                state = event.data["state"]
            if found is not None and state == "waiting":
                return dict(found)
    raise AssertionError("nothing was asked")


async def wait_for_first_record(v1: V1, session: str) -> None:
    """Waits until the transcript has a record: the turn has begun."""
    async with v1.events(f"/sessions/{session}/events") as events:
        async for event in events:
            if event.name == "record":
                return


@asynccontextmanager
async def v1_client_of(gateway: SpawnedGateway) -> AsyncIterator[V1]:
    """A client with the token of this gateway."""
    async with aiohttp.ClientSession(gateway.address, headers=gateway.auth) as http:
        yield V1(gateway, http)


def bearer_header(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}

"""Tests the simulated service as a process of its own."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import msgspec

from holdfast.testing.intake import RecordingIntake
from holdfast.testing.simulated.people import PeopleClient
from holdfast.testing.simulated.platform import RemoteSimulatedPlatform


@asynccontextmanager
async def simulated_service(*options: str) -> AsyncIterator[str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "holdfast.testing.simulated",
        *options,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        line = msgspec.json.decode(await process.stdout.readline())
        yield f"http://127.0.0.1:{line['port']}"
    finally:
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


async def test_the_service_delivers_unacknowledged_messages_to_the_next_connection() -> None:
    """G1: nothing is dropped at connect."""
    async with simulated_service("--port", "0") as base_url, aiohttp.ClientSession() as http:
        people = PeopleClient(base_url, http=http)
        await people.say("before anyone listened")
        for text in ("before anyone listened", "between two lives"):
            intake = RecordingIntake()
            async with RemoteSimulatedPlatform(base_url).connect(intake):
                await intake.wait_for_attempts(1)
                while not (await people.ledger()).said[-1].acked:
                    await asyncio.sleep(0.01)
            assert [inbound.text for inbound in intake.accepted] == [text]
            await people.say("between two lives")


async def test_the_command_line_options_reach_the_platform() -> None:
    async with simulated_service("--idempotent-send", "--max-length", "100") as base_url:
        platform = RemoteSimulatedPlatform(base_url)
        async with platform.connect(RecordingIntake()):
            assert platform.capabilities.idempotent_send
            assert platform.capabilities.max_length == 100


async def test_a_restarted_service_never_reuses_an_update_id() -> None:
    ids = []
    for _ in range(2):
        async with simulated_service() as base_url, aiohttp.ClientSession() as http:
            await PeopleClient(base_url, http=http).say("hello")
            intake = RecordingIntake()
            async with RemoteSimulatedPlatform(base_url).connect(intake):
                [inbound] = await intake.wait_for_attempts(1)
            ids.append(int(inbound.event_id))
    assert ids[0] < ids[1]

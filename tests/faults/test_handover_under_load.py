"""A client that never stops asking, while one gateway after the other takes its place."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
from tests.faults.gateway_succession import GatewaySuccession, open_succession

from holdfast.core.ids import SessionId
from holdfast.core.messages.transcript import UserMessage
from holdfast.store.sqlite.store import SqliteStore
from holdfast.system.paths import Paths

TRIES = 400


@dataclass
class Hammer:
    """Owns one sender: numbered messages, one after the other, each until it is answered."""

    address: str
    token: str
    session: str
    kept_alive: bool
    sent: int = 0
    refused: int = 0
    troubles: list[str] = field(default_factory=list)

    async def run(self, enough: asyncio.Event) -> None:
        connector = aiohttp.TCPConnector(force_close=not self.kept_alive)
        async with aiohttp.ClientSession(connector=connector) as http:
            while not enough.is_set():
                self.sent += 1
                await self._until_answered(http, self.sent)

    async def _until_answered(self, http: aiohttp.ClientSession, number: int) -> None:
        for _ in range(TRIES):
            try:
                if await self._ask(http, number):
                    return
            except aiohttp.ClientConnectorError as error:
                self.refused += 1
                self.troubles.append(repr(error))
            except (aiohttp.ClientError, ConnectionError) as error:
                self.troubles.append(repr(error))
        raise AssertionError(f"{self.session}, {number}: {self.troubles[-5:]}")

    async def _ask(self, http: aiohttp.ClientSession, number: int) -> bool:
        headers = {
            "Authorization": f"Bearer {self.token}",
            "X-Holdfast-Session": self.session,
            "X-Holdfast-Message-Id": f"{self.session}-{number}",
        }
        said = {"role": "user", "content": f"number {number}"}
        async with http.post(
            f"{self.address}/v1/chat/completions",
            json={"model": "holdfast", "messages": [said]},
            headers=headers,
        ) as response:
            if response.status == 200:
                return bool((await response.json())["choices"][0]["message"]["content"])
            self.troubles.append(f"{response.status} {(await response.text())[:200]}")
            assert response.status == 503, self.troubles[-1]
            # As it is told: at once on a new connection, which waits for the successor.
            await asyncio.sleep(0.05)
            return False


async def three_rounds(succession: GatewaySuccession) -> None:
    """Replaced by hand, restarted in the background, and replaced again."""
    await succession.start("run", "--replace")
    code, said = await succession.run_command("gateway", "restart")
    assert code == 0, said
    await succession.start("run", "--replace")


async def said_in(home: Path) -> dict[str, list[str]]:
    """By session, what its users said, in the order of the transcript."""
    async with SqliteStore(Paths(home).db) as store:
        rows = await store.sessions(limit=100, offset=0)
        return {row.id: await _texts(store, row.id) for row in rows}


async def _texts(store: SqliteStore, session_id: SessionId) -> list[str]:
    records = await store.transcript(session_id)
    return [r.message.text for r in records if isinstance(r.message, UserMessage)]


@pytest.mark.timeout(180)
async def test_a_busy_client_loses_nothing_during_three_handovers(
    tmp_path: Path,
) -> None:
    """E4, G2, H5: nothing lost, nothing twice, one order, and not one refused connection."""
    async with open_succession(tmp_path / "home") as succession:
        first = await succession.start()
        token = succession.paths.api_token.read_text().strip()
        hammers = [
            Hammer(first.address, token, session=f"s{index}", kept_alive=index % 2 == 0)
            for index in range(4)
        ]
        enough = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for hammer in hammers:
                group.create_task(hammer.run(enough))
            await three_rounds(succession)
            enough.set()
        status = await succession.status()
    sent = sum(hammer.sent for hammer in hammers)
    troubles = [trouble for hammer in hammers for trouble in hammer.troubles]
    assert [hammer.refused for hammer in hammers] == [0, 0, 0, 0], troubles
    ledger = status["inbox_counts"]
    assert (ledger["accepted"], ledger["answered"]) == (sent, sent), ledger
    assert len(status["restarts"]) >= 3
    texts = sorted((await said_in(succession.home)).values())
    expected = [[f"number {n}" for n in range(1, h.sent + 1)] for h in hammers]
    assert texts == sorted(expected)

"""A client that sends messages without a pause, while one gateway follows the other."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
from tests.faults.gateway_sequence import GatewaySequence, open_sequence
from tests.support.stores import open_store

from holdfast.core.ids import SessionId
from holdfast.core.messages.transcript import UserMessage
from holdfast.core.ports.store import Store
from holdfast.core.ports.store_queries import GetTranscript, ListSessions
from holdfast.system.paths import Paths

MAX_TRIES = 400


@dataclass
class BusyClient:
    """Owns one sender: numbered messages, one after the other, each until it is answered."""

    address: str
    token: str
    session: str
    keep_alive: bool
    sent: int = 0
    refused: int = 0
    errors: list[str] = field(default_factory=list)

    async def run(self, stop: asyncio.Event) -> None:
        connector = aiohttp.TCPConnector(force_close=not self.keep_alive)
        async with aiohttp.ClientSession(connector=connector) as http:
            while not stop.is_set():
                self.sent += 1
                await self._until_answered(http, self.sent)

    async def _until_answered(self, http: aiohttp.ClientSession, number: int) -> None:
        for _ in range(MAX_TRIES):
            try:
                if await self._ask(http, number):
                    return
            except aiohttp.ClientConnectorError as error:
                self.refused += 1
                self.errors.append(repr(error))
            except (aiohttp.ClientError, ConnectionError) as error:
                self.errors.append(repr(error))
        raise AssertionError(f"{self.session}, {number}: {self.errors[-5:]}")

    async def _ask(self, http: aiohttp.ClientSession, number: int) -> bool:
        headers = {
            "Authorization": f"Bearer {self.token}",
            "X-Holdfast-Session": self.session,
            "X-Holdfast-Message-Id": f"{self.session}-{number}",
        }
        message = {"role": "user", "content": f"number {number}"}
        async with http.post(
            f"{self.address}/v1/chat/completions",
            json={"model": "holdfast", "messages": [message]},
            headers=headers,
        ) as response:
            if response.status == 200:
                return bool((await response.json())["choices"][0]["message"]["content"])
            self.errors.append(f"{response.status} {(await response.text())[:200]}")
            assert response.status == 503, self.errors[-1]
            # Retry soon on a new connection, which waits for the successor.
            await asyncio.sleep(0.05)
            return False


async def three_handovers(sequence: GatewaySequence) -> None:
    """`run --replace`, a restart by the command line, and `run --replace` again."""
    await sequence.start("run", "--replace")
    code, output = await sequence.run_command("gateway", "restart")
    assert code == 0, output
    await sequence.start("run", "--replace")


async def user_texts(home: Path) -> dict[str, list[str]]:
    """The user messages of each session, in the order of the transcript."""
    async with open_store(Paths(home).db) as store:
        rows = await store.read(ListSessions(limit=100, offset=0))
        return {row.id: await _texts(store, row.id) for row in rows}


async def _texts(store: Store, session_id: SessionId) -> list[str]:
    records = await store.read(GetTranscript(session_id=session_id))
    return [r.message.text for r in records if isinstance(r.message, UserMessage)]


@pytest.mark.timeout(180)
async def test_a_busy_client_loses_nothing_during_three_handovers(
    tmp_path: Path,
) -> None:
    """E4, G2, H5: nothing lost, nothing twice, one order, and not one refused connection."""
    async with open_sequence(tmp_path / "home") as sequence:
        first = await sequence.start()
        token = sequence.paths.api_token.read_text().strip()
        clients = [
            BusyClient(first.address, token, session=f"s{index}", keep_alive=index % 2 == 0)
            for index in range(4)
        ]
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for client in clients:
                group.create_task(client.run(stop))
            await three_handovers(sequence)
            stop.set()
        status = await sequence.status()
    sent = sum(client.sent for client in clients)
    errors = [error for client in clients for error in client.errors]
    assert [client.refused for client in clients] == [0, 0, 0, 0], errors
    ledger = status["inbox_counts"]
    assert (ledger["accepted"], ledger["answered"]) == (sent, sent), ledger
    assert len(status["restarts"]) >= 3
    texts = sorted((await user_texts(sequence.home)).values())
    expected = [[f"number {n}" for n in range(1, client.sent + 1)] for client in clients]
    assert texts == sorted(expected)

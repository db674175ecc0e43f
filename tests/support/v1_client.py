"""A client of `/api/v1` for tests, and a reader of its event streams."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp
import pytest
from tests.support.gateway_process import SpawnedGateway

PREFIX = "/api/v1"


class SentEvent(NamedTuple):
    id: int | None
    name: str
    data: Any


class V1:
    """A client of one gateway, with its token."""

    def __init__(self, shared_gateway: SpawnedGateway, http: aiohttp.ClientSession) -> None:
        self.gateway = shared_gateway
        self.http = http

    async def ask(self, method: str, path: str, **options: Any) -> Any:
        async with self.http.request(method, PREFIX + path, **options) as response:
            body = await response.read()
            assert response.status < 400, body
            return json.loads(body) if body else None

    async def refused(self, method: str, path: str, **options: Any) -> tuple[int, dict[str, Any]]:
        async with self.http.request(method, PREFIX + path, **options) as response:
            body = await response.json()
            assert set(body) == {"error"} and set(body["error"]) == {"message", "code", "param"}
            return response.status, body["error"]

    async def get(self, path: str, /, **query: Any) -> Any:
        return await self.ask("GET", path, params=query)

    async def open(self, name: str | None = None) -> str:
        body = {} if name is None else {"name": name}
        return str((await self.ask("POST", "/sessions", json=body))["id"])

    async def say(self, session: str, text: str, message_id: str = "m1", **more: Any) -> int:
        body = {"text": text, "message_id": message_id, **more}
        return int((await self.ask("POST", f"/sessions/{session}/messages", json=body))["id"])

    async def end(self, message: int) -> dict[str, Any]:
        found: dict[str, Any] = await self.get(f"/messages/{message}", wait=45)
        return found

    @asynccontextmanager
    async def events(self, path: str, **options: Any) -> AsyncIterator[AsyncIterator[SentEvent]]:
        async with asyncio.timeout(50), self.http.get(PREFIX + path, **options) as response:
            assert response.status == 200, await response.text()
            yield read(response)


async def read(response: aiohttp.ClientResponse) -> AsyncIterator[SentEvent]:
    fields: dict[str, str] = {}
    async for line in response.content:
        text = line.decode().rstrip("\n")
        if text and not text.startswith(":"):
            name, _, value = text.partition(": ")
            fields[name] = value
        elif not text and "event" in fields:
            number = int(fields["id"]) if "id" in fields else None
            yield SentEvent(number, fields["event"], json.loads(fields["data"]))
            fields = {}


@pytest.fixture
async def v1(shared_gateway: SpawnedGateway, http: aiohttp.ClientSession) -> V1:
    return V1(shared_gateway, http)

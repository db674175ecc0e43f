"""An HTTP client for the people of the simulated vendor: what a test or a demo writes, reads and
breaks."""

from typing import Any

import aiohttp
import msgspec

from holdfast.testing.simulated.events import Faults, Ledger, ReviseRequest, SayRequest


class PeopleClient:
    """All people who write to the bot, over one HTTP session that the caller owns."""

    def __init__(self, base_url: str, *, http: aiohttp.ClientSession) -> None:
        self._base_url = base_url.rstrip("/")
        self._http = http

    async def say(self, text: str, *, chat: str = "home", user: str = "ann", **more: Any) -> str:
        """Returns the message's id in its chat. `more`: further fields of `SayRequest`."""
        raw = await self._post("/say", SayRequest(chat=chat, user=user, text=text, **more))
        return msgspec.json.decode(raw, type=dict[str, str])["message_id"]

    async def edit(self, message_id: str, text: str) -> None:
        """A person edits a message."""
        await self._post("/revise", ReviseRequest(message_id=message_id, text=text))

    async def delete(self, message_id: str) -> None:
        """A person deletes a message."""
        await self._post("/revise", ReviseRequest(message_id=message_id))

    async def ledger(self, *, sent: int = 0, edits: int = 0, wait: float = 0.0) -> Ledger:
        """The ledger, once it has that many messages and edits, or after `wait` seconds."""
        url = f"{self._base_url}/ledger?sent={sent}&edits={edits}&wait={wait}"
        async with self._http.get(url) as response:
            response.raise_for_status()
            return msgspec.json.decode(await response.read(), type=Ledger)

    async def set_faults(
        self, faults: Faults | None = None, *, idempotent_send: bool | None = None
    ) -> None:
        switches = {"faults": faults, "idempotent_send": idempotent_send}
        await self._post("/faults", switches)

    async def _post(self, path: str, content: object) -> bytes:
        async with self._http.post(
            self._base_url + path, data=msgspec.json.encode(content)
        ) as response:
            response.raise_for_status()
            return await response.read()

"""The Events API of the fake Slack: signed posts, repeated until the response is 2xx."""

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlencode

import aiohttp
from tests.platforms.slack.fake import SIGNING_SECRET, FakeSlack, Json

_RETRY = 0.02
_FORM = "application/x-www-form-urlencoded"


def signed(body: bytes, *, at: float | None = None, secret: str = SIGNING_SECRET) -> dict[str, str]:
    """https://docs.slack.dev/authentication/verifying-requests-from-slack: HMAC SHA256 of
    "v0:timestamp:body", in hex, after "v0="."""
    stamp = str(int(time.time() if at is None else at))
    digest = hmac.new(secret.encode(), f"v0:{stamp}:".encode() + body, hashlib.sha256).hexdigest()
    return {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": f"v0={digest}"}


def content(envelope: Json) -> tuple[bytes, str]:
    """Events are posted as JSON (https://docs.slack.dev/apis/events-api), presses as the field
    `payload` of a form, commands as a form (https://docs.slack.dev/interactivity)."""
    payload = envelope["payload"]
    if envelope["type"] == "events_api":
        return json.dumps(payload).encode(), "application/json"
    form = {"payload": json.dumps(payload)} if envelope["type"] == "interactive" else payload
    return urlencode(form).encode(), _FORM


@asynccontextmanager
async def posting(vendor: FakeSlack, url: str) -> AsyncIterator[None]:
    async with aiohttp.ClientSession() as http:
        task = asyncio.create_task(_post_all(vendor, url, http), name="posts of Slack")
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def _post_all(vendor: FakeSlack, url: str, http: aiohttp.ClientSession) -> None:
    """https://docs.slack.dev/apis/events-api#retries: what is not answered with 2xx comes again,
    with `X-Slack-Retry-Num` and `X-Slack-Retry-Reason`; the pauses are longer there."""
    while True:
        vendor.changed.clear()
        while vendor.waiting:
            envelope = vendor.waiting[0]
            if (answer := await _post(http, url, envelope)) is not None:
                vendor.acknowledge({"envelope_id": envelope["envelope_id"], "payload": answer})
            else:
                envelope["retries"] = envelope.get("retries", 0) + 1
                await asyncio.sleep(_RETRY)
        await vendor.changed.wait()


async def _post(http: aiohttp.ClientSession, url: str, envelope: Json) -> str | None:
    body, kind = content(envelope)
    headers = {"Content-Type": kind, **signed(body)}
    if retries := envelope.get("retries"):
        headers |= {"X-Slack-Retry-Num": str(retries), "X-Slack-Retry-Reason": "http_error"}
    try:
        async with http.post(url, data=body, headers=headers) as response:
            return await response.text() if 200 <= response.status < 300 else None
    except aiohttp.ClientError:
        return None

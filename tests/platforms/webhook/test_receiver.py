"""Tests hooks: authentication, acknowledgement after the commit, and duplicates."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from tests.platforms.webhook.builders import PATH, SECRET, HookClient, new_platform, signed
from tests.platforms.webhook.fake_receiver import listening
from tests.support.gateway_harness import WallClock

from holdfast.core.errors import IntakeClosed, NotAddressed, NotAllowed, StoreError
from holdfast.core.messages.inbox import Accepted, BusyMode, Inbound
from holdfast.core.messages.source import Attachment
from holdfast.platforms.webhook.platform import WebhookPlatform
from holdfast.platforms.webhook.plugin import SignatureScheme
from holdfast.platforms.webhook.receiver import HookRateLimiter
from holdfast.testing.intake import RecordingIntake
from holdfast.testing.simulated.events import ALWAYS

EVENT = {"action": "opened", "issue": {"number": 7, "title": "It breaks"}}


@asynccontextmanager
async def hook_client(platform: WebhookPlatform) -> AsyncIterator[HookClient]:
    async with listening(platform.routes()) as address, aiohttp.ClientSession(address) as http:
        yield HookClient(http, address)


@pytest.fixture
def intake() -> RecordingIntake:
    return RecordingIntake()


@asynccontextmanager
async def hook(intake: RecordingIntake, **settings: Any) -> AsyncIterator[HookClient]:
    platform = new_platform(hook=settings)
    async with hook_client(platform) as client, platform.connect(intake):
        yield client


async def test_a_post_becomes_a_message_by_its_template(intake: RecordingIntake) -> None:
    template = "{issue.title} was {action} (#{issue.number})"
    async with hook(intake, template=template, thread="{issue.number}") as client:
        status, response = await client.post(EVENT)
    (inbound,) = intake.accepted
    assert (status, response["status"], response["id"]) == (202, "accepted", inbound.message_id)
    assert inbound.text == "It breaks was opened (#7)"
    source = inbound.source
    assert (source.platform, source.account, source.chat_id) == ("webhook", "default", "build")
    assert (source.thread_id, source.user_id) == ("7", "build")
    assert (inbound.commands, inbound.mergeable) == (False, False)
    assert inbound.busy_mode is BusyMode.QUEUE


async def test_a_post_is_accepted_only_when_it_is_durable(intake: RecordingIntake) -> None:
    """G1: commit, then acknowledge. What cannot be kept is for its sender to post again."""
    intake.fail_next(StoreError("disk full"), IntakeClosed("stopping"))
    async with hook(intake) as client:
        answers = [(await client.post(EVENT))[0] for _ in range(3)]
    assert answers == [503, 503, 202]
    assert len(intake.accepted) == 1


class SlowIntake(RecordingIntake):
    """Says when it is asked."""

    def __init__(self, *, delay: float) -> None:
        super().__init__(delay=delay)
        self.asked = asyncio.Event()

    async def accept(self, inbound: Inbound, attachments: Sequence[Attachment] = ()) -> Accepted:
        self.asked.set()
        return await super().accept(inbound, attachments)


async def test_a_post_in_progress_at_disconnect_is_not_acknowledged() -> None:
    """G1: it is not known to be durable."""
    slow, platform = SlowIntake(delay=ALWAYS), new_platform()
    async with hook_client(platform) as client:
        async with platform.connect(slow):
            posting = asyncio.create_task(client.post(EVENT))
            await slow.asked.wait()
        assert (await posting)[0] == 503
        assert (await client.post(EVENT))[0] == 503
        async with platform.connect(RecordingIntake()):
            assert (await client.post(EVENT))[0] == 202


async def test_a_post_that_comes_again_is_one_event(intake: RecordingIntake) -> None:
    """G2: by what is signed. A copy with another number in front counts for nothing."""
    async with hook(intake) as client:
        first = await client.post(EVENT, X_GitHub_Delivery="one")
        again = await client.post(EVENT, X_GitHub_Delivery="two")
        other = await client.post({**EVENT, "action": "closed"})
    assert [status for status, _ in (first, again, other)] == [202, 200, 202]
    assert again[1] == {"status": "duplicate", "id": first[1]["id"]}
    assert len(intake.accepted) == 2


async def test_an_id_in_the_body_identifies_deliveries(intake: RecordingIntake) -> None:
    async with hook(intake, id="{id}") as client:
        for body in ({"id": "e1", "try": 1}, {"id": "e1", "try": 2}, {"id": "é" * 500}):
            await client.post(body)
    first, other = intake.accepted
    assert (first.message_id, len(other.message_id)) == ("e1", 64)
    assert all(len(each.event_id) < 200 for each in intake.accepted)


async def test_with_a_bearer_token_a_header_identifies_deliveries(intake: RecordingIntake) -> None:
    async with hook(intake, scheme=SignatureScheme.BEARER) as client:
        bears = {"Authorization": f"Bearer {SECRET}"}
        for key in ("k1", "k1", "k2"):
            await client.post(EVENT, Idempotency_Key=key, **bears)
    assert [each.message_id for each in intake.accepted] == ["k1", "k2"]


@pytest.mark.parametrize("forged", [{}, signed(b"another body"), signed(b"{}", secret="guessed")])
async def test_an_unauthenticated_post_is_rejected_without_details(
    intake: RecordingIntake, forged: dict[str, str]
) -> None:
    """Nothing of such a body is read: what is wrong with it is told to those who are known."""
    async with (
        hook(intake, template="{secret_field}") as client,
        client.http.post(PATH, data=b"{}", headers=forged) as response,
    ):
        assert response.status == 401
        words = await response.text()
    assert "secret_field" not in words and SECRET not in words
    assert intake.attempted == []


async def test_a_hook_accepts_only_post_requests(intake: RecordingIntake) -> None:
    async with hook(intake) as client:
        async with client.http.get(PATH) as response:
            assert response.status == 405
        async with client.http.post(PATH + "x", data=b"{}", headers=signed(b"{}")) as response:
            assert response.status == 404


async def test_a_body_that_is_too_large_is_not_read(intake: RecordingIntake) -> None:
    async def dribble() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x" * 1000

    async with hook(intake, max_kb=2) as client:
        assert (await client.post(b'"' + b"x" * 2100 + b'"'))[0] == 413
        async with client.http.post(PATH, data=dribble()) as response:
            assert response.status == 413
        assert (await client.post(b'"' + b"x" * 2000 + b'"'))[0] == 202
    assert len(intake.attempted) == 1


@pytest.mark.parametrize(
    ("body", "kind", "expected"),
    [
        (
            b"{}",
            "application/json",
            "the post lacks issue.title, @X-Kind (its content type is application/json)",
        ),
        (b"{", "application/json", "the body is not application/json"),
        (b"[" * 100_000, "application/json", "nested too deeply"),
        (b'{"a": "\xff"}', "application/json", "the body is not application/json"),
        (b"\xff", "text/plain", "the body is not text/plain"),
        (b"<x/>", "text/xml", "this hook accepts application/json"),
    ],
)
async def test_an_invalid_body_is_explained_to_an_authenticated_sender(
    intake: RecordingIntake, body: bytes, kind: str, expected: str
) -> None:
    template = "{issue.title} {@X-Kind}"
    async with hook(intake, template=template) as client:
        status, answer = await client.post(body, Content_Type=kind)
    assert status == 422
    assert expected in answer["error"]
    assert intake.attempted == []


async def test_files_come_with_a_post_one_or_many(intake: RecordingIntake) -> None:
    async with hook(intake, template="{n}", files="about.files") as client:
        one, two = ({"name": name, "data": "AP8="} for name in ("a", "b"))
        for number, files in enumerate((one, [one, two], [], None)):
            await client.post({"n": number, "about": {"files": files}})
        for wrong in ({"name": "a"}, "a", {"name": "a", "data": "?"}, [1]):
            status, response = await client.post({"n": 9, "about": {"files": wrong}})
            assert status == 422 and response["error"].startswith("about.files is not a file")
    assert intake.attachments == [("a", b"\x00\xff"), ("a", b"\x00\xff"), ("b", b"\x00\xff")]
    assert [each.text for each in intake.accepted] == ["0", "1", "2", "3"]


async def test_however_deep_a_body_is_nested_it_is_read_or_refused(
    intake: RecordingIntake,
) -> None:
    async with hook(intake, per_minute=0) as client:
        for depth in range(900, 1000, 5):
            status, _ = await client.post(b"[" * depth + b"]" * depth)
            assert status in (202, 422)


async def test_a_header_that_is_not_text_is_converted(intake: RecordingIntake) -> None:
    """Else it could be kept by no store, and would come again for ever."""
    body = b"{}"
    async with hook(intake, template="{@X-Odd}", thread="{@X-Odd}") as client:
        answer = await raw(client, body, b"X-Odd: caf\xe9")
        assert answer.startswith(b"HTTP/1.1 202")
    (inbound,) = intake.accepted
    assert inbound.text == inbound.source.thread_id == "caf\ufffd"


async def raw(client: HookClient, body: bytes, *headers: bytes) -> bytes:
    """What is answered to a request with headers that no client would send."""
    port = client.address.rpartition(":")[2]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    given = [f"{name}: {value}".encode() for name, value in signed(body).items()]
    lines = [f"POST {PATH} HTTP/1.1".encode(), b"Host: localhost", *given, *headers]
    writer.write(b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", body]))
    answer = await reader.readline()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_plain_text_and_forms_are_accepted_too(intake: RecordingIntake) -> None:
    async with hook(intake, template="{*}") as client:
        await client.post("héllo".encode(), Content_Type="text/plain; charset=utf-8")
        await client.post(b"a=1&b=%20x&a=2", Content_Type="application/x-www-form-urlencoded")
        await client.post({"a": [1, None]})
    assert [each.text for each in intake.accepted] == [
        "héllo",
        '{"a":"2","b":" x"}',
        '{"a":[1,null]}',
    ]


async def test_only_configured_events_are_accepted(intake: RecordingIntake) -> None:
    """A ping of GitHub gets a success code, and starts no turn."""
    async with hook(intake, template="{action}", events=("issues",)) as client:
        ping = await client.post({"zen": "Design for failure."}, X_GitHub_Event="ping")
        none = await client.post({"zen": "Keep it logically awesome."})
        issue = await client.post(EVENT, X_GitHub_Event="issues")
    assert [(status, response["status"]) for status, response in (ping, none, issue)] == [
        (200, "ignored"),
        (200, "ignored"),
        (202, "accepted"),
    ]
    assert [each.text for each in intake.accepted] == ["opened"]


async def test_a_refused_post_gets_a_403_without_details(intake: RecordingIntake) -> None:
    """403 to a hook that may not speak there; what is not meant is not to be posted again."""
    intake.fail_next(NotAllowed("'7' may not talk: add the id to allow"), NotAddressed("a loop"))
    async with hook(intake) as client:
        status, response = await client.post(EVENT)
        passed = await client.post(EVENT)
    assert (status, passed[0]) == (403, 200)
    assert "allow" not in response["error"]


async def test_a_hook_can_post_into_the_chat_of_a_user_and_is_marked(
    intake: RecordingIntake,
) -> None:
    """Permissions: the route, whose word it is, and which toolsets its turn has."""
    elsewhere = {"platform": "telegram", "account": "work", "chat": "12", "user": "34"}
    async with hook(intake, template="{a}", toolsets=("web",), **elsewhere) as client:
        await client.post({"a": "/stop"})
    (inbound,) = intake.accepted
    source = inbound.source
    assert (source.platform, source.account, source.chat_id, source.user_id) == (
        "telegram",
        "work",
        "12",
        "34",
    )
    assert inbound.text == "[Posted to the webhook build]\n/stop"
    assert (inbound.commands, inbound.toolsets) == (False, ("web",))


async def test_a_hook_that_may_give_commands_can(intake: RecordingIntake) -> None:
    elsewhere = {"platform": "telegram", "chat": "12", "user": "34"}
    async with hook(intake, template="{a}", commands=True, **elsewhere) as client:
        await client.post({"a": "/stop"})
    assert [(each.text, each.commands) for each in intake.accepted] == [("/stop", True)]


async def test_a_long_body_is_truncated_for_the_model(
    intake: RecordingIntake,
) -> None:
    async with hook(intake, max_kb=1000) as client:
        await client.post(b'"' + b"x" * 400_000 + b'"')
    (inbound,) = intake.accepted
    assert inbound.text.endswith("x\n[368000 characters more were posted]")


async def test_a_hook_over_its_rate_limit_gets_429(intake: RecordingIntake) -> None:
    """What goes round between two programs ends here; who may not post does not use it up."""
    async with hook(intake, per_minute=2) as client:
        for number in range(2):
            await client.post({"number": number}, X_Hub_Signature_256="sha256=forged")
        answers = [(await client.post({"number": number}))[0] for number in range(3)]
    assert answers == [202, 202, 429]


def test_the_rate_limit_window_is_one_minute() -> None:
    class StoppedClock(WallClock):
        at = 0.0

        def monotonic(self) -> float:
            return self.at

    clock = StoppedClock()
    rate = HookRateLimiter(2, clock=clock)
    assert [rate.acquire(), rate.acquire()] == [0, 0]
    clock.at = 20.0
    assert rate.acquire() == 40
    clock.at = 60.0
    assert rate.acquire() == 0

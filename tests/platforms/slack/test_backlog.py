"""Tests that messages which Slack no longer delivers are read from the history (G1)."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from slack_sdk.web.async_client import AsyncWebClient
from tests.platforms.connection_faults import ConnectionFault
from tests.platforms.slack.builders import listening, new_platform, until
from tests.platforms.slack.fake import ANN, BOB, BOT_USER, CHANNEL, DEEP, FakeSlack, dm
from tests.platforms.slack.fake_events_api import posting
from tests.platforms.slack.faults import SlackError, flood
from tests.support.gateway_harness import ManualClock

from holdfast.core.errors import StoreError
from holdfast.core.messages.inbox import Inbound
from holdfast.platforms.slack.checkpoint import SlackCheckpoint
from holdfast.testing.intake import RecordingIntake

AWAY_SECONDS = 200  # names of messages: so many seconds, for the mark stays a minute behind


class SlackApp:
    """One app and its folder, connected and away by turns."""

    def __init__(self, vendor: FakeSlack, base_url: str, folder: Path) -> None:
        self.vendor = vendor
        self.intake = RecordingIntake()
        self._base_url = base_url
        self._folder = folder
        self.clock = ManualClock(1.79e9)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        platform = new_platform(self.vendor, self._base_url, folder=self._folder, clock=self.clock)
        async with platform.connect(self.intake):
            yield
            await until(lambda: not self.vendor.waiting)

    async def first_contact(self) -> None:
        """It has heard from Ann, and in the channel; then a while passes."""
        async with self.connected():
            self.vendor.say("first")
            self.vendor.say(f"<@{BOT_USER}> hi", chat=CHANNEL, by=BOB)
        self.pass_time()

    def pass_time(self) -> None:
        self.clock.at += AWAY_SECONDS
        for _ in range(AWAY_SECONDS):
            self.vendor.tick()

    def say_undelivered(self, text: str, **more: object) -> dict[str, object]:
        """Slack has given up on bringing it."""
        said = self.vendor.say(text, **more)  # type: ignore[arg-type]  # as `say` takes them
        self.vendor.waiting.clear()
        return said

    @property
    def texts(self) -> list[str]:
        return [each.text for each in self.intake.accepted]


@pytest.fixture
def app(vendor: FakeSlack, base_url: str, tmp_path: Path) -> SlackApp:
    return SlackApp(vendor, base_url, tmp_path / "slack")


async def test_messages_that_slack_no_longer_delivers_are_fetched_from_the_history_in_order(
    app: SlackApp,
) -> None:
    """G1: in the chat of two, in a channel, and in the thread that was spoken in there."""
    await app.first_contact()
    root = app.vendor.messages[1]["ts"]
    app.say_undelivered("second")
    app.say_undelivered(f"<@{BOT_USER}> more", chat=CHANNEL, by=BOB, thread=root)
    app.say_undelivered("third")
    app.say_undelivered(f"<@{BOT_USER}> other", chat=CHANNEL, by=BOB)
    async with app.connected():
        await until(lambda: len(app.texts) == 6)
        app.vendor.say("now")
        await until(lambda: len(app.texts) == 7)
    missed = app.intake.accepted[2:]
    assert [_chat_text_thread(each) for each in missed] == [
        (dm(ANN), "second", None),
        (dm(ANN), "third", None),
        (CHANNEL, missed[2].text, missed[2].message_id),
        (CHANNEL, missed[3].text, root),
        (dm(ANN), "now", None),
    ]
    assert missed[2].text.endswith("other") and missed[3].text.endswith("more")
    assert all(each.mentioned for each in missed[2:4])


async def test_stored_messages_are_not_accepted_again_and_later_ones_are(
    app: SlackApp,
) -> None:
    """G2: the history names messages as events do, so intake knows them."""
    await app.first_contact()
    app.say_undelivered("second")
    async with app.connected():
        await until(lambda: "second" in app.texts)
    looked_at = len(app.intake.attempted)
    app.clock.at += AWAY_SECONDS
    async with app.connected():
        await until(lambda: len(app.intake.attempted) > looked_at)  # the mark stays a minute behind
        app.vendor.say("third")
        await until(lambda: "third" in app.texts)
    assert app.texts[-2:] == ["second", "third"] and app.texts.count("second") == 1


async def test_a_short_restart_reads_the_history_at_once(app: SlackApp) -> None:
    """Slack delivers again what was not accepted, but only after one minute, and after five."""
    async with app.connected():
        app.vendor.say("one")
        await until(lambda: app.texts == ["one"])
    app.clock.at += 75
    app.say_undelivered("two")
    async with app.connected():
        await until(lambda: app.texts == ["one", "two"])


async def test_a_live_message_waits_only_for_the_history_of_its_own_chat(app: SlackApp) -> None:
    """Otherwise each restart of a large workspace would delay all of its chats."""
    await app.first_contact()
    app.say_undelivered("second")
    app.say_undelivered(f"<@{BOT_USER}> other", chat=CHANNEL, by=BOB)
    # The first history that is read is Ann's; the vendor answers none until the test says so.
    app.vendor.history_go[dm(ANN)] = asyncio.Event()
    async with app.connected():
        await until(lambda: app.vendor.calls.count("conversations.history") == 1)
        app.vendor.say(f"<@{BOT_USER}> now", chat=CHANNEL, by=BOB)
        await until(lambda: len(app.texts) == 4)
        app.vendor.history_go[dm(ANN)].set()
        await until(lambda: len(app.texts) == 5)
    assert [text.rpartition(" ")[2] for text in app.texts[2:]] == ["other", "now", "second"]


async def test_a_new_app_reads_no_history(app: SlackApp) -> None:
    async with app.connected():
        app.vendor.say("hello")
        await until(lambda: app.texts == ["hello"])
    assert not [call for call in app.vendor.calls if call.startswith("conversations.")]


async def test_a_history_is_read_over_several_pages_and_a_rate_limit(app: SlackApp) -> None:
    await app.first_contact()
    for number in range(230):
        app.say_undelivered(f"{number}")
    app.vendor.faults.add("conversations.history", flood(0))
    async with app.connected():
        await until(lambda: "229" in app.texts)
    assert [text for text in app.texts if text.isdigit()] == [str(n) for n in range(230)]


async def test_a_chat_that_may_not_be_read_blocks_no_other(app: SlackApp) -> None:
    await app.first_contact()
    app.say_undelivered(f"<@{BOT_USER}> other", chat=CHANNEL, by=BOB)
    app.vendor.faults.add("conversations.history", SlackError("missing_scope", needed="im:history"))
    async with app.connected():
        await until(lambda: any(text.endswith("other") for text in app.texts))


async def test_a_deeply_nested_history_blocks_no_other(app: SlackApp) -> None:
    await app.first_contact()
    app.say_undelivered("deep", blocks=DEEP)
    app.say_undelivered(f"<@{BOT_USER}> other", chat=CHANNEL, by=BOB)
    async with app.connected():
        await until(lambda: any(text.endswith("other") for text in app.texts))
        app.vendor.say("on the line", blocks=DEEP)
        await until(lambda: "on the line" in app.texts)
    assert app.intake.disconnects == []


async def test_a_failed_history_request_ends_the_connection_and_keeps_the_checkpoint(
    app: SlackApp,
) -> None:
    await app.first_contact()
    app.say_undelivered("second")
    app.vendor.faults.add("conversations.history", ConnectionFault.ERROR_AFTER)
    async with app.connected():
        await until(lambda: app.intake.disconnects)
    assert "second" not in app.texts
    async with app.connected():
        await until(lambda: "second" in app.texts)


async def test_an_invalid_message_in_the_history_is_skipped(app: SlackApp) -> None:
    await app.first_contact()
    app.say_undelivered("odd", files=[7])
    app.say_undelivered("second")
    async with app.connected():
        await until(lambda: "second" in app.texts)
    assert "odd" not in app.texts


async def test_a_message_that_the_store_rejects_is_retried(app: SlackApp) -> None:
    await app.first_contact()
    app.say_undelivered("second")
    app.intake.fail_next(StoreError("disk full"))
    async with app.connected():
        await until(lambda: "second" in app.texts)


async def test_posted_events_wait_for_the_backlog(
    vendor: FakeSlack, base_url: str, tmp_path: Path
) -> None:
    app = SlackApp(vendor, base_url, tmp_path)
    await app.first_contact()
    app.say_undelivered("second")
    platform = new_platform(vendor, base_url, posted=True, folder=tmp_path)
    async with listening(platform) as url, platform.connect(app.intake):
        await until(lambda: "second" in app.texts)
        vendor.say("third")
        async with posting(vendor, url):
            await until(lambda: "third" in app.texts)
    assert app.texts[-2:] == ["second", "third"]


async def test_an_invalid_checkpoint_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "heard.json"
    path.write_text('{"until": "soon"}')
    record = await SlackCheckpoint.load(path, now=7.0)
    assert (record.until, record.chats, record.threads) == (7.0, {}, ())
    await record.add_chat("D1", "im")
    for number in range(60):
        await record.add_thread(("D1", str(number)))
    await record.advance("500.000100")
    written = json.loads(path.read_text())
    assert (written["until"], written["chats"]) == (440.0001, {"D1": "im"})
    assert (len(written["threads"]), written["threads"][-1]) == (50, ["D1", "59"])


async def test_the_vendors_client_reads_the_fake_history(vendor: FakeSlack, base_url: str) -> None:
    """The pretend history is not shaped to our code: the vendor's client pages through it."""
    said = [vendor.say(str(number)) for number in range(5)]
    client = AsyncWebClient(token=vendor.token, base_url=f"{base_url}/")
    found: list[str] = []
    async for page in await client.conversations_history(
        channel=dm(ANN), oldest=said[1]["ts"], limit=2
    ):
        found += [each["text"] for each in page["messages"]]
    assert found == ["4", "3", "2"]


def _chat_text_thread(inbound: Inbound) -> tuple[str, str, str | None]:
    return inbound.source.chat_id, inbound.text, inbound.source.thread_id

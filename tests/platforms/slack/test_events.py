"""Tests how Socket Mode events become inbound messages."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.platforms.slack.builders import new_platform, until
from tests.platforms.slack.fake import ANN, BOB, BOT, BOT_USER, CHANNEL, FakeSlack, dm
from tests.platforms.slack.fake_web_api import FakeWebApi
from tests.platforms.slack.faults import SlackError, flood

from holdfast.core.errors import AccountDisconnected, ConnectRefused, NotAllowed, StoreError
from holdfast.core.messages.inbox import Accepted, Inbound
from holdfast.core.messages.source import Attachment, Author, ChatType
from holdfast.core.secrets import Secret
from holdfast.platforms.slack.client import SlackClient
from holdfast.platforms.slack.events import plain_text
from holdfast.platforms.slack.receiver import SocketModeConnection
from holdfast.testing.intake import RecordingIntake


@pytest.fixture
def intake() -> RecordingIntake:
    return RecordingIntake()


@asynccontextmanager
async def connected(
    vendor: FakeSlack, base_url: str, intake: RecordingIntake, **settings: Any
) -> AsyncIterator[None]:
    """Until all that was said is acknowledged."""
    async with new_platform(vendor, base_url, **settings).connect(intake):
        yield
        await until(lambda: not vendor.waiting)


class AckCountingIntake(RecordingIntake):
    """Looks, each time it is asked, how much was acknowledged by then."""

    def __init__(self, vendor: FakeSlack) -> None:
        super().__init__()
        self.acknowledged: list[int] = []
        self._vendor = vendor

    async def accept(self, inbound: Inbound, attachments: Sequence[Attachment] = ()) -> Accepted:
        self.acknowledged.append(len(self._vendor.acks))
        return await super().accept(inbound, attachments)


async def test_an_envelope_is_acknowledged_once_it_is_durable_and_not_before(
    vendor: FakeSlack, base_url: str
) -> None:
    """G1: the Slack envelope ack comes after the commit, however often that is tried."""
    intake = AckCountingIntake(vendor)
    intake.fail_next(StoreError("disk full"))
    async with connected(vendor, base_url, intake):
        vendor.say("hello")
        await intake.wait_for_attempts(2)
    assert intake.acknowledged == [0, 0]
    assert len(vendor.acks) == 1


async def test_a_mention_with_two_events_is_one_message(
    vendor: FakeSlack, base_url: str, intake: RecordingIntake
) -> None:
    """G2: `message` and `app_mention` have event ids of their own, and are about one message."""
    async with connected(vendor, base_url, intake):
        said = vendor.say(f"<@{BOT_USER}> is &lt;this&gt; so?", chat=CHANNEL)
    (inbound,) = intake.accepted
    assert len(intake.attempted) == 2
    assert inbound.text == "is <this> so?"
    assert inbound.mentioned
    assert inbound.source.chat_type is ChatType.GROUP
    assert inbound.source.user_name == "Ann"
    assert inbound.source.thread_id == said["ts"]


async def test_a_message_has_the_language_of_its_sender(
    vendor: FakeSlack, base_url: str, intake: RecordingIntake
) -> None:
    async with connected(vendor, base_url, intake):
        vendor.say("hallo")
        vendor.say("hello", by=BOB, chat=CHANNEL)
    languages = {each.source.user_id: each.source.language for each in intake.accepted}
    assert languages == {ANN: "de-DE", BOB: "en-US"}


async def test_a_mention_alone_is_a_message_too(
    vendor: FakeSlack, base_url: str, intake: RecordingIntake
) -> None:
    async with connected(vendor, base_url, intake):
        vendor.say(f"<@{BOT_USER}>", chat=CHANNEL)
    assert [each.text for each in intake.accepted] == ["@holdfast"]


async def test_a_thread_has_its_own_id_and_knows_its_author(
    vendor: FakeSlack, base_url: str, intake: RecordingIntake
) -> None:
    """Groups: what is said under a message of ours answers it."""
    ours = vendor.post(CHANNEL, {"text": "who is in?"})
    hers = vendor.say("lunch?", chat=CHANNEL)
    async with connected(vendor, base_url, intake):
        vendor.say("me", by=BOB, chat=CHANNEL, thread=ours["ts"])
        vendor.say("yes", by=BOB, chat=CHANNEL, thread=hers["ts"])
    lunch, me, yes = intake.accepted
    assert (me.source.thread_id, yes.source.thread_id) == (ours["ts"], hers["ts"])
    assert lunch.source.thread_id == hers["ts"]
    assert me.quoted is not None and me.quoted.ours
    assert yes.quoted is not None and not yes.quoted.ours
    assert not any(each.mentioned for each in intake.accepted)


async def test_without_threads_a_channel_is_one_conversation(
    vendor: FakeSlack, base_url: str, intake: RecordingIntake
) -> None:
    async with connected(vendor, base_url, intake, threads=False):
        vendor.say("hello", chat=CHANNEL)
    assert intake.accepted[0].source.thread_id is None


async def test_only_an_edit_by_a_user_is_an_edit(
    vendor: FakeSlack, base_url: str, intake: RecordingIntake
) -> None:
    """G2: Slack also reports that a link was unfurled; that is not a message."""
    async with connected(vendor, base_url, intake):
        said = vendor.say("see https://example.org")
        vendor.revise(said, "see https://example.org", edited=False)
        vendor.revise(said, "see nothing")
        vendor.event(
            {"type": "message", "subtype": "channel_join", "channel": CHANNEL, "ts": "1.1"}
        )
        vendor.event({"type": "reaction_added", "user": ANN})
        vendor.event({"type": "message", "channel": 7})
    assert [each.text for each in intake.attempted] == ["see https://example.org", "see nothing"]


async def test_bots_are_distinguished_from_people_and_our_own_messages_are_skipped(
    vendor: FakeSlack, base_url: str, intake: RecordingIntake
) -> None:
    """Loops: what the account itself wrote comes back to it, and so does each of its changes."""
    async with connected(vendor, base_url, intake):
        vendor.say("beep", chat=CHANNEL, by=BOB, bot_id="B0OTHER")
        vendor.say("mine", chat=CHANNEL, by=BOT_USER, bot_id=BOT)
        vendor.say("boop", chat=CHANNEL, by=BOB, subtype="bot_message", bot_id="B0HOOK")
    assert [each.text for each in intake.attempted] == ["beep", "boop"]
    assert {each.source.author for each in intake.attempted} == {Author.BOT}


async def test_a_button_press_is_a_message_of_its_user_in_the_thread(
    vendor: FakeSlack, base_url: str, intake: RecordingIntake
) -> None:
    """Buttons: each press is an event of its own, acknowledged after the commit."""
    asked = vendor.post(CHANNEL, {"text": "may I?", "thread_ts": "1790000000.000001"})
    async with connected(vendor, base_url, intake):
        vendor.press(asked, "/approve 1", by=BOB)
        vendor.press(asked, "/approve 1", by=ANN)
    first, second = intake.accepted
    assert (first.text, first.source.user_id) == ("/approve 1", BOB)
    assert first.mentioned
    assert first.source.thread_id == "1790000000.000001"
    assert first.event_id != second.event_id


@pytest.mark.parametrize(
    ("command", "text", "said"),
    [
        ("/holdfast", "stop", "/stop"),
        ("/holdfast", "/new now", "/new now"),
        ("/stop", "", "/stop"),
        ("/holdfast", "what is new?", "what is new?"),
        ("/holdfast", "", "/help"),
    ],
)
async def test_a_slash_command_is_a_command_or_a_message_to_the_agent(
    vendor: FakeSlack, base_url: str, intake: RecordingIntake, command: str, text: str, said: str
) -> None:
    async with connected(vendor, base_url, intake):
        vendor.command(command, text)
    assert [each.text for each in intake.accepted] == [said]
    assert intake.accepted[0].source.chat_id == dm(ANN)


async def test_a_refused_command_gets_a_reason_and_one_that_cannot_be_stored_fails(
    vendor: FakeSlack, base_url: str, intake: RecordingIntake
) -> None:
    """Slack delivers a command once, and tells its user that it failed if there is no answer."""
    intake.fail_next(NotAllowed("not on the list"), StoreError("disk full"))
    async with new_platform(vendor, base_url).connect(intake):
        vendor.command("/stop")
        vendor.command("/new")
        await intake.wait_for_attempts(2)
        vendor.say("hello")
        await until(lambda: len(vendor.acks) == 2)
    (refused,) = [each for each in vendor.acks if each["type"] == "slash_commands"]
    assert refused["answer"]["payload"] == {"text": "Das darfst du hier nicht."}
    assert [each["payload"]["command"] for each in vendor.waiting] == ["/new"]
    assert [each.text for each in intake.accepted] == ["hello"]


async def test_a_command_does_not_wait_for_an_event_that_cannot_be_stored_yet(
    vendor: FakeSlack, base_url: str, intake: RecordingIntake
) -> None:
    """Commands: three seconds are all that Slack gives them, whatever becomes of an event."""
    plan = vendor.upload("plan.txt", b"the plan", base_url)
    asking = {"id": plan["id"], "file_access": "check_file_info"}
    vendor.faults.add("files.info", *[flood(1)] * 3)
    async with connected(vendor, base_url, intake):
        vendor.say("here", files=[asking])
        await until(lambda: "files.info" in vendor.calls)
        vendor.command("/stop")
        await until(lambda: vendor.acks)
        assert [each.text for each in intake.accepted] == ["/stop"]
    assert [each.text for each in intake.accepted] == ["/stop", "here"]


async def test_files_reach_intake_also_those_that_need_a_lookup(
    vendor: FakeSlack, base_url: str, intake: RecordingIntake
) -> None:
    """Attachments in: also those of another workspace, whose event has only their name."""
    plan = vendor.upload("plan.txt", b"the plan", base_url)
    shared = vendor.upload("shared.txt", b"shared", base_url)
    bare = {"id": shared["id"], "file_access": "check_file_info"}
    async with connected(vendor, base_url, intake):
        vendor.say("", files=[plan, bare])
    assert intake.attachments == [("plan.txt", b"the plan"), (f"file-{shared['id']}", b"shared")]


async def test_the_token_is_sent_only_to_slack(vendor: FakeSlack, base_url: str) -> None:
    client = SlackClient(Secret(vendor.token), base_url=base_url)
    async with client.open(lambda: None, lambda error: None):
        for url in ("http://127.0.0.1:1/x", "https://slack.com.example.org/x", "https://x.org/x"):
            with pytest.raises(Exception, match="outside of Slack"):
                await client.download(url, max_bytes=9)


async def test_a_socket_that_slack_replaces_is_reopened_without_loss(
    vendor: FakeSlack, base_url: str, web_api: FakeWebApi, intake: RecordingIntake
) -> None:
    async with connected(vendor, base_url, intake):
        vendor.say("one")
        await until(lambda: vendor.acks)
        await web_api.sockets.disconnect("refresh_requested")
        await until(lambda: vendor.sockets == 2)
        vendor.say("two")
    assert [each.text for each in intake.accepted] == ["one", "two"]
    assert intake.disconnects == []


async def test_a_lost_socket_and_a_disabled_socket_mode_are_reported(
    vendor: FakeSlack, base_url: str, web_api: FakeWebApi, intake: RecordingIntake
) -> None:
    async with new_platform(vendor, base_url).connect(intake):
        await web_api.sockets.close()
        await until(lambda: intake.disconnects)
    async with new_platform(vendor, base_url).connect(intake):
        await web_api.sockets.disconnect("link_disabled")
        await until(lambda: len(intake.disconnects) == 2)
    async with new_platform(vendor, base_url).connect(intake):
        await web_api.sockets.disconnect("too_many_websockets")
        await until(lambda: len(intake.disconnects) == 3)
    assert [type(each) for each in intake.disconnects] == [
        AccountDisconnected,
        ConnectRefused,
        AccountDisconnected,
    ]


async def test_a_half_open_socket_reports_no_activity(
    vendor: FakeSlack, base_url: str, web_api: FakeWebApi, intake: RecordingIntake
) -> None:
    """Law 9: each answer to a ping is a proof, and no other sign is needed."""
    proofs: list[int] = []
    client = SlackClient(Secret(vendor.token), base_url=base_url, timeout=5)
    async with client.open(lambda: None, lambda error: None), asyncio.TaskGroup() as side:
        socket = SocketModeConnection(
            client,
            Secret(vendor.app_token),
            on_activity=lambda: proofs.append(1),
            ping_interval=0.01,
        )
        await socket.open()
        tasks = [side.create_task(socket.listen()), side.create_task(socket.send_pings())]
        await until(lambda: len(proofs) > 3)
        web_api.sockets.half_open = True
        heard, pings = len(proofs), web_api.sockets.pings
        await until(lambda: web_api.sockets.pings > pings + 5)
        for task in tasks:
            task.cancel()
        await socket.close()
    assert len(proofs) <= heard + 2  # answers that were on their way


@pytest.mark.parametrize(
    ("method", "error", "expected"),
    [
        ("auth.test", SlackError("invalid_auth"), "invalid_auth"),
        ("auth.test", SlackError("account_inactive"), "account_inactive"),
        ("apps.connections.open", SlackError("invalid_auth"), "invalid_auth"),
        (
            "apps.connections.open",
            SlackError("missing_scope", needed="connections:write", provided=""),
            "connections:write",
        ),
    ],
)
async def test_a_configuration_error_at_slack_is_refused_with_a_remedy(
    vendor: FakeSlack,
    base_url: str,
    intake: RecordingIntake,
    method: str,
    error: SlackError,
    expected: str,
) -> None:
    vendor.faults.add(method, error)
    with pytest.raises(ConnectRefused, match=expected) as refused:
        async with new_platform(vendor, base_url).connect(intake):
            pass
    assert "api.slack.com/apps" in str(refused.value.remedy)


async def test_an_app_that_may_not_write_is_refused_with_the_scope(
    vendor: FakeSlack, base_url: str, intake: RecordingIntake
) -> None:
    vendor.scopes = "im:history"
    with pytest.raises(ConnectRefused, match="chat:write"):
        async with new_platform(vendor, base_url).connect(intake):
            pass


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("<@U0BOT>: /stop", "/stop"),
        ("ask <@U0BOT> and <@U0ANN|ann>", "ask @U0BOT and @ann"),
        ("<#C1|general> <!here> <!subteam^S1|@team>", "#general @here @team"),
        ("<https://example.org|the page>", "the page (https://example.org)"),
        ("<http://example.org|example.org> <mailto:a@b.c|a@b.c>", "example.org a@b.c"),
        ("a &amp;lt; b &lt; c", "a &lt; b < c"),
    ],
)
def test_message_text_is_converted_to_plain_text(written: str, read: str) -> None:
    assert plain_text(written, own_user_id=BOT_USER) == read

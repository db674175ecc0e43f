"""Tests a gateway on IRC, from incoming message to reply."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.platforms.irc import fake_ircv3
from tests.platforms.irc.builders import new_platform, settings_for, until
from tests.platforms.irc.fake_ircv3 import CHANNEL, FakeIrcServer
from tests.platforms.irc.ngircd import irc_user
from tests.support.approvals import RM
from tests.support.platform_gateway import PlatformGatewayHarness, running_harness

from holdfast.core.ids import CallId
from holdfast.core.messages.outbox import DeliveryState
from holdfast.core.messages.transcript import ToolCall, UserMessage
from holdfast.core.people.approval import ApprovalState
from holdfast.core.ports.store_queries import ListApprovals


@pytest.fixture
async def harness(tmp_path: Path, server: FakeIrcServer) -> AsyncIterator[PlatformGatewayHarness]:
    settings = settings_for(server.port, channels=(CHANNEL,), allow=("ann", "bob"))
    platform = new_platform(settings, tmp_path / "irc")
    async with running_harness(
        PlatformGatewayHarness(tmp_path, platform, settings, texts=server.texts)
    ) as made:
        await until(lambda: server.session is not None and server.session.channels)
        yield made


async def test_on_a_real_server_an_allowed_user_gets_replies_and_approves_by_text(
    tmp_path: Path, port: int, new_nick: Callable[[str], str]
) -> None:
    """J3: there are no buttons; authorisation goes by the whole of nick, user and host."""
    bot = new_nick("bot")
    async with irc_user(port, new_nick("ann")) as ann, irc_user(port, new_nick("eve")) as eve:
        settings = settings_for(port, nick=bot, allow=(ann.mask,))
        harness = PlatformGatewayHarness(
            tmp_path, new_platform(settings, tmp_path / "irc"), settings, texts=ann.texts
        )
        async with running_harness(harness):
            harness.model.say([ToolCall(id=CallId("c1"), name="shell", arguments=RM)], "**done**")
            while not ann.texts():
                ann.say("clean up", bot)
                await until(lambda: {"401"} & set(ann.verbs()) or ann.texts())
                ann.read[:] = [received for received in ann.read if received.command != "401"]
            await until(lambda: "I wait for" in ann.texts()[-1])
            eve.say("!approve", bot)
            await until(eve.texts)
            assert ann.texts()[-1] != "\x02done\x02"
            ann.say("!approve", bot)
            await until(lambda: ann.texts()[-1] == "\x02done\x02")
            (approval,) = await harness.store.read(ListApprovals(limit=5))
    assert approval.state is ApprovalState.APPROVED


async def test_in_a_channel_only_a_mention_gets_a_reply(
    harness: PlatformGatewayHarness, server: FakeIrcServer
) -> None:
    """Groups: the agent knows who speaks."""
    harness.model.say("here")
    server.say("lunch?", to=CHANNEL, by=fake_ircv3.BOB)
    server.say("holdfast: are you there?", to=CHANNEL)
    await harness.wait_for_texts("here")
    assert server.bot_messages[0].param(0) == CHANNEL
    (asked,) = [
        each for each in harness.model.requests[0].messages if isinstance(each, UserMessage)
    ]
    assert (asked.speaker, asked.text) == ("ann", "are you there?")


async def test_a_message_sent_while_the_gateway_was_down_is_answered_once_after_the_start(
    harness: PlatformGatewayHarness, server: FakeIrcServer
) -> None:
    """G1, G2: also in a channel, from the history that the server keeps."""
    harness.model.say("first", "second", "third")
    server.say("hi")
    await harness.wait_for_texts("first")
    await harness.wait_for_deliveries(DeliveryState.SENT, 1)
    await harness.die()
    server.say("anybody?")
    server.say("holdfast, you?", to=CHANNEL, by=fake_ircv3.BOB)
    await harness.start()
    await until(lambda: len(server.bot_messages) == 3)
    assert sorted(server.texts()) == ["first", "second", "third"]
    await harness.wait_for_deliveries(DeliveryState.SENT, 3)
    assert (await harness.ledger()) == {"answered": 3}


async def test_a_reply_without_a_receipt_is_sent_once_more_and_marked(
    harness: PlatformGatewayHarness, server: FakeIrcServer
) -> None:
    """I2: it is not possible to ask whether a line has arrived."""
    server.faults.append(fake_ircv3.reset_after)
    harness.model.say("hello")
    server.say("hi")
    await harness.wait_for_texts("hello", "(This may have reached you before.)", "hello")
    await harness.wait_for_deliveries(DeliveryState.SENT, 1)


async def test_a_long_reply_is_sent_completely_in_several_messages(
    harness: PlatformGatewayHarness, server: FakeIrcServer
) -> None:
    """Chunking: a message is a few lines, so that little is repeated where one is in doubt."""
    lines = [f"line {number}" for number in range(30)]
    harness.model.say("\n".join(lines))
    server.say("count")
    await until(lambda: len(server.bot_messages) == 30)
    assert server.texts() == lines
    await harness.wait_for_deliveries(DeliveryState.SENT, 1)

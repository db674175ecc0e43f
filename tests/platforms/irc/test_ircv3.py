"""Tests IRCv3 features: accounts, delivery confirmation, and the server's history."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.platforms.irc import fake_ircv3
from tests.platforms.irc.builders import address, new_platform, outbound, settings_for, until
from tests.platforms.irc.fake_ircv3 import ALL, ANN, BOB, CHANNEL, PASSWORD, FakeIrcServer

from holdfast.core.config.settings import ChatSettings
from holdfast.core.errors import (
    AccountDisconnected,
    ConnectRefused,
    OutcomeUnknown,
    SendRejected,
    Throttled,
)
from holdfast.core.messages.source import Author
from holdfast.core.ports.capabilities import Backlog
from holdfast.platforms.irc.platform import IrcPlatform
from holdfast.testing.intake import RecordingIntake

NewPlatform = Callable[..., IrcPlatform]


@pytest.fixture
def open_platform(server: FakeIrcServer, tmp_path: Path) -> NewPlatform:
    def make(**more: Any) -> IrcPlatform:
        settings = settings_for(server.port, channels=(CHANNEL,))
        return new_platform(settings, tmp_path, **more)

    return make


async def test_it_logs_in_by_sasl_before_registration_ends(
    server: FakeIrcServer, open_platform: NewPlatform
) -> None:
    """https://ircv3.net/specs/extensions/sasl-3.1: a long password comes in pieces."""
    server.password = "pass phrase " * 50
    async with open_platform(password=server.password).connect(RecordingIntake()):
        assert server.session is not None
        pieces = [each for each in server.session.received if each.command == "AUTHENTICATE"]
        assert len(pieces) == 4  # the mechanism, and three of at most 400


@pytest.mark.parametrize(
    ("mapping", "chat"),
    [("rfc1459", "#ops[1]"), ("rfc1459-strict", "#ops[1]"), ("ascii", "#ops{1}")],
)
async def test_a_channel_is_one_chat_however_the_server_writes_it(
    server: FakeIrcServer, tmp_path: Path, mapping: str, chat: str
) -> None:
    """https://modern.ircdocs.horse/#casemapping-parameter: the chat is called as the configuration
    calls it, if it does; and so is one that a person sends a message to."""
    server.features = f"CASEMAPPING={mapping} CHANTYPES=#"
    settings = settings_for(
        server.port, channels=("#Team", "#ops[1]", "#ops{1}"), chats={"#Ops[1]": ChatSettings()}
    )
    platform, intake = new_platform(settings, tmp_path, password=PASSWORD), RecordingIntake()
    assert (platform.normalise_chat_id("#TEAM"), platform.normalise_chat_id("Ann")) == (
        "#team",
        "Ann",
    )
    async with platform.connect(intake):
        for channel in ("#TEAM", "#team", "#OPS{1}", "#oPs[1]"):
            server.say("holdfast: hello", to=channel)
        received = await intake.wait_for_attempts(4)
        assert [platform.normalise_chat_id(each) for each in ("#OPS{1}", "#Ops[1]")] == [
            chat,
            "#ops[1]",
        ]
        await platform.send(outbound("hi", platform.normalise_chat_id("#OPS{1}")))
    assert [each.source.chat_id for each in received] == ["#team", "#team", chat, "#ops[1]"]


async def test_wrong_credentials_are_refused_permanently(
    open_platform: NewPlatform,
) -> None:
    """A bad password parks the account: trying again changes nothing."""
    with pytest.raises(ConnectRefused) as refused:
        async with open_platform(password="wrong").connect(RecordingIntake()):
            pass
    assert "platforms.irc.password" in str(refused.value.remedy)
    assert "wrong" not in str(refused.value)


async def test_a_password_is_an_error_when_the_server_has_no_sasl(
    server: FakeIrcServer, open_platform: NewPlatform
) -> None:
    server.offered = ALL - {"sasl"}
    with pytest.raises(ConnectRefused, match="SASL"):
        async with open_platform(password=PASSWORD).connect(RecordingIntake()):
            pass


async def test_a_user_is_identified_by_account_and_not_by_nick(
    server: FakeIrcServer, open_platform: NewPlatform
) -> None:
    """https://ircv3.net/specs/extensions/account-tag; bots: bot-mode; replies: the reply tag."""
    platform, intake = open_platform(), RecordingIntake()
    async with platform.connect(intake):
        receipt = await platform.send(outbound("hello", CHANNEL))
        server.say("one", by="annie!~a@elsewhere.example", account="ann")
        server.say("two", by="ann!~evil@elsewhere.example", account="*")
        server.say("beep", to=CHANNEL, by=BOB, bot="")
        server.say("so?", to=CHANNEL, answers=receipt.platform_message_id)
        await until(lambda: len(intake.accepted) == 4)
    by_text = {each.text: each for each in intake.accepted}
    one, two, beep, so = (by_text[text] for text in ("one", "two", "beep", "so?"))
    assert (one.source.user_id, one.source.chat_id) == ("ann", "ann")
    assert two.source.user_id == "ann!~evil@elsewhere.example"
    assert beep.source.author is Author.BOT
    assert so.quoted is not None
    assert so.quoted.ours
    assert so.source.author is Author.PERSON


async def test_a_reply_goes_to_the_current_nick_of_the_account(
    server: FakeIrcServer, open_platform: NewPlatform
) -> None:
    platform, intake = open_platform(), RecordingIntake()
    async with platform.connect(intake):
        server.say("hello", by="annie!~a@home.example", account="ann")
        (received,) = await intake.wait_for_attempts(1)
        await platform.send(outbound("hello", received.source.chat_id))
    assert server.bot_messages[-1].param(0) == "annie"
    server.names = {"ann": "mallory!~m@elsewhere.example"}
    async with platform.connect(intake):
        with pytest.raises(SendRejected, match="another person"):
            await platform.send(outbound("hello", "ann"))


@pytest.mark.parametrize("less", [set(), {"labeled-response"}, {"echo-message"}])
async def test_a_receipt_means_that_the_server_accepted_every_line(
    server: FakeIrcServer, open_platform: NewPlatform, less: set[str]
) -> None:
    """I2: its echo, known by its label; its echo; else the answer to a PING behind it."""
    server.offered = ALL - less
    platform = open_platform()
    async with platform.connect(RecordingIntake()):
        receipt = await platform.send(outbound("one\ntwo\nthree", "ann"))
        assert server.texts() == ["one", "two", "three"]
        named = receipt.platform_message_id
        assert named == ("d1" if "echo-message" in less else server.history[0].tags["msgid"])
        server.faults.append(fake_ircv3.flood)
        with pytest.raises(Throttled) as raised:
            await platform.send(outbound("four", "ann"))
        assert raised.value.retry_after == 7
        server.faults.append(fake_ircv3.gone)
        with pytest.raises(SendRejected):
            await platform.send(outbound("four", "ann"))
    assert "four" not in server.texts()


async def test_a_line_without_a_response_has_an_unknown_outcome(
    server: FakeIrcServer, open_platform: NewPlatform
) -> None:
    """I2: a timeout after it was written → unknown."""
    platform = open_platform(timeout=1.5)
    async with platform.connect(RecordingIntake()):
        server.faults.append(fake_ircv3.unanswered)
        with pytest.raises(OutcomeUnknown):
            await platform.send(outbound("hello", "ann"))


async def test_a_lost_connection_is_reported_and_its_pending_send_is_unknown(
    server: FakeIrcServer, open_platform: NewPlatform
) -> None:
    """I2: written and not confirmed → unknown; what is sent again says so."""
    platform, intake = open_platform(), RecordingIntake()
    async with platform.connect(intake):
        server.faults += [fake_ircv3.reset_after]
        with pytest.raises(OutcomeUnknown):
            await platform.send(outbound("hello", "ann"))
        await until(lambda: intake.disconnects)
    async with platform.connect(intake):
        await platform.send(outbound("hello", "ann", may_be_duplicate=True))
    assert server.texts() == ["hello", "(This may have reached you before.)", "hello"]
    assert isinstance(intake.disconnects[0], AccountDisconnected)


async def test_disconnecting_ends_a_pending_send(
    server: FakeIrcServer, open_platform: NewPlatform
) -> None:
    """C8: a send that has no answer yet ends with the connection."""
    platform = open_platform()
    async with platform.connect(RecordingIntake()):
        server.faults.append(fake_ircv3.unanswered)
        sending = asyncio.create_task(platform.send(outbound("hello", "ann")))
        await until(lambda: server.bot_messages)
    with pytest.raises(OutcomeUnknown):
        await sending


async def test_typing_is_shown_where_the_server_relays_it(
    server: FakeIrcServer, open_platform: NewPlatform
) -> None:
    """https://ircv3.net/specs/client-tags/typing"""
    platform = open_platform()
    async with platform.connect(RecordingIntake()):
        assert platform.capabilities.typing
        await platform.show_typing(address(CHANNEL))
        assert server.session is not None
        lines = server.session.received
        await until(lambda: any(each.command == "TAGMSG" for each in lines))
    server.features += " CLIENTTAGDENY=*,-react"
    async with platform.connect(RecordingIntake()):
        assert not platform.capabilities.typing


async def test_messages_sent_while_disconnected_are_found_in_the_history(
    server: FakeIrcServer, open_platform: NewPlatform
) -> None:
    """G1: alone and in channels, page by page, and nothing from before the first time."""
    platform, intake = open_platform(), RecordingIntake()
    server.say("before we ever came", to=CHANNEL)
    async with platform.connect(intake):
        assert platform.capabilities.backlog is Backlog.HISTORY
        server.say("while we are here", to=CHANNEL)
        await intake.wait_for_attempts(1)
        await platform.send(outbound("our own words", CHANNEL))
    missed = [f"missed {number}" for number in range(8)]
    for text in missed:
        server.say(text, to=CHANNEL)
    users = [f"p{number}!~p@far.example" for number in range(5)]
    for number, each in enumerate(users):
        server.say(f"alone {number}", by=each)
    async with platform.connect(intake):
        server.say("back again", to=CHANNEL)
        await until(lambda: len(intake.accepted) == 15)
    texts = [each.text for each in intake.accepted]
    assert texts[0] == "while we are here"
    assert [text for text in texts if text in missed] == missed
    assert texts.index("back again") > texts.index("missed 7")
    assert {f"alone {number}" for number in range(5)} <= set(texts)


async def test_the_history_of_every_channel_is_requested_when_the_server_lists_no_chats(
    server: FakeIrcServer, open_platform: NewPlatform
) -> None:
    server.lists_chats = False
    platform, intake = open_platform(), RecordingIntake()
    async with platform.connect(intake):
        pass
    server.say("missed", to=CHANNEL)
    async with platform.connect(intake):
        await until(lambda: [each.text for each in intake.accepted] == ["missed"])


async def test_an_unrequested_playback_is_not_taken_for_new_messages(
    server: FakeIrcServer, open_platform: NewPlatform
) -> None:
    """https://ircv3.net/specs/batches/chathistory: some servers bring it at each JOIN."""
    server.offered = ALL - {"draft/chathistory"}
    platform, intake = open_platform(), RecordingIntake()
    async with platform.connect(intake):
        assert server.session is not None
        for line in (
            f":irc.test BATCH +x chathistory {CHANNEL}",
            f"@batch=x;time=2020-01-01T00:00:00.000Z :{ANN} PRIVMSG {CHANNEL} :holdfast: old",
            ":irc.test BATCH -x",
        ):
            server.session.write(line)
        server.say("new", to=CHANNEL)
        await intake.wait_for_attempts(1)
    assert [each.text for each in intake.attempted] == ["new"]


async def test_messages_without_an_id_with_the_same_text_and_time_are_one_event(
    server: FakeIrcServer, open_platform: NewPlatform
) -> None:
    """G2: bouncers may not be able to provide ids of messages."""
    platform, intake = open_platform(), RecordingIntake()
    async with platform.connect(intake):
        assert server.session is not None
        line = f"@time=2030-01-01T00:00:00.000Z :{ANN} PRIVMSG {CHANNEL} :hello"
        server.session.write(line)
        server.session.write(line)
        server.session.write(line.replace("00.000Z", "00.001Z"))
        await intake.wait_for_attempts(3)
    assert len(intake.accepted) == 2

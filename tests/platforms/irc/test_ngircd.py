"""Tests the IRC platform on a real server: receiving, sending and failures."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.platforms.irc.builders import AdvancingClock, new_platform, outbound, settings_for, until
from tests.platforms.irc.ngircd import SERVER_PASSWORD, IrcUser, Ngircd, irc_user, running

from holdfast.core.errors import (
    AccountDisconnected,
    ConnectRefused,
    NotConnected,
    OutcomeUnknown,
    SendRejected,
    StoreError,
)
from holdfast.core.messages.source import ChatType
from holdfast.core.ports.capabilities import Backlog
from holdfast.platforms.irc.platform import IrcPlatform
from holdfast.platforms.irc.plugin import KeyedChannel
from holdfast.testing.conformance import FaultProxy
from holdfast.testing.intake import RecordingIntake

NewNick = Callable[[str], str]


@pytest.fixture
async def ann(port: int, new_nick: NewNick) -> AsyncIterator[IrcUser]:
    async with irc_user(port, new_nick("Ann")) as user:
        yield user


@pytest.fixture
def bot(new_nick: NewNick) -> str:
    return new_nick("bot")


@pytest.fixture
def channel(new_nick: NewNick) -> str:
    return new_nick("#team")


@pytest.fixture
def platform(port: int, bot: str, channel: str, tmp_path: Path) -> IrcPlatform:
    return new_platform(settings_for(port, nick=bot, channels=(channel,)), tmp_path, ping=0.05)


async def test_private_and_channel_messages_reach_intake_in_order(
    platform: IrcPlatform, ann: IrcUser, bot: str, channel: str
) -> None:
    """Groups: who is named is meant; colours and questions of programs are no words."""
    intake = RecordingIntake()
    async with platform.connect(intake):
        ann.do("JOIN", channel)
        ann.say("\x02\x0304,12hello\x0f there", bot)
        ann.say("\x01VERSION\x01", bot)
        ann.do("NOTICE", bot, "I am away")
        ann.say("lunch, anybody?", channel)
        ann.say(f"{bot.upper()}: are you there?", channel)
        ann.say(f"\x01ACTION waves at {bot}\x01", channel)
        ann.say(f"not to {bot}x", channel)
        received = await intake.wait_for_attempts(5)
    assert [(each.text, each.mentioned) for each in received] == [
        ("hello there", False),
        ("lunch, anybody?", False),
        ("are you there?", True),
        (f"* {ann.nick} waves at {bot}", True),
        (f"not to {bot}x", False),
    ]
    alone, together = received[0].source, received[1].source
    assert (alone.chat_id, alone.chat_type) == (ann.mask, ChatType.DM)
    assert (together.chat_id, together.chat_type) == (channel, ChatType.GROUP)
    assert {each.source.user_id for each in received} == {ann.mask}
    assert alone.user_name == ann.nick
    assert len({each.event_id for each in received}) == 5


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("!stop", "/stop"),
        (" /stop", "/stop"),
        ("{bot}: !new", "/new"),
        ("{bot}, /status", "/status"),
        ("!weather", "!weather"),
        ("{bot}", "{bot}"),
        ("!", "!"),
    ],
)
async def test_commands_may_start_with_an_exclamation_mark(
    platform: IrcPlatform, ann: IrcUser, bot: str, said: str, text: str
) -> None:
    intake = RecordingIntake()
    async with platform.connect(intake):
        ann.say(said.format(bot=bot), bot)
        (received,) = await intake.wait_for_attempts(1)
    assert received.text == text.format(bot=bot)


async def test_an_unaddressed_command_in_a_channel_is_not_a_command(
    platform: IrcPlatform, ann: IrcUser, bot: str, channel: str
) -> None:
    intake = RecordingIntake()
    async with platform.connect(intake):
        ann.do("JOIN", channel)
        ann.say("!help", channel)
        ann.say(f"{bot}: !help", channel)
        received = await intake.wait_for_attempts(2)
    assert [each.text for each in received] == ["!help", "/help"]


async def test_a_message_that_cannot_be_stored_is_retried_until_it_is(
    platform: IrcPlatform, ann: IrcUser, bot: str
) -> None:
    """G1: the server does not deliver it again, so it is not dropped."""
    assert platform.capabilities.backlog is Backlog.NONE
    intake = RecordingIntake()
    intake.fail_next(StoreError("disk full"))
    async with platform.connect(intake):
        ann.say("one", bot)
        ann.say("two", bot)
        await intake.wait_for_attempts(3)
    assert [each.text for each in intake.accepted] == ["one", "two"]


async def test_a_message_arrives_complete_in_lines_that_the_server_does_not_truncate(
    port: int, bot: str, ann: IrcUser, tmp_path: Path
) -> None:
    """Chunking: 512 bytes with the prefix that others get, and the longest name of a channel."""
    long = f"#{ann.nick}".ljust(50, "x")
    platform = new_platform(settings_for(port, nick=bot, channels=(long,)), tmp_path)
    async with platform.connect(RecordingIntake()):
        ann.do("JOIN", long)
        await until(lambda: "366" in ann.verbs())
        await platform.send(outbound("🦆" * 450, long))
        assert platform.fits("\n".join("abcdefgh"))
        assert not platform.fits("\n".join("abcdefghi"))
        half = "half an emoji: \ud83e"
        assert platform.fits(half)
        await platform.send(outbound(half, long))
        await platform.send(outbound("**one**\n\n- two\n- *three*", long))
        await until(lambda: any("three" in text for text in ann.texts()))
    ducks = [text for text in ann.texts() if "🦆" in text]
    assert "".join(ducks) == "🦆" * 450
    assert len(ducks) > 4
    assert ann.texts()[-3:] == ["\x02one\x02", "• two", "• \x1dthree\x1d"]


async def test_a_reply_follows_a_changed_nick(
    port: int, ann: IrcUser, bot: str, channel: str, new_nick: NewNick, tmp_path: Path
) -> None:
    """Also after so long that the server is asked who that is."""
    clock, intake = AdvancingClock(), RecordingIntake()
    settings = settings_for(port, nick=bot, channels=(channel,))
    platform = new_platform(settings, tmp_path, clock=clock)
    async with platform.connect(intake):
        ann.do("JOIN", channel)
        ann.say("hello", bot)
        (received,) = await intake.wait_for_attempts(1)
        ann.do("NICK", new_nick("anna"))
        ann.say("here I am", bot)
        await intake.wait_for_attempts(2)
        for seconds in (0, 3600):
            clock.passed = seconds
            await platform.send(outbound(f"after {seconds}", received.source.chat_id))
        await until(lambda: ann.texts() == ["after 0", "after 3600"])


async def test_a_reply_is_not_sent_to_a_new_owner_of_the_nick(
    port: int, platform: IrcPlatform, new_nick: NewNick
) -> None:
    """A nick has no owner: after a restart, the server is asked who that is."""
    nick = new_nick("carl")
    mask = f"{nick}!~{nick}@127.0.0.1"
    async with platform.connect(RecordingIntake()):
        async with irc_user(port, nick) as carl:
            await platform.send(outbound("for carl", mask))
            await until(lambda: carl.texts() == ["for carl"])
        async with irc_user(port, new_nick("mallory")) as mallory:
            while "NICK" not in mallory.verbs():  # it is free once the server has noticed
                mallory.do("NICK", nick)
                await asyncio.sleep(0.02)
            with pytest.raises(SendRejected, match=nick):
                await platform.send(outbound("for carl", mask))
            assert mallory.texts() == []


async def test_an_absent_user_and_an_invalid_target_are_refused(platform: IrcPlatform) -> None:
    """I2: a complaint of the server comes before its answer to a PING."""
    async with platform.connect(RecordingIntake()):
        for chat in ("nobody!~no@body.example", "nobody", "two,targets", "a b", "#a\r\nQUIT"):
            with pytest.raises(SendRejected):
                await platform.send(outbound("hello", chat))
        await platform.probe()


async def test_a_message_that_a_channel_does_not_accept_is_refused(
    port: int, platform: IrcPlatform, ann: IrcUser, new_nick: NewNick
) -> None:
    """I2; a channel that the bot cannot join does not keep it from the others."""
    closed, moderated = new_nick("#closed"), new_nick("#moderated")
    ann.do("JOIN", f"{closed},{moderated}")
    ann.do("MODE", closed, "+i")
    ann.do("MODE", moderated, "+m")
    await until(lambda: ann.verbs().count("MODE") == 2)
    async with platform.connect(RecordingIntake()):
        for chat in (closed, moderated):
            with pytest.raises(SendRejected, match=chat):
                await platform.send(outbound("hello", chat))
    with pytest.raises(NotConnected):
        await platform.send(outbound("hello", closed))


async def test_a_locked_channel_is_joined_with_its_key(
    port: int, ann: IrcUser, bot: str, channel: str, tmp_path: Path
) -> None:
    ann.do("JOIN", channel)
    ann.do("MODE", channel, "+k", "sesame")
    await until(lambda: "MODE" in ann.verbs())
    settings = settings_for(port, nick=bot, locked={channel: KeyedChannel(key="env:KEY")})
    platform = new_platform(settings, tmp_path, **{f"locked.{channel}.key": "sesame"})
    async with platform.connect(RecordingIntake()):
        await platform.send(outbound("hello", channel))
        await until(lambda: ann.texts() == ["hello"])


async def test_a_connection_lost_after_a_message_leaves_the_outcome_unknown(
    port: int, ann: IrcUser, bot: str, channel: str, tmp_path: Path
) -> None:
    """I2: it was written, and the answer to the PING behind it never came."""
    ann.do("JOIN", channel)
    await until(lambda: "366" in ann.verbs())
    async with FaultProxy(port) as proxy:
        platform = new_platform(settings_for(proxy.port, nick=bot, channels=(channel,)), tmp_path)
        intake = RecordingIntake()
        async with platform.connect(intake):
            proxy.drop_next_response()
            with pytest.raises(OutcomeUnknown):
                await platform.send(outbound("hello", channel))
            await until(lambda: intake.disconnects)
    await until(lambda: ann.texts() == ["hello"])


async def test_a_nick_in_use_is_reclaimed_once_it_is_free(
    port: int, platform: IrcPlatform, bot: str, ann: IrcUser
) -> None:
    intake = RecordingIntake()
    async with irc_user(port, bot) as other, platform.connect(intake):
        ann.say("hello", f"{bot}_")
        await intake.wait_for_attempts(1)
        other.do("QUIT", "bye")
        while len(intake.attempted) < 2:
            ann.say("and now?", bot)
            await asyncio.sleep(0.02)


async def test_a_channel_is_rejoined_after_a_kick(
    platform: IrcPlatform, ann: IrcUser, bot: str, channel: str
) -> None:
    ann.do("JOIN", channel)
    await until(lambda: "366" in ann.verbs())  # who comes first may kick others
    async with platform.connect(RecordingIntake()):
        await until(lambda: ann.verbs().count("JOIN") == 2)
        ann.do("KICK", channel, bot, "be quiet")
        await until(lambda: ann.verbs().count("JOIN") == 3)


async def test_the_certificate_of_the_server_is_verified(
    ngircd: Ngircd, bot: str, tmp_path: Path
) -> None:
    known = settings_for(ngircd.tls_port, nick=bot, tls=True, ca_file=str(ngircd.certificate))
    unknown = settings_for(ngircd.tls_port, nick=bot, tls=True)
    intake = RecordingIntake()
    async with new_platform(known, tmp_path).connect(intake):
        assert intake.confirmations
    with pytest.raises(AccountDisconnected, match="ca_file"):
        async with new_platform(unknown, tmp_path).connect(intake):
            pass


async def test_a_wrong_server_password_is_refused_permanently(bot: str, tmp_path: Path) -> None:
    with running(tmp_path, password=SERVER_PASSWORD) as guarded:
        settings = settings_for(guarded.port, nick=bot)
        async with new_platform(settings, tmp_path, server_password=SERVER_PASSWORD).connect(
            RecordingIntake()
        ):
            pass
        with pytest.raises(ConnectRefused) as refused:
            async with new_platform(settings, tmp_path, server_password="wrong").connect(
                RecordingIntake()
            ):
                pass
    assert "platforms.irc.server_password" in str(refused.value.remedy)


async def test_an_unreachable_server_is_retried(tmp_path: Path) -> None:
    with pytest.raises(AccountDisconnected, match="cannot be reached"):
        async with new_platform(settings_for(1), tmp_path).connect(RecordingIntake()):
            pass

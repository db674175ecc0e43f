"""Tests the parts of the IRC protocol: lines, names, formatting and the flood limiter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.platforms.irc.client import FloodLimiter
from holdfast.platforms.irc.events import (
    IrcMessage,
    IrcNames,
    format_line,
    is_valid_target,
    parse_line,
    strip_formatting,
)
from holdfast.platforms.irc.history import format_timestamp

_VALUE = st.text(st.characters(codec="utf-8", exclude_characters="\x00"))
_LAST = st.text(st.characters(codec="utf-8", exclude_characters="\x00\r\n"))


@given(tag=_VALUE, last=_LAST)
def test_a_formatted_line_parses_to_the_same_message(tag: str, last: str) -> None:
    """https://ircv3.net/specs/extensions/message-tags#escaping-values"""
    received = parse_line(format_line("PRIVMSG", "#team", last, tags={"+note": tag, "label": "x"}))
    assert received is not None
    assert (received.command, received.params) == ("PRIVMSG", ("#team", last))
    assert received.tags == {"+note": tag, "label": "x"}


@pytest.mark.parametrize("ending", ["\r", "\n", "\x00"])
def test_no_formatted_line_contains_a_second_command(ending: str) -> None:
    for params in (("#team", f"hi{ending}QUIT :bye"), (f"#team{ending}", "hi")):
        with pytest.raises(ValueError, match="line end"):
            format_line("PRIVMSG", *params)


@given(st.binary(max_size=80))
def test_any_bytes_of_a_server_can_be_parsed(raw: bytes) -> None:
    received = parse_line(raw)
    assert received is None or received.command


@pytest.mark.parametrize(
    ("raw", "received"),
    [
        (b"PING :irc.test\r\n", IrcMessage(command="PING", params=("irc.test",))),
        (b":irc.test  001  me :a :b\n", IrcMessage(
            command="001", params=("me", "a :b"), source="irc.test"
        )),
        (b"@a;b= :ann!a@b join #x\r\n", IrcMessage(
            command="JOIN", params=("#x",), source="ann!a@b", tags={"a": "", "b": ""}
        )),
        (b"@a=\\b\\:\\s\\\\\\ X\r\n", IrcMessage(command="X", tags={"a": "b; \\"})),
        (b":ann!a@b PRIVMSG #x :gr\xfc\xdfe\r\n", IrcMessage(
            command="PRIVMSG", params=("#x", "grüße"), source="ann!a@b"
        )),
        (b"\r\n", None),
    ],
)  # fmt: skip
def test_a_line_is_parsed_by_the_grammar(raw: bytes, received: IrcMessage | None) -> None:
    """https://modern.ircdocs.horse/#message-format"""
    assert parse_line(raw) == received


def test_names_are_compared_by_the_casemapping_of_the_server() -> None:
    """https://modern.ircdocs.horse/#casemapping-parameter"""
    assert IrcNames({}).is_same("Ann[1]~", "ann{1}^")
    assert not IrcNames({"CASEMAPPING": "ascii"}).is_same("ann[1]", "ann{1}")
    assert IrcNames({"CASEMAPPING": "ascii"}).is_same("ANN", "ann")
    assert IrcNames({"STATUSMSG": "@+"}).is_status_message("@#Team")
    assert not IrcNames({"STATUSMSG": "@+"}).is_status_message("#team")
    assert not IrcNames({}).is_channel("ann")


@pytest.mark.parametrize(
    ("text", "named", "rest"),
    [
        ("Bot: hello", True, "hello"),
        ("@bot hello", True, "hello"),
        ("bot,hello", True, "hello"),
        ("bot !stop", True, "!stop"),
        ("bot is down", True, "bot is down"),
        ("hello bot!", True, "hello bot!"),
        ("bot-like", False, "bot-like"),
        ("robot: hello", False, "robot: hello"),
        ("bot's idea", True, "bot's idea"),
    ],
)
def test_a_nick_is_mentioned_only_as_a_whole_word(text: str, named: bool, rest: str) -> None:
    names = IrcNames({})
    assert (names.mentions(text, "bot"), names.strip_nick(text, "bot")) == (named, rest)


def test_colours_are_removed_and_an_action_is_kept() -> None:
    """https://modern.ircdocs.horse/formatting and https://modern.ircdocs.horse/ctcp"""
    assert (
        strip_formatting("\x0304,1a\x03 \x04FF00FFb\x0f \x02\x1d\x1f\x1e\x11\x16c", nick="ann")
        == "a b c"
    )
    assert strip_formatting("\x0312345", nick="ann") == "345"
    assert strip_formatting("\x01ACTION waves\x01", nick="ann") == "* ann waves"
    assert strip_formatting("\x01VERSION\x01", nick="ann") is None


def test_an_invalid_target_is_rejected() -> None:
    assert all(is_valid_target(name) for name in ("#team", "ann", "ann!~a@b", "[x]"))
    assert not any(is_valid_target(name) for name in ("", "a b", "a,b", ":a", "a\r\nQUIT", "a\x00"))


async def test_the_flood_limit_of_the_server_is_never_exceeded() -> None:
    """RFC 1459, 8.10: some at once, then one in so many seconds, and as many again after a rest."""
    now, sent = 0.0, []

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    limiter = FloodLimiter(burst=3, seconds_per_line=2.0, monotonic=lambda: now, sleep=sleep)
    for _ in range(6):
        await limiter.acquire()
        sent.append(now)
    assert sent == [0.0, 0.0, 0.0, 2.0, 4.0, 6.0]
    assert not limiter.has_spare
    now += 60
    assert limiter.has_spare
    for _ in range(4):
        await limiter.acquire()
        sent.append(now)
    assert sent[6:] == [66.0, 66.0, 66.0, 68.0]


def test_timestamps_sort_by_time() -> None:
    """https://ircv3.net/specs/extensions/server-time"""
    assert format_timestamp(0.001) == "1970-01-01T00:00:00.001Z"
    assert (
        format_timestamp(0)
        < format_timestamp(0.001)
        < format_timestamp(1.5)
        < format_timestamp(86400)
    )

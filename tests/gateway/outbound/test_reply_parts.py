"""Splitting: a reply is split by the length limit of its platform, in the units of the platform."""

from contextlib import nullcontext
from typing import Any

from hypothesis import given
from tests.platforms.text.sample_texts import QUICK, markdown

from holdfast.core.messages.outbox import Outbound, Receipt
from holdfast.core.ports.capabilities import Capabilities, LengthUnit
from holdfast.core.ports.platform import Intake
from holdfast.core.text.splitting import message_length
from holdfast.gateway.outbound.sender import split_for_platform
from holdfast.platforms.text import discord


class PlainPlatform:
    """A platform that shows texts as they are."""

    name = "plain"
    account = "default"

    def __init__(self, limit: int | None, unit: LengthUnit = LengthUnit.CHARACTERS) -> None:
        self.capabilities = Capabilities(max_length=limit, length_unit=unit)

    def connect(self, intake: Intake) -> Any:
        return nullcontext()

    async def send(self, outbound: Outbound) -> Receipt:
        raise AssertionError("nothing is sent here")


class RenderingPlatform(PlainPlatform):
    """A platform that renders Markdown."""

    def fits(self, text: str) -> bool:
        return discord.fits(text, limit=self.capabilities.max_length or 0)


def test_a_reply_without_a_limit_is_one_message() -> None:
    assert split_for_platform("word " * 5000, PlainPlatform(None)) == ("word " * 5000,)


def test_a_reply_is_split_in_the_units_of_the_platform() -> None:
    """I3: Telegram counts most emoji twice, IRC counts bytes."""
    text = "😀 ok " * 40
    for unit, most in ((LengthUnit.UTF16, 60), (LengthUnit.BYTES, 60)):
        parts = split_for_platform(text, PlainPlatform(60, unit))
        assert all(message_length(part, unit) <= most for part in parts)
        assert "".join(parts).split() == text.split()


def test_a_reply_is_split_by_its_rendered_length() -> None:
    text = "snake_case_word " * 6  # each underscore is escaped there
    assert len(split_for_platform(text, PlainPlatform(100))) == 1
    parts = split_for_platform(text, RenderingPlatform(100))
    assert len(parts) == 2 and all(len(discord.render(part)) <= 100 for part in parts)


def test_invisible_markup_does_not_count_for_the_split() -> None:
    text = "![](https://e.org/p.png) " + "**b** " * 10

    class MarkupFreePlatform(RenderingPlatform):
        def fits(self, text: str) -> bool:
            return len(text.replace("*", "")) <= 70

    assert len(split_for_platform(text, PlainPlatform(70))) > 1
    assert split_for_platform(text, MarkupFreePlatform(70)) == (text,)


@QUICK
@given(markdown)
def test_every_process_splits_a_reply_alike(text: str) -> None:
    """I4: a reply that one process began is continued by another, part by part."""
    assert split_for_platform(text, RenderingPlatform(80)) == split_for_platform(
        text, RenderingPlatform(80)
    )
